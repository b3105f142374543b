"""`telemetry resume SOURCE`: makes the running daemon poll a released source again."""

from __future__ import annotations

import argparse

from telemetry_daemon.commands import options
from telemetry_daemon.remote.control_requests import ResumeResult
from telemetry_daemon.remote.control_socket import daemon_answer
from telemetry_daemon.terminal import exits

EXAMPLES = {"telemetry resume nvml": "Poll NVML again."}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("source", metavar="SOURCE", help="a source that 'telemetry release' released")
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the running daemon to poll the source again."""
    result = daemon_answer(options.load_settings(arguments), ResumeResult, "resume", source=arguments.source)
    print(f"resumed {arguments.source}" if result.resumed else f"{arguments.source} was not released")
    return exits.OK
