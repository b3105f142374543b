"""`telemetry doctor`: each source, the kernel, the daemon and its limits; what is wrong with any of them, and what to do about it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError

if TYPE_CHECKING:  # the help needs none of it
    from telemetry_daemon.doctor.examination import Examined

EXAMPLES = {
    "telemetry doctor": "Check what is found on this node.",
    "telemetry doctor --source nvml --all": "Look at one source with every detail.",
    "telemetry doctor --bundle bug.tar.gz": "Write all that a bug report needs, without what identifies the node.",
    "telemetry doctor --node gpu07 --format json": "What the daemon of another node tells of it, for a program.",
}

# Where the files of the kernel lie.
ROOT = Path("/")
_NODE_SECONDS = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """What to look at, how to show it, and the configuration."""
    options.add_source(parser, "check")
    parser.add_argument(
        "--all", action="store_true", help="also show where missing tools and libraries were looked for"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--node", metavar="NODE", help="ask the daemon of another node: HOST, HOST:PORT or the URL of its daemon"
    )
    what.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="write all that a bug report needs into a .tar.gz, without what identifies the node",
    )
    options.add_credentials(parser)
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is found, or write it into a bundle; 2 when something is wrong."""
    _check(arguments)
    exits.raise_on_signals()
    log.setup("error", "text")
    if arguments.bundle is not None:
        from telemetry_daemon.commands import doctor_bundle

        return doctor_bundle.run(arguments, ROOT)
    examined = _of_other(arguments) if arguments.node is not None else _of_this(arguments)
    sys.stdout.write(_text(examined, arguments))
    return exits.PROBLEMS if examined.findings else exits.OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together. Raises CommandError."""
    if arguments.source and (arguments.node is not None or arguments.bundle is not None):
        flag = "--node" if arguments.node is not None else "--bundle"
        raise CommandError(f"--source looks at this source alone, and {flag} at all; leave one of them out")
    if arguments.bundle is not None and arguments.format != "text":
        raise CommandError("--bundle writes both formats; leave --format out")


def _text(examined: Examined, arguments: argparse.Namespace) -> str:
    if arguments.format == "json":
        from telemetry_daemon.doctor.document import document
        from telemetry_exporters.documents import json_values

        return json_values.text(document(examined))
    from telemetry_daemon.doctor import report
    from telemetry_exporters.text import clean

    return "".join(f"{line}\n" for line in report.lines(examined, clean, tell_all=arguments.all))


def _of_this(arguments: argparse.Namespace) -> Examined:
    from telemetry_daemon.commands.doctor_here import examine

    return examine(arguments, ROOT, options.settings(arguments)).examined


def _of_other(arguments: argparse.Namespace) -> Examined:
    """What the daemon of another node tells. Raises CommandError."""
    from telemetry_daemon.commands import daemons
    from telemetry_daemon.doctor.examination import examined, of_other_node
    from telemetry_daemon.doctor.view import ask
    from telemetry_daemon.remote.http_client import NodeError

    (address,) = daemons.addresses([arguments.node], None)
    try:
        return examined(of_other_node(ask(address, daemons.credentials(arguments), _NODE_SECONDS)))
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None
