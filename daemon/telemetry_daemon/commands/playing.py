"""The flags that say how a recording is played."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from telemetry_daemon.replay import speeds
from telemetry_daemon.terminal.exits import CommandError

if TYPE_CHECKING:  # the help, and who plays nothing, need none of it
    from telemetry_daemon.replay.moments import Moment
    from telemetry_daemon.replay.player import Playing

_FLAGS = ("at", "speed", "once")


def add_at(parser: argparse.ArgumentParser) -> None:
    """`--at`."""
    text = (
        "moment of the recording: 90s from its beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"
    )
    parser.add_argument("--at", type=_moment, metavar="TIME", help=text)


def add_pace(parser: argparse.ArgumentParser) -> None:
    """`--speed` and `--once`."""
    text = f"play a recording so many times as fast, {speeds.SLOWEST:g} to {speeds.FASTEST:g} (default: 1)"
    parser.add_argument("--speed", type=_speed, metavar="TIMES", help=text)
    parser.add_argument(
        "--once", action="store_true", help="stay at the end of the recording, in place of beginning anew"
    )


def _moment(text: str) -> Moment:
    from telemetry_daemon.replay.moments import moment

    try:
        return moment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _speed(text: str) -> float:
    try:
        return speeds.speed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check(arguments: argparse.Namespace) -> None:
    """Refuse flags of a recording where none is played. Raises CommandError."""
    given = [f"--{flag}" for flag in _FLAGS if getattr(arguments, flag, None)]
    if given and arguments.replay is None:
        raise CommandError(f"{given[0]} is for a recording: give it with --replay FILE")


def playing(arguments: argparse.Namespace, *, tells_then: bool) -> Playing:
    """How the recording is to be played."""
    from telemetry_daemon.replay.player import Playing

    return Playing(speed=arguments.speed or 1.0, loops=not arguments.once, tells_then=tells_then)
