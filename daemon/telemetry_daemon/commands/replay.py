"""`telemetry replay`: pauses, moves or accelerates the recording that the running daemon plays."""

from __future__ import annotations

import argparse

from telemetry_daemon.commands import options
from telemetry_daemon.recordings import playback_clock
from telemetry_daemon.recordings.survey import FORMS
from telemetry_daemon.remote.control_requests import Played
from telemetry_daemon.remote.control_socket import ask_daemon
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human

EXAMPLES = {
    "telemetry replay seek 03:12:07": "Have the daemon that plays a recording go there.",
    "telemetry replay pause": "Have it stand still.",
}

_TAKES = {"seek": "a moment", "speed": "a number"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
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
        metavar="TIME|TIMES",
        nargs="?",
        default="",
        help=f"with `seek`: {FORMS}; with `speed`: {playback_clock.SLOWEST:g} to {playback_clock.FASTEST:g}",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the request to the running daemon, and print the new position."""
    action, value = arguments.action, arguments.value
    if bool(value) != (action in _TAKES):
        wanted = f"give {_TAKES[action]}" if action in _TAKES else f"leave '{value}' out"
        raise CommandError(f"telemetry replay {action}: {wanted}")
    played = ask_daemon(options.settings(arguments), Played, "replay", action=action, value=value)
    how = f", {played.how}" if played.how else ""
    position, length = human.seconds(round(played.place)), human.seconds(round(played.length))
    print(f"{position} of {length}: {human.utc(played.shown)} as recorded{how}")
    return exits.OK
