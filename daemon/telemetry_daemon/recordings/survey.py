"""The content of a recording: the position of each capture in seconds, the wall clock there, and times as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial

from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import parse_duration
from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture

# A clock that is slewed, or was read slightly later, was not set.
_STEP_SECONDS = 1.0
# A clock that is set more often is no longer followed.
_MOST_STRETCHES = 1000
_MOST_POLLS = 1000
# A larger jump means the clock of another machine or boot: the recording continues there without a pause.
_LONGEST_BACK_SECONDS, _LONGEST_FORTH_SECONDS = 60.0, 86_400.0
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# People read times in whole seconds.
_ROUNDING_SECONDS = 1.0
_MOST_NAMED = 3
FORMS = "90s or 5m from the beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a recording in which the wall clock was not set: its position, start time and length."""

    position: float
    wall_time: float
    seconds: float = 0.0

    @property
    def ahead(self) -> float:
        """Return by how much the wall clock is ahead of the position."""
        return self.wall_time - self.position


@dataclass(slots=True)
class WallTimes:
    """Learns the wall clock from captures in order. A single capture that differs from its neighbours is ignored."""

    _begun: list[Stretch] = field(default_factory=list)
    _doubted: Stretch | None = None
    _length: float = 0.0

    def see(self, position: float, wall_time: float) -> None:
        """Note the wall clock at that position."""
        seen = Stretch(position, wall_time)
        self._length = position
        if not self._begun:
            self._begun.append(seen)
        elif _is_same(seen, self._begun[-1]):
            self._doubted = None
        elif self._doubted is None or not _is_same(seen, self._doubted):
            self._doubted = seen
        elif len(self._begun) < _MOST_STRETCHES:
            kept = [stretch for stretch in self._begun if stretch.position < self._doubted.position]
            self._begun, self._doubted = [*kept, self._doubted], None

    def at(self, position: float) -> float:
        """Return the wall clock at that position."""
        begun = [stretch for stretch in self._begun if stretch.position <= position] or self._begun[:1]
        return position + (begun[-1].ahead if begun else 0.0)

    def stretches(self) -> Iterator[Stretch]:
        """Yield the parts in which the clock was not set, in order."""
        ends = [stretch.position for stretch in self._begun[1:]] + [self._length]
        return (
            Stretch(stretch.position, stretch.wall_time, end - stretch.position)
            for stretch, end in zip(self._begun, ends, strict=False)
        )


def _is_same(stretch: Stretch, other: Stretch) -> bool:
    return abs(stretch.ahead - other.ahead) < _STEP_SECONDS


@dataclass(frozen=True, slots=True)
class PlacedCapture:
    """A capture with its end position. Captures from before the beginning are at position 0, with their age."""

    position: float
    age: float
    capture: Capture

    @property
    def key(self) -> Key:
        """Return the source and the poll."""
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
    return (PlacedCapture(0.0, begun - placed.position, placed.capture) for placed in found)


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
        """Return the survey. Its memory does not grow with the recording."""
        survey = cls()
        for placed in placed_captures(captures):
            if not survey.examples:
                survey.hostname = placed.capture.hostname
            survey.length = placed.position
            survey.wall_times.see(placed.position, placed.capture.wall_time + placed.capture.seconds + placed.age)
            if placed.key not in survey.counts and len(survey.counts) >= _MOST_POLLS:
                continue
            survey.examples.setdefault(placed.capture.source, placed.capture)
            survey.counts[placed.key] = survey.counts.get(placed.key, 0) + 1
            survey._spans[placed.key] = (survey._spans.get(placed.key, (placed.position,))[0], placed.position)
        return survey

    def intervals(self) -> Mapping[Key, float]:
        """Return the usual seconds between two captures of each poll, 0 if it occurs once."""
        return {key: (last - first) / max(1, self.counts[key] - 1) for key, (first, last) in self._spans.items()}


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a person wrote it, and its position in a recording, or None if it is outside."""

    text: str
    of: Callable[[Survey], float | None]

    def position(self, survey: Survey) -> float:
        """Return the position in that recording. Raises CommandError if nothing was recorded then."""
        position = self.of(survey)
        if position is not None and -_ROUNDING_SECONDS <= position <= survey.length + _ROUNDING_SECONDS:
            return min(max(0.0, position), survey.length)
        length = human.seconds(round(survey.length, 1))
        raise CommandError(f"'{self.text}' is outside the recording, which is of {_times(survey)} ({length})")


def moment(text: str) -> Moment:
    """Return the time that this text names. Raises ValueError."""
    text = text.strip()
    day = _TIME_OF_DAY.match(text)
    if day is not None:
        hours, minutes, seconds = (int(part or 0) for part in day.groups())
        return Moment(text, partial(_of_day, timedelta(hours=hours, minutes=minutes, seconds=seconds)))
    before_end = 0.0 if text.lower() == "end" else parse_duration(text[4:]) if text.lower().startswith("end-") else None
    if before_end is not None:
        return Moment(text, lambda survey: survey.length - before_end)
    from_begin = parse_duration(text)
    if from_begin is not None:
        return Moment(text, lambda _: from_begin)
    try:
        written = datetime.fromisoformat(text.replace("Z", "+00:00"))
        unix = (written if written.tzinfo else written.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is no moment of a recording; write {FORMS}") from None
    return Moment(text, lambda survey: _first(survey, lambda _: unix))


def _first(survey: Survey, wanted: Callable[[Stretch], float]) -> float | None:
    """Return the first position at which the wall clock showed the wanted time of its part, or None."""
    for stretch in survey.wall_times.stretches():
        since = wanted(stretch) - stretch.wall_time
        if -_ROUNDING_SECONDS <= since <= stretch.seconds + _ROUNDING_SECONDS:
            return stretch.position + min(max(0.0, since), stretch.seconds)
    return None


def _of_day(time: timedelta, survey: Survey) -> float | None:
    return _first(survey, partial(_next, time))


def _next(time: timedelta, stretch: Stretch) -> float:
    begun = datetime.fromtimestamp(stretch.wall_time, timezone.utc)
    midnight = begun.replace(hour=0, minute=0, second=0, microsecond=0)
    today = (midnight + time).timestamp()
    is_over = today - stretch.wall_time < -_ROUNDING_SECONDS
    return today + timedelta(days=1).total_seconds() if is_over else today


def _times(survey: Survey) -> str:
    stretches = [
        (human.utc(stretch.wall_time), human.utc(stretch.wall_time + stretch.seconds))
        for stretch in survey.wall_times.stretches()
    ]
    named = [f"{begun} to {ended}" for begun, ended in stretches[:_MOST_NAMED]]
    more = len(stretches) - len(named)
    return ", then ".join([*named, f"{more} more"] if more else named)
