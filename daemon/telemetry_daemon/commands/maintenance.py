"""`telemetry maintenance`: announces, ends or shows maintenance of the node."""

from __future__ import annotations

import argparse
import time

from telemetry_daemon.commands import options
from telemetry_daemon.remote.control_requests import MaintenanceEndResult, MaintenanceState
from telemetry_daemon.remote.control_socket import daemon_answer
from telemetry_daemon.state.maintenance import MAX_REASON_LENGTH
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human
from telemetry_exporters.text import clean

EXAMPLES = {
    "telemetry maintenance on --for 8h --reason 'new DIMMs'": "Suppress the node's alerts for eight hours.",
    "telemetry maintenance off": "End the maintenance.",
}

_DEFAULT_SECONDS = 4 * 3_600.0
_MAX_SECONDS = 30 * 86_400


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "action",
        metavar="on|off|status",
        nargs="?",
        choices=("on", "off", "status"),
        default="status",
        help="`on` starts the maintenance or changes its end time, `off` ends it, and `status` shows it (default: status)",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_parse_duration,
        metavar="TIME",
        help="with `on`: end after TIME, such as 90m or 2d, at most 30d (default: 4h)",
    )
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        help=f"with `on`: a reason of at most {MAX_REASON_LENGTH} characters, shown on the page and in the log",
    )
    options.add_config(parser)


def _parse_duration(text: str) -> float:
    """Return the seconds of a duration. Raise ArgumentTypeError if its unit is missing."""
    if text.strip().replace(".", "", 1).isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' has no unit; write 4h, 90m or 2d")
    duration = options.parse_seconds(text)
    if not 1 <= duration <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; write a duration from 1s to 30d")
    return duration


def run(arguments: argparse.Namespace) -> int:
    """Ask the running daemon to start, end or report maintenance."""
    _check_flags(arguments)
    settings = options.load_settings(arguments)
    if arguments.action == "on":
        seconds = _DEFAULT_SECONDS if arguments.seconds is None else arguments.seconds
        state = daemon_answer(settings, MaintenanceState, "maintenance_on", seconds=seconds, reason=arguments.reason)
        save_error = state.not_kept
        print(_state_text(state))
        print("Before a shutdown, let Prometheus scrape the node once more. To end: 'telemetry maintenance off'.")
    elif arguments.action == "off":
        end_result = daemon_answer(settings, MaintenanceEndResult, "maintenance_off")
        save_error = end_result.not_kept
        print("maintenance is off" if end_result.was_on else "the node was not in maintenance")
    else:
        save_error = ""
        print(_state_text(daemon_answer(settings, MaintenanceState, "maintenance")))
    if save_error:
        raise CommandError(f"this change will be lost when the daemon restarts: {save_error}", status=exits.PROBLEMS)
    return exits.OK


def _check_flags(arguments: argparse.Namespace) -> None:
    if arguments.action != "on" and (arguments.seconds is not None or arguments.reason is not None):
        raise CommandError("--for and --reason are only for 'telemetry maintenance on'", status=exits.USAGE)
    reason = arguments.reason or ""
    if len(reason) > MAX_REASON_LENGTH or clean(reason) != reason:
        text = f"--reason must be one line of at most {MAX_REASON_LENGTH} printable characters"
        raise CommandError(text, status=exits.USAGE)


def _state_text(state: MaintenanceState) -> str:
    remaining_seconds = state.ends_in
    if remaining_seconds is None:
        return "the node is not in maintenance"
    text = f"in maintenance for {human.seconds(round(remaining_seconds))} more, until {human.utc(time.time() + remaining_seconds)}"
    return f"{text}: {state.reason}" if state.reason else text
