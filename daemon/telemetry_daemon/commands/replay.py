"""`telemetry replay`: pauses, seeks or speeds up the recording that the running daemon plays."""

from __future__ import annotations

import argparse

from telemetry_daemon.commands import options
from telemetry_daemon.recordings import playback_clock
from telemetry_daemon.recordings.survey import TIME_FORMS
from telemetry_daemon.remote.control_requests import ReplayState
from telemetry_daemon.remote.control_socket import daemon_answer
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human

EXAMPLES = {
    "telemetry replay seek 03:12:07": "Move the recording that the daemon plays to this time.",
    "telemetry replay pause": "Pause it.",
}

_VALUE_BY_ACTION = {"seek": "a time", "speed": "a number"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "action",
        metavar="pause|play|seek|speed|status",
        nargs="?",
        choices=("pause", "play", "seek", "speed", "status"),
        default="status",
        help="`status`, the default, shows the position",
    )
    parser.add_argument(
        "value",
        metavar="TIME|FACTOR",
        nargs="?",
        default="",
        help=f"with `seek`: {TIME_FORMS}; with `speed`: a factor from {playback_clock.SLOWEST:g} to {playback_clock.FASTEST:g}",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Control the running daemon's playback, and print its position."""
    action, value = arguments.action, arguments.value
    if bool(value) != (action in _VALUE_BY_ACTION):
        remedy = f"give {_VALUE_BY_ACTION[action]}" if action in _VALUE_BY_ACTION else f"leave '{value}' out"
        raise CommandError(f"telemetry replay {action}: {remedy}")
    playback = daemon_answer(options.load_settings(arguments), ReplayState, "replay", action=action, value=value)
    mode = f", {playback.how}" if playback.how else ""
    position, length = human.seconds(round(playback.place)), human.seconds(round(playback.length))
    print(f"{position} of {length}: {human.utc(playback.shown)} as recorded{mode}")
    return exits.OK
