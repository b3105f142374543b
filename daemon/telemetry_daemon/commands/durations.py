"""Durations as the flags of commands take them, each within its limits."""

from __future__ import annotations

import argparse

from telemetry_daemon.times import seconds_of

# What a poll, a recording or a pause may take.
_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 86_400
# What a maintenance may take.
_MONTH_SECONDS = 30 * 86_400


def seconds(text: str) -> float:
    """The seconds that a text names; for argparse, so a bad one is an ArgumentTypeError."""
    duration = seconds_of(text)
    if not duration:
        raise argparse.ArgumentTypeError(f"'{text}' is not a duration; write 90s, 10m, 1h30m or 2d, or seconds")
    return duration


def up_to_a_day(text: str) -> float:
    """The same, for what takes at least a tenth of a second and at most a day."""
    duration = seconds(text)
    if not _SHORTEST_SECONDS <= duration <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; write a duration from 0.1 seconds to 1d")
    return duration


def up_to_a_month(text: str) -> float:
    """The same, for what takes at least a second and at most thirty days; with a unit, as a bare 4 may mean hours."""
    if text.strip().replace(".", "", 1).isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' has no unit; write 4h, 90m or 2d")
    duration = seconds(text)
    if not 1 <= duration <= _MONTH_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; write a duration from 1s to 30d")
    return duration
