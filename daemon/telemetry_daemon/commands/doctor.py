"""`telemetry doctor`: examines sources, kernel, daemon and limits, and prints what is wrong and what to do."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError

EXAMPLES = {
    "telemetry doctor": "Examine this node.",
    "telemetry doctor --source nvml --all": "Look at one source with every detail.",
    "telemetry doctor --bundle bug.tar.gz": "Write everything for a bug report, with identities masked.",
    "telemetry doctor --node gpu07 --format json": "Examine another node by its daemon's report, as JSON.",
}

# The root of the kernel's files.
ROOT = Path("/")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
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
        help="write everything for a bug report into a .tar.gz, with identities masked",
    )
    options.add_credentials(parser)
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings, or write a bundle. Return 2 if something is wrong."""
    _check(arguments)
    exits.raise_on_signals()
    log.setup("error", "text")
    # Not needed for the help.
    from telemetry_daemon.commands import doctor_examination as doctor

    if arguments.bundle is not None:
        text, found = doctor.bundle(arguments, ROOT)
    else:
        text, found = doctor.report(arguments, ROOT)
    sys.stdout.write(text)
    return exits.PROBLEMS if found else exits.OK


def _check(arguments: argparse.Namespace) -> None:
    if arguments.source and (arguments.node is not None or arguments.bundle is not None):
        flag = "--node" if arguments.node is not None else "--bundle"
        raise CommandError(f"--source examines one source, and {flag} examines all; leave one of them out")
    if arguments.bundle is not None and arguments.format != "text":
        raise CommandError("--bundle writes both formats; leave --format out")
