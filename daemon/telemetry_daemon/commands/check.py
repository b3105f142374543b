"""`telemetry check`: a verdict and exit status for schedulers and monitoring systems, in the style of monitoring plugins."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from telemetry_daemon.commands import options
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:  # imported when a node is examined
    from telemetry_daemon.commands.rendering import Answer
    from telemetry_exporters.judgement.checkup import Checkup

EXAMPLES = {
    "telemetry check": "Judge this node, as a plugin of Icinga or Nagios.",
    "telemetry check --format nhc --thresholds /etc/telemetry/check.toml": "The same for a node health check, with numbers of your own.",
}

FORMATS = ("nagios", "nhc", "npd", "json")
_USUAL_SECONDS = 20.0
_UNKNOWN = 3
_EXPECTED = "telemetry_devices_expected"
_ON_BUS = "telemetry_pci_devices"
_COUNT_LINE = re.compile(rf'({_EXPECTED}|{_ON_BUS})\{{vendor="([a-z]{{1,32}})"\}} ([0-9.]{{1,9}})\n')
# The exit status for unknown in these formats.
_UNKNOWN_OF = {"nhc": 1, "npd": 2}
_LARGEST_BYTES = 1 << 20
_MOST_DEVICES = 4096
# The thresholds of conditions. Prometheus evaluates those of alerts.
NUMBERS = (
    "ecc_corrected",
    "ecc_corrected_sram",
    "retired_pages",
    "remapped_rows",
    "limit_margin_celsius",
    "hot_celsius",
    "hot_junction_celsius",
    "critical_celsius",
    "critical_junction_celsius",
    "fan_stopped_celsius",
    "at_cap_ratio",
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The overriding thresholds in the file: numbers by name, and expected devices by vendor."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="nagios",
        help="output for Nagios and Icinga, node health checks, node-problem-detector, or JSON (default: nagios)",
    )
    parser.add_argument(
        "--thresholds", metavar="FILE", help="TOML file with [thresholds] and [expect] instead of the usual numbers"
    )
    parser.add_argument("--device", metavar="DEVICE", help="judge only devices with this index, `device` label or id")
    parser.add_argument(
        "--timeout",
        type=options.up_to_a_day,
        default=_USUAL_SECONDS,
        metavar="TIME",
        help="stop waiting for sources after TIME (default: 20s)",
    )
    options.add_origins(parser, "judge", "--node", "--demo")
    options.add_credentials(parser)
    options.add_config(parser)
    # For the functions that read the tools.
    parser.set_defaults(source=[], all=None, replay=None, origin=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict and return its status. A node that cannot be judged is unknown, with the reason."""
    from telemetry_exporters.text import clean

    try:
        checkup = _checkup(arguments)
    except CommandError as error:
        why = clean("; ".join(error.lines)).replace("|", "/")
        print(f"TELEMETRY UNKNOWN - {why}", file=sys.stderr if arguments.format == "json" else sys.stdout)
        # Node Health Check would drain a node just because of missing permissions.
        is_harmless = arguments.format == "nhc" and isinstance(error, options.NotAskedError)
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


def report_usage_error(message: str) -> int:
    """Report a usage error as monitoring plugins do: in the first line, with the status for unknown."""
    print(f"TELEMETRY UNKNOWN - {message}")
    return _UNKNOWN


def _checkup(arguments: argparse.Namespace) -> Checkup:
    from telemetry_exporters.judgement import thresholds
    from telemetry_exporters.judgement.checkup import examine
    from telemetry_exporters.snapshot_filter import screen

    changes = Changes() if arguments.thresholds is None else changes_in(arguments.thresholds)
    answer = _answer(arguments)
    shown = screen(answer.snapshot)
    wanted = None
    if arguments.device is not None:
        wanted = {device.id for device in shown.devices if options.is_called(device, arguments.device)}
        if not wanted:
            raise CommandError(f"no device is called {arguments.device!r}; `telemetry snapshot` lists them")
    with thresholds.overridden(changes.numbers):
        expected, has_accelerators = _should_have(arguments)
        return examine(shown, changes.expected or expected, wanted, has_accelerators=has_accelerators)


def _answer(arguments: argparse.Namespace) -> Answer:
    """Return the daemon's snapshot, or else one reading within the deadline. Raises CommandError."""
    from telemetry_daemon.commands import daemons

    if arguments.node is not None:
        return daemons.of_daemon(arguments)
    reported = None if arguments.demo is not None else daemons.of_daemon_here(arguments)
    if reported is not None:
        return reported
    from telemetry_daemon.commands import own_readings

    with own_readings.of_tools(arguments) as read:
        return read()


def _should_have(arguments: argparse.Namespace) -> tuple[Mapping[str, int], bool]:
    """Return how many devices of each vendor are expected, and whether there are signs of any accelerator. Raises CommandError."""
    if arguments.demo is not None:
        return {}, True
    if arguments.node is None:
        return options.settings(arguments).expect.devices, _has_accelerators()
    from telemetry_daemon.commands import daemons

    names = urlencode([("name[]", name) for name in (_EXPECTED, _ON_BUS)])
    (address,) = daemons.addresses([arguments.node], None)
    page = daemons.fetched(arguments, address, f"/metrics?{names}", arguments.timeout).decode("utf-8", "replace")
    found = [(match[1], match[2], int(float(match[3]))) for match in _COUNT_LINE.finditer(page)]
    expected = {vendor: count for name, vendor, count in found if name == _EXPECTED}
    return expected, any(count for name, _, count in found if name == _ON_BUS)


def _has_accelerators() -> bool:
    from telemetry_daemon.readers.device_nodes import NODES
    from telemetry_daemon.readers.pci import scan

    # Every graphics driver creates render nodes, even that of a server's console.
    own_nodes = (pattern.removeprefix("/dev/") for pattern in NODES if not pattern.startswith("/dev/dri/"))
    return bool(scan()) or any(any(Path("/dev").glob(pattern)) for pattern in own_nodes)


def changes_in(path: str) -> Changes:
    """Return the content of the file. Raises CommandError, which names all errors."""
    from telemetry_parsers.vendors import VENDOR_WORDS

    document = _document(path)
    numbers, expected = document.pop("thresholds", {}), document.pop("expect", {})
    whole = f"a whole number from 0 to {_MOST_DEVICES}"
    problems = [
        *(f"[{name}]: no such section; there are thresholds, expect" for name in document),
        *_problems("thresholds", numbers, "number", NUMBERS, _is_number, "a number of at least 0"),
        *_problems("expect", expected, "vendor", VENDOR_WORDS, _is_count, whole),
    ]
    if problems:
        raise CommandError(*(f"{path}: {problem}" for problem in problems))
    return Changes({name: float(value) for name, value in numbers.items()}, expected)


def _document(path: str) -> dict[str, Any]:
    from telemetry_daemon.config.inputs import toml_in

    content = options.content_of(path, _LARGEST_BYTES, "give a TOML file that you may read")
    try:
        return toml_in(content.decode())
    except ValueError as error:
        raise CommandError(f"{path}: is not valid TOML: {error}") from None


def _problems(
    section: str, given: Any, kind: str, words: Sequence[str], fits: Callable[[Any], bool], wanted: str
) -> Iterator[str]:
    from telemetry_daemon.terminal.suggestions import nearest_or_all

    if not isinstance(given, dict):
        yield f"{section}: must be a section, as in [{section}]"
        return
    for name, value in given.items():
        if name not in words:
            yield f"{section}.{name}: no such {kind}{nearest_or_all(name, words)}"
        if not fits(value):
            yield f"{section}.{name}: must be {wanted}, not {value!r}"


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_DEVICES
