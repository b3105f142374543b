"""`telemetry release SOURCE`: makes the running daemon close a library or tool."""

from __future__ import annotations

import argparse

from telemetry_daemon.commands import options
from telemetry_daemon.remote.control_requests import ReleaseResult
from telemetry_daemon.remote.control_socket import daemon_answer
from telemetry_daemon.terminal import exits
from telemetry_exporters import human

EXAMPLES = {"telemetry release nvml --for 10m": "Close NVML for ten minutes, so that you can reset a GPU."}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("source", metavar="SOURCE", help="a source, such as nvml; 'telemetry doctor' lists the sources")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=options.parse_seconds,
        metavar="TIME",
        help="poll the source again after TIME, such as 10m or 1h30m (default: until 'telemetry resume' or a restart)",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the daemon to release the source, and return the exit status."""
    result = daemon_answer(
        options.load_settings(arguments), ReleaseResult, "release", source=arguments.source, seconds=arguments.seconds
    )
    remaining_pids = ", ".join(map(str, result.left_behind))
    if remaining_pids:
        print(f"released {arguments.source}, but process {remaining_pids} does not exit and may still hold the device")
        return exits.PROBLEMS
    duration_text = "" if arguments.seconds is None else f" for {human.seconds(arguments.seconds)}"
    print(f"released {arguments.source}{duration_text}; 'telemetry resume {arguments.source}' undoes it")
    return exits.OK
