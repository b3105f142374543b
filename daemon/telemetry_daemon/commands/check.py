"""`telemetry check`: one verdict and exit status for schedulers and monitoring, as monitoring plugins have them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from telemetry_daemon.commands import durations, options
from telemetry_daemon.terminal.exits import CommandError

if TYPE_CHECKING:  # imported when a node is examined
    from telemetry_daemon.commands.answer import Answer
    from telemetry_exporters.judgement.checkup import Checkup

FORMATS = ("nagios", "nhc", "npd", "json")
_USUAL_SECONDS = 20.0
_UNKNOWN = 3
_EXPECTED = "telemetry_devices_expected"
_ON_BUS = "telemetry_pci_devices"
_COUNT_LINE = re.compile(rf'({_EXPECTED}|{_ON_BUS})\{{vendor="([a-z]{{1,32}})"\}} ([0-9.]{{1,9}})\n')
# What each of these takes for unknown.
_UNKNOWN_OF = {"nhc": 1, "npd": 2}


def configure(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, what of it to judge, and for whom."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="nagios",
        help="for whom: Nagios and Icinga, node health checks, node-problem-detector, or JSON (default: nagios)",
    )
    parser.add_argument(
        "--thresholds", metavar="FILE", help="TOML file with [thresholds] and [expect] instead of the usual numbers"
    )
    parser.add_argument("--device", metavar="DEVICE", help="judge only devices with this index, `device` label or id")
    parser.add_argument(
        "--timeout",
        type=durations.up_to_a_day,
        default=_USUAL_SECONDS,
        metavar="TIME",
        help="give up on what has not answered after TIME (default: 20s)",
    )
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument("--node", metavar="NODE", help="judge another node: HOST, HOST:PORT or the URL of its daemon")
    origin.add_argument("--demo", nargs="?", const="", metavar="CARDS", help="judge simulated cards, such as 8xnvidia")
    options.add_credentials(parser)
    options.add_config(parser)
    # What reading the tools asks for besides.
    parser.set_defaults(source=[], all=None, replay=None, origin=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict and return its status; what cannot be judged is unknown, and says why."""
    from telemetry_exporters.text import clean

    try:
        checkup = _checkup(arguments)
    except CommandError as error:
        from telemetry_daemon.commands.answer import NotAskedError

        why = clean("; ".join(error.lines)).replace("|", "/")
        print(f"TELEMETRY UNKNOWN - {why}", file=sys.stderr if arguments.format == "json" else sys.stdout)
        # Node Health Check would drain a node for a mere lack of permission.
        is_harmless = arguments.format == "nhc" and isinstance(error, NotAskedError)
        return 0 if is_harmless else _UNKNOWN_OF.get(arguments.format, _UNKNOWN)
    from telemetry_exporters.documents import check_formats

    writers: Mapping[str, Callable[[Checkup], str]] = {
        "nagios": check_formats.nagios,
        "nhc": check_formats.nhc,
        "npd": check_formats.npd,
        "json": check_formats.document,
    }
    statuses = {"nhc": check_formats.nhc_status, "npd": check_formats.npd_status}
    sys.stdout.write(writers[arguments.format](checkup))
    return statuses.get(arguments.format, int)(checkup.status)


def _checkup(arguments: argparse.Namespace) -> Checkup:
    """The verdict on the node. Raises CommandError where there is none."""
    from telemetry_daemon.commands.check_thresholds import Changes, changes_in
    from telemetry_exporters.judgement import thresholds
    from telemetry_exporters.judgement.checkup import examine
    from telemetry_exporters.snapshot_filter import screen

    changes = Changes() if arguments.thresholds is None else changes_in(arguments.thresholds)
    answer = _answer(arguments)
    shown = screen(answer.snapshot).snapshot
    wanted = None
    if arguments.device is not None:
        wanted = {one.id for one in shown.devices if arguments.device in (str(one.index), one.device, one.id)}
        if not wanted:
            raise CommandError(f"no device is called {arguments.device!r}; `telemetry snapshot` lists them")
    with thresholds.changed(changes.numbers):
        expected, has_accelerators = _should_have(arguments)
        return examine(shown, changes.expected or expected, wanted, has_accelerators=has_accelerators)


def _answer(arguments: argparse.Namespace) -> Answer:
    """What the daemon tells, else one reading under the deadline. Raises CommandError."""
    from telemetry_daemon.commands import answers

    if arguments.node is not None:
        return answers.of_node(arguments)
    told = None if arguments.demo is not None else answers.of_daemon_here(arguments)
    if told is not None:
        return told
    from telemetry_daemon.commands.tools import Tools

    tools = Tools(arguments)
    try:
        return tools.read()
    finally:
        tools.close()


def _should_have(arguments: argparse.Namespace) -> tuple[Mapping[str, int], bool]:
    """Return how many devices of each vendor are expected, and whether there are signs of any accelerator. Raises CommandError."""
    if arguments.demo is not None:
        return {}, True
    if arguments.node is None:
        return options.settings(arguments).expect.devices, _has_accelerators()
    from telemetry_daemon.commands import nodes
    from telemetry_daemon.remote.http_client import Client, NodeError

    (address,) = nodes.addresses([arguments.node], None)
    client = Client(address, nodes.credentials(arguments), arguments.timeout)
    names = urlencode([("name[]", name) for name in (_EXPECTED, _ON_BUS)])
    try:
        page = client.get(f"/metrics?{names}").body.decode("utf-8", "replace")
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}") from None
    finally:
        client.close()
    found = [(match[1], match[2], int(float(match[3]))) for match in _COUNT_LINE.finditer(page)]
    expected = {vendor: count for name, vendor, count in found if name == _EXPECTED}
    return expected, any(count for name, _, count in found if name == _ON_BUS)


def _has_accelerators() -> bool:
    """Return whether this node has an accelerator on its PCI bus or a device node of an accelerator's driver."""
    from telemetry_daemon.readers.device_nodes import NODES
    from telemetry_daemon.readers.pci import scan

    # Every graphics driver makes render nodes, those of a server's console included.
    own_nodes = (pattern.removeprefix("/dev/") for pattern in NODES if not pattern.startswith("/dev/dri/"))
    return bool(scan()) or any(any(Path("/dev").glob(pattern)) for pattern in own_nodes)
