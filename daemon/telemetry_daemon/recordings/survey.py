"""What is in a recording and when: the place of each capture in seconds from the beginning, the time of day at it, and moments as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial

from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import seconds_of
from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture

# A clock that is slewed, or was read a little later, is not one that was set.
_STEP_SECONDS = 1.0
# One that is set more often than that is not followed any more.
_MOST_STRETCHES = 1000
_MOST_POLLS = 1000
# A clock that goes further at once was another machine's, or another boot's: the recording goes on there without a pause.
_LONGEST_BACK_SECONDS, _LONGEST_FORTH_SECONDS = 60.0, 86_400.0
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# What people read off a screen is cut to seconds.
_ROUNDING_SECONDS = 1.0
_MOST_NAMED = 3
FORMS = "90s or 5m from the beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a recording in which the wall clock ran on: from which place on, at which time it began, and for how long."""

    place: float
    wall_time: float
    seconds: float = 0.0

    @property
    def ahead(self) -> float:
        """By how much the time is ahead of the place."""
        return self.wall_time - self.place


@dataclass(slots=True)
class WallTimes:
    """Learns from captures in their order. One alone that tells another time than those around it is not believed."""

    _begun: list[Stretch] = field(default_factory=list)
    _doubted: Stretch | None = None
    _length: float = 0.0

    def see(self, place: float, wall_time: float) -> None:
        """At that place it was so late."""
        seen = Stretch(place, wall_time)
        self._length = place
        if not self._begun:
            self._begun.append(seen)
        elif _is_same(seen, self._begun[-1]):
            self._doubted = None
        elif self._doubted is None or not _is_same(seen, self._doubted):
            self._doubted = seen
        elif len(self._begun) < _MOST_STRETCHES:
            kept = [one for one in self._begun if one.place < self._doubted.place]
            self._begun, self._doubted = [*kept, self._doubted], None

    def at(self, place: float) -> float:
        """How late it was at that place."""
        begun = [one for one in self._begun if one.place <= place] or self._begun[:1]
        return place + (begun[-1].ahead if begun else 0.0)

    def stretches(self) -> Iterator[Stretch]:
        """The parts in which the clock ran on, in their order."""
        ends = [one.place for one in self._begun[1:]] + [self._length]
        return (Stretch(one.place, one.wall_time, end - one.place) for one, end in zip(self._begun, ends, strict=False))


def _is_same(one: Stretch, other: Stretch) -> bool:
    return abs(one.ahead - other.ahead) < _STEP_SECONDS


@dataclass(frozen=True, slots=True)
class PlacedCapture:
    """A capture, and when it had ended; what was taken before the beginning is placed at it, with its age."""

    place: float
    age: float
    capture: Capture

    @property
    def key(self) -> Key:
        """The source and the poll."""
        return (self.capture.source, self.capture.poll)


def placed_captures(captures: Iterable[Capture]) -> Iterator[PlacedCapture]:
    """Yield each capture with its position, which never decreases. Position 0 is the first repetition of a poll; all earlier captures are at 0."""
    seen: set[Key] = set()
    begun: float | None = None
    shift, last, before_begin = 0.0, -float("inf"), list[PlacedCapture]()
    for capture in captures:
        ended = capture.monotonic_time + capture.seconds + shift
        if not last - _LONGEST_BACK_SECONDS <= ended <= last + _LONGEST_FORTH_SECONDS and math.isfinite(last):
            shift, ended = shift + last - ended, last
        last = max(last, ended)
        key = (capture.source, capture.poll)
        if begun is None and key not in seen:
            seen.add(key)
            before_begin.append(PlacedCapture(ended, 0.0, capture))
            continue
        if begun is None:
            begun = last
            yield from _at_begin(before_begin, begun)
        yield PlacedCapture(last - begun, last - ended, capture)
    if begun is None:
        yield from _at_begin(before_begin, last)


def _at_begin(found: Iterable[PlacedCapture], begun: float) -> Iterator[PlacedCapture]:
    return (PlacedCapture(0.0, begun - one.place, one.capture) for one in found)


@dataclass(slots=True)
class Survey:
    """The length of a recording, its time and host, how often each poll occurs, and an example capture of each source."""

    length: float = 0.0
    wall_times: WallTimes = field(default_factory=WallTimes)
    hostname: str = ""
    examples: dict[str, Capture] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)
    _spans: dict[Key, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, captures: Iterable[Capture]) -> Survey:
        """The survey; in memory that does not grow with the recording."""
        survey = cls()
        for one in placed_captures(captures):
            if not survey.examples:
                survey.hostname = one.capture.hostname
            survey.length = one.place
            survey.wall_times.see(one.place, one.capture.wall_time + one.capture.seconds + one.age)
            if one.key not in survey.counts and len(survey.counts) >= _MOST_POLLS:
                continue
            survey.examples.setdefault(one.capture.source, one.capture)
            survey.counts[one.key] = survey.counts.get(one.key, 0) + 1
            survey._spans[one.key] = (survey._spans.get(one.key, (one.place,))[0], one.place)
        return survey

    def intervals(self) -> Mapping[Key, float]:
        """The usual seconds between two captures of a poll, 0 of one that came once."""
        return {key: (last - first) / max(1, self.counts[key] - 1) for key, (first, last) in self._spans.items()}


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
        written = datetime.fromisoformat(text.replace("Z", "+00:00"))
        unix = (written if written.tzinfo else written.replace(tzinfo=timezone.utc)).timestamp()
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
    today = (midnight + time).timestamp()
    is_over = today - stretch.wall_time < -_ROUNDING_SECONDS
    return today + timedelta(days=1).total_seconds() if is_over else today


def _times(survey: Survey) -> str:
    """From when to when it was recorded, of each stretch, the first of many."""
    stretches = [
        (human.utc(one.wall_time), human.utc(one.wall_time + one.seconds)) for one in survey.wall_times.stretches()
    ]
    named = [f"{begun} to {ended}" for begun, ended in stretches[:_MOST_NAMED]]
    more = len(stretches) - len(named)
    return ", then ".join([*named, f"{more} more"] if more else named)
