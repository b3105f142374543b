"""Moments of a recording as people write them: `90s`, `end-30s`, `03:12:07`, `2026-11-23T03:12:07Z`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from telemetry_daemon.replay.places import Survey
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human

_PARTS = re.compile(
    r"(?P<end>end)?(?P<sign>-)?(?:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,3})?)|(?P<units>(?:[0-9]{1,9}[dhms]){1,4}))?\Z"
)
_UNIT = re.compile(r"([0-9]{1,9})([dhms])")
_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# What people read off a screen is cut to seconds.
_ROUNDING_SECONDS = 1.0
FORMS = "90s or 5m from the beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place from the beginning, or before the end, in seconds; a time of day; or a Unix time."""

    text: str
    from_begin: float | None = None
    before_end: float | None = None
    of_day: timedelta | None = None
    unix: float | None = None

    def place(self, survey: Survey) -> float:
        """The seconds from the beginning of that recording. Raises CommandError if it was not recording then."""
        place = self._place(survey)
        if -_ROUNDING_SECONDS <= place <= survey.length + _ROUNDING_SECONDS:
            return min(max(0.0, place), survey.length)
        begun, ended = human.utc(survey.wall_time), human.utc(survey.wall_time + survey.length)
        length = human.seconds(round(survey.length, 1))
        raise CommandError(f"'{self.text}' is outside the recording, which is of {begun} to {ended} ({length})")

    def _place(self, survey: Survey) -> float:
        if self.from_begin is not None:
            return self.from_begin
        if self.before_end is not None:
            return survey.length - self.before_end
        if self.unix is not None:
            return self.unix - survey.wall_time
        begun = datetime.fromtimestamp(survey.wall_time, timezone.utc)
        midnight = begun.replace(hour=0, minute=0, second=0, microsecond=0)
        at = (midnight + (self.of_day or timedelta())).timestamp() - survey.wall_time
        return at if at >= -_ROUNDING_SECONDS else at + timedelta(days=1).total_seconds()


def moment(text: str) -> Moment:
    """The moment that a text names. Raises ValueError."""
    text = text.strip()
    day = _TIME_OF_DAY.match(text)
    if day is not None:
        hours, minutes, seconds = (int(part or 0) for part in day.groups())
        return Moment(text, of_day=timedelta(hours=hours, minutes=minutes, seconds=seconds))
    match = _PARTS.match(text.lower())
    if match is not None and text:
        return _relative(text, match)
    try:
        told = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return Moment(text, unix=(told if told.tzinfo else told.replace(tzinfo=timezone.utc)).timestamp())
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is no moment of a recording; write {FORMS}") from None


def _relative(text: str, match: re.Match[str]) -> Moment:
    has_number = match["seconds"] or match["units"]
    seconds = float(match["seconds"] or 0) + sum(
        int(number) * _UNIT_SECONDS[unit] for number, unit in _UNIT.findall(match["units"] or "")
    )
    if match["end"] and bool(match["sign"]) == bool(has_number):
        return Moment(text, before_end=seconds)
    if has_number and not match["end"] and not match["sign"]:
        return Moment(text, from_begin=seconds)
    raise ValueError(f"'{text}' is no moment of a recording; write {FORMS}")
