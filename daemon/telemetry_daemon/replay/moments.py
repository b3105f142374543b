"""Moments of a recording as people write them: `90s`, `end-30s`, `03:12:07`, `2026-11-23T03:12:07Z`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from telemetry_daemon.replay.places import Survey
from telemetry_daemon.spans import seconds_of
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human

_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# What people read off a screen is cut to seconds.
_ROUNDING_SECONDS = 1.0
FORMS = "90s or 5m from the beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"


@dataclass(frozen=True, slots=True)
class Moment:
    """What somebody wrote, and where that is in a recording: seconds from its beginning."""

    text: str
    of: Callable[[Survey], float]

    def place(self, survey: Survey) -> float:
        """The seconds from the beginning of that recording. Raises CommandError if it was not recording then."""
        place = self.of(survey)
        if -_ROUNDING_SECONDS <= place <= survey.length + _ROUNDING_SECONDS:
            return min(max(0.0, place), survey.length)
        begun, ended = human.utc(survey.wall_time), human.utc(survey.wall_time + survey.length)
        length = human.seconds(round(survey.length, 1))
        raise CommandError(f"'{self.text}' is outside the recording, which is of {begun} to {ended} ({length})")


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
    return Moment(text, lambda survey: unix - survey.wall_time)


def _of_day(time: timedelta, survey: Survey) -> float:
    """The first time that it was so late on a day in UTC, since the recording began."""
    begun = datetime.fromtimestamp(survey.wall_time, timezone.utc)
    midnight = begun.replace(hour=0, minute=0, second=0, microsecond=0)
    place = (midnight + time).timestamp() - survey.wall_time
    return place if place >= -_ROUNDING_SECONDS else place + timedelta(days=1).total_seconds()
