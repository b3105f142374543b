"""Moments of a recording as people write them: `90s`, `end-30s`, `03:12:07`, `2026-11-23T03:12:07Z`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from telemetry_daemon.replay.places import Survey
from telemetry_daemon.replay.stretches import Stretch
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import seconds_of
from telemetry_exporters import human

_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# What people read off a screen is cut to seconds.
_ROUNDING_SECONDS = 1.0
_MOST_NAMED = 3
FORMS = "90s or 5m from the beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"


@dataclass(frozen=True, slots=True)
class Moment:
    """What somebody wrote, and where that is in a recording: seconds from its beginning, None if it is nowhere."""

    text: str
    of: Callable[[Survey], float | None]

    def place(self, survey: Survey) -> float:
        """The seconds from the beginning of that recording. Raises CommandError if it was not recording then."""
        place = self.of(survey)
        if place is not None and -_ROUNDING_SECONDS <= place <= survey.length + _ROUNDING_SECONDS:
            return min(max(0.0, place), survey.length)
        length = human.seconds(round(survey.length, 1))
        raise CommandError(f"'{self.text}' is outside the recording, which is of {_times(survey)} ({length})")


def moment(text: str) -> Moment:
    """The moment that a text names. Raises ValueError."""
    text = text.strip()
    day = _TIME_OF_DAY.match(text)
    if day is not None:
        hours, minutes, seconds = (int(part or 0) for part in day.groups())
        return Moment(text, partial(_of_day, timedelta(hours=hours, minutes=minutes, seconds=seconds)))
    before_end = 0.0 if text.lower() == "end" else seconds_of(text[4:]) if text.lower().startswith("end-") else None
    if before_end is not None:
        return Moment(text, lambda survey: survey.length - before_end)
    from_begin = seconds_of(text)
    if from_begin is not None:
        return Moment(text, lambda _: from_begin)
    try:
        told = datetime.fromisoformat(text.replace("Z", "+00:00"))
        unix = (told if told.tzinfo else told.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is no moment of a recording; write {FORMS}") from None
    return Moment(text, lambda survey: _first(survey, lambda _: unix))


def _first(survey: Survey, wanted: Callable[[Stretch], float]) -> float | None:
    """The first place at which it was as late as is wanted of its stretch, None if it never was."""
    for one in survey.wall_times.stretches():
        since = wanted(one) - one.wall_time
        if -_ROUNDING_SECONDS <= since <= one.seconds + _ROUNDING_SECONDS:
            return one.place + min(max(0.0, since), one.seconds)
    return None


def _of_day(time: timedelta, survey: Survey) -> float | None:
    """The first time that it was so late on a day in UTC, since the recording began."""
    return _first(survey, partial(_next, time))


def _next(time: timedelta, stretch: Stretch) -> float:
    begun = datetime.fromtimestamp(stretch.wall_time, timezone.utc)
    midnight = begun.replace(hour=0, minute=0, second=0, microsecond=0)
    told = (midnight + time).timestamp()
    is_over = told - stretch.wall_time < -_ROUNDING_SECONDS
    return told + timedelta(days=1).total_seconds() if is_over else told


def _times(survey: Survey) -> str:
    """From when to when it was recorded, of each stretch, the first of many."""
    stretches = [
        (human.utc(one.wall_time), human.utc(one.wall_time + one.seconds)) for one in survey.wall_times.stretches()
    ]
    named = [f"{begun} to {ended}" for begun, ended in stretches[:_MOST_NAMED]]
    more = len(stretches) - len(named)
    return ", then ".join([*named, f"{more} more"] if more else named)
