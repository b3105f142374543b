"""Surveys a recording's length and times, and finds the positions of times that users enter."""

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

# A smaller difference between the clocks may come from slewing, or from a delay between reading the two clocks.
_STEP_SECONDS = 1.0
# Once a recording has this many segments, later steps of the wall clock are ignored.
_MAX_SEGMENTS = 1000
_MAX_POLLS = 1000
# After a larger jump of the monotonic time, the captures are from another machine or boot.
_MAX_BACK_SECONDS, _MAX_FORTH_SECONDS = 60.0, 86_400.0
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")
# Users enter times in whole seconds.
_ROUNDING_SECONDS = 1.0
_MAX_SHOWN_RANGES = 3
TIME_FORMS = "90s or 5m (from the start), end-30s, or a recorded time in UTC (03:12:07 or 2026-11-23T03:12:07Z)"
PollKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClockSegment:
    """A part of a recording between two steps of the wall clock."""

    position: float
    wall_time: float
    seconds: float = 0.0

    @property
    def wall_offset(self) -> float:
        """Return the wall time that this segment's clock would have shown at position 0."""
        return self.wall_time - self.position


@dataclass(slots=True)
class WallTimes:
    """Maps positions in a recording to wall times."""

    _segments: list[ClockSegment] = field(default_factory=list)
    _candidate: ClockSegment | None = None  # becomes a segment if the next wall time confirms the step
    _length: float = 0.0

    def add(self, position: float, wall_time: float) -> None:
        """Add the wall-clock time at a position. Positions must not decrease."""
        current = ClockSegment(position, wall_time)
        self._length = position
        if not self._segments:
            self._segments.append(current)
        elif _is_without_step(current, self._segments[-1]):
            self._candidate = None
        elif self._candidate is None or not _is_without_step(current, self._candidate):
            self._candidate = current
        elif len(self._segments) < _MAX_SEGMENTS:
            earlier = [segment for segment in self._segments if segment.position < self._candidate.position]
            self._segments, self._candidate = [*earlier, self._candidate], None

    def at(self, position: float) -> float:
        """Return the wall-clock time at a position."""
        segments = [segment for segment in self._segments if segment.position <= position] or self._segments[:1]
        return position + (segments[-1].wall_offset if segments else 0.0)

    def segments(self) -> Iterator[ClockSegment]:
        """Yield the parts between steps of the clock, in order."""
        ends = [segment.position for segment in self._segments[1:]] + [self._length]
        return (
            ClockSegment(segment.position, segment.wall_time, end - segment.position)
            for segment, end in zip(self._segments, ends, strict=False)
        )


def _is_without_step(segment: ClockSegment, previous: ClockSegment) -> bool:
    return abs(segment.wall_offset - previous.wall_offset) < _STEP_SECONDS


@dataclass(frozen=True, slots=True)
class PlacedCapture:
    """A capture, and its position in the recording. Its poll ended `age` seconds before this position."""

    position: float
    age: float
    capture: Capture

    @property
    def key(self) -> PollKey:
        """Return the names of the source and the poll."""
        return (self.capture.source, self.capture.poll)


def placed_captures(captures: Iterable[Capture]) -> Iterator[PlacedCapture]:
    """Yield each capture with its position. Positions never decrease, and are 0 until any poll runs again."""
    polls: set[PollKey] = set()
    start: float | None = None
    shift, last_end, first_captures = 0.0, -float("inf"), list[PlacedCapture]()
    for capture in captures:
        end = capture.monotonic_time + capture.seconds + shift
        if not last_end - _MAX_BACK_SECONDS <= end <= last_end + _MAX_FORTH_SECONDS and math.isfinite(last_end):
            shift, end = shift + last_end - end, last_end
        last_end = max(last_end, end)
        key = (capture.source, capture.poll)
        if start is None and key not in polls:
            polls.add(key)
            first_captures.append(PlacedCapture(end, 0.0, capture))
            continue
        if start is None:
            start = last_end
            yield from _placed_at_start(first_captures, start)
        yield PlacedCapture(last_end - start, last_end - end, capture)
    if start is None:
        yield from _placed_at_start(first_captures, last_end)


def _placed_at_start(captures: Iterable[PlacedCapture], start: float) -> Iterator[PlacedCapture]:
    return (PlacedCapture(0.0, start - placed.position, placed.capture) for placed in captures)


@dataclass(slots=True)
class Survey:
    """A recording's length, times and host, and an example capture of each source."""

    length: float = 0.0
    wall_times: WallTimes = field(default_factory=WallTimes)
    hostname: str = ""
    examples: dict[str, Capture] = field(default_factory=dict)
    counts: dict[PollKey, int] = field(default_factory=dict)
    _spans: dict[PollKey, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def from_captures(cls, captures: Iterable[Capture]) -> Survey:
        """Return a survey of the captures. Uses constant memory."""
        survey = cls()
        for placed in placed_captures(captures):
            if not survey.examples:
                survey.hostname = placed.capture.hostname
            survey.length = placed.position
            survey.wall_times.add(placed.position, placed.capture.wall_time + placed.capture.seconds + placed.age)
            if placed.key not in survey.counts and len(survey.counts) >= _MAX_POLLS:
                continue
            survey.examples.setdefault(placed.capture.source, placed.capture)
            survey.counts[placed.key] = survey.counts.get(placed.key, 0) + 1
            survey._spans[placed.key] = (survey._spans.get(placed.key, (placed.position,))[0], placed.position)
        return survey

    def intervals(self) -> Mapping[PollKey, float]:
        """Return each poll's average interval between captures, in seconds."""
        return {key: (last - first) / max(1, self.counts[key] - 1) for key, (first, last) in self._spans.items()}


@dataclass(frozen=True, slots=True)
class RecordingTime:
    """A time in a recording, as entered by a user."""

    text: str
    find_position: Callable[[Survey], float | None]

    def position(self, survey: Survey) -> float:
        """Return the position in seconds. Raise CommandError if it is outside the recording."""
        position = self.find_position(survey)
        if position is not None and -_ROUNDING_SECONDS <= position <= survey.length + _ROUNDING_SECONDS:
            return min(max(0.0, position), survey.length)
        length = human.seconds(round(survey.length, 1))
        raise CommandError(f"'{self.text}' is outside the recording of {_wall_time_ranges(survey)} ({length})")


def parse_time(text: str) -> RecordingTime:
    """Return the time in a string such as `90s` or `end-30s`. Raise ValueError if it is invalid."""
    text = text.strip()
    time_of_day = _TIME_OF_DAY.match(text)
    if time_of_day is not None:
        hours, minutes, seconds = (int(part or 0) for part in time_of_day.groups())
        time = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return RecordingTime(text, lambda survey: _find_position(survey, partial(_next_wall_time, time)))
    before_end = 0.0 if text.lower() == "end" else parse_duration(text[4:]) if text.lower().startswith("end-") else None
    if before_end is not None:
        return RecordingTime(text, lambda survey: survey.length - before_end)
    after_start = parse_duration(text)
    if after_start is not None:
        return RecordingTime(text, lambda _: after_start)
    try:
        date = datetime.fromisoformat(text.replace("Z", "+00:00"))
        unix_time = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is not a time in a recording; write {TIME_FORMS}") from None
    return RecordingTime(text, lambda survey: _find_position(survey, lambda _: unix_time))


def _find_position(survey: Survey, target_time: Callable[[ClockSegment], float]) -> float | None:
    for segment in survey.wall_times.segments():
        offset = target_time(segment) - segment.wall_time
        if -_ROUNDING_SECONDS <= offset <= segment.seconds + _ROUNDING_SECONDS:
            return segment.position + min(max(0.0, offset), segment.seconds)
    return None


def _next_wall_time(time_of_day: timedelta, segment: ClockSegment) -> float:
    start = datetime.fromtimestamp(segment.wall_time, timezone.utc)
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    wall_time = (midnight + time_of_day).timestamp()
    has_passed = wall_time - segment.wall_time < -_ROUNDING_SECONDS
    return wall_time + timedelta(days=1).total_seconds() if has_passed else wall_time


def _wall_time_ranges(survey: Survey) -> str:
    segments = [
        (human.utc(segment.wall_time), human.utc(segment.wall_time + segment.seconds))
        for segment in survey.wall_times.segments()
    ]
    ranges = [f"{start} to {end}" for start, end in segments[:_MAX_SHOWN_RANGES]]
    omitted_count = len(segments) - len(ranges)
    return ", then ".join([*ranges, f"{omitted_count} more"] if omitted_count else ranges)
