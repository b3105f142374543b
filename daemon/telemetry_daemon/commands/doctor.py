"""`telemetry doctor`: finds problems with sources, kernel, daemon and limits, and prints remedies."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError

EXAMPLES = {
    "telemetry doctor": "Examine this node.",
    "telemetry doctor --source nvml --all": "Examine one source in detail.",
    "telemetry doctor --bundle bug.tar.gz": "Write all data for a bug report, and mask identifying values.",
    "telemetry doctor --node gpu07 --format json": "Examine another node through its daemon, and print JSON.",
}

# Tests replace this root of /proc, /sys and /dev.
ROOT = Path("/")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    options.add_source(parser, "check")
    parser.add_argument("--all", action="store_true", help="also show the search paths of missing tools and libraries")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--node", metavar="NODE", help="examine another node: HOST, HOST:PORT or the URL of its daemon")
    group.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="write all data for a bug report into a .tar.gz file, and mask identifying values",
    )
    options.add_credentials(parser)
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings or write a bundle, and return the exit status."""
    _check_flags(arguments)
    exits.raise_on_signals()
    log.setup("error", "text")
    # Imported on demand, because the help does not need this module.
    from telemetry_daemon.commands import doctor_examination as doctor

    if arguments.bundle is not None:
        text, finding_count = doctor.write_bundle(arguments, ROOT)
    else:
        text, finding_count = doctor.create_report(arguments, ROOT)
    sys.stdout.write(text)
    return exits.PROBLEMS if finding_count else exits.OK


def _check_flags(arguments: argparse.Namespace) -> None:
    if arguments.source and (arguments.node is not None or arguments.bundle is not None):
        flag = "--node" if arguments.node is not None else "--bundle"
        raise CommandError(f"--source and {flag} cannot be combined, because {flag} examines all sources")
    if arguments.bundle is not None and arguments.format != "text":
        raise CommandError("--bundle writes both formats; leave --format out")
