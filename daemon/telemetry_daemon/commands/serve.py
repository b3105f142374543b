"""`telemetry serve`: the daemon."""

from __future__ import annotations

import argparse
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.config.child import Check
from telemetry_daemon.service.unused_imports import left_out


def configure(parser: argparse.ArgumentParser) -> None:
    """The settings, and what to serve in place of this machine."""
    options.add_config(parser)
    options.add_flags(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--demo",
        nargs="?",
        const="",
        metavar="CARDS",
        help="serve simulated cards instead of this machine's, such as 8xnvidia,4xhygon (default: some of five vendors)",
    )
    instead.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="serve a recording made by 'telemetry record' instead of this machine",
    )
    options.add_at(parser)
    options.add_pace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop; does not return when it served."""
    options.check_replay(arguments)
    inputs = options.inputs(arguments)
    check = Check(inputs)
    # Imported while the configuration is checked.
    with left_out():
        from telemetry_daemon.service.serving import Instead, Recording, serve
    instead = Instead(arguments.demo)
    if arguments.replay is not None:
        how = options.playing(arguments, tells_then=False)
        instead = Instead(recording=Recording(arguments.replay, how, arguments.at))
    return serve(inputs, check, instead)
