"""Plays a recording: readers that answer polls with its captures, at their recorded pace, over and over."""

from __future__ import annotations

import bisect
import statistics
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from telemetry_daemon.guarded.reading import read_lines
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.captures import CodecError, capture_from_plain, decode_line
from telemetry_parsers.model import Capture, Failure, Poll
from telemetry_parsers.recorded import Recorded

_Key = tuple[str, str]
# A capture has the escaped output of a tool's runs, each of at most 8 MiB.
LONGEST_LINE_BYTES = 64 << 20
# All of it is kept in memory while it is played.
LARGEST_RECORDING_BYTES = 1 << 30
# The end of the year 9999, in Unix seconds.
_END_OF_TIME = 253_402_300_800.0
_REMEDY = "give a file that `telemetry record` wrote"


class RecordingError(ValueError):
    """A recording that cannot be used; names the file, and the line where there is one."""


def read_recording(path: Path) -> Iterator[Capture]:
    """The captures of a file, one at a time; RecordingError at the first line that is none."""
    try:
        with path.open("rb") as file:
            lines = read_lines(file, LONGEST_LINE_BYTES, LARGEST_RECORDING_BYTES, str(path))
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _capture(path, number, line)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}; {_REMEDY}") from error


def _capture(path: Path, number: int, line: bytes) -> Capture:
    try:
        return capture_from_plain(decode_line(line))
    except CodecError as error:
        raise RecordingError(f"{path}: line {number} is not a recorded capture ({error}); {_REMEDY}") from error


class Replay:
    """A whole recording in memory. Its sources are played in step; the first read of any of them starts it."""

    def __init__(self, captures: Iterable[Capture], clock: Clock) -> None:
        in_order = sorted(captures, key=lambda capture: capture.monotonic_time)
        first = in_order[0].monotonic_time if in_order else 0.0
        series: defaultdict[_Key, list[Capture]] = defaultdict(list)
        for capture in in_order:
            moved = replace(capture, monotonic_time=capture.monotonic_time - first)
            series[capture.source, capture.poll].append(moved)
        self._series: Mapping[_Key, Sequence[Capture]] = series
        self._loop = _Loop(_period(series.values()), clock)
        self.recorded = Recorded(in_order[0].wall_time, in_order[0].hostname) if in_order else Recorded(0.0)

    @classmethod
    def of_file(cls, path: Path, clock: Clock) -> Replay:
        """The recording in a file; RecordingError if it cannot be used."""
        captures = tuple(read_recording(path))
        if not captures:
            raise RecordingError(f"{path}: there is no capture in it; {_REMEDY}")
        if not all(0.0 <= capture.wall_time < _END_OF_TIME for capture in captures):
            raise RecordingError(f"{path}: it has a capture from no time that a clock can tell; {_REMEDY}")
        return cls(captures, clock)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that were recorded."""
        return tuple(sorted({source for source, _ in self._series}))

    def polls(self, source: str) -> tuple[str, ...]:
        """The names of a source's polls that were recorded."""
        return tuple(sorted(poll for name, poll in self._series if name == source))

    def reader(self, source: str) -> ReplayReader:
        """A reader that answers the polls of one source."""
        series = {poll: captures for (name, poll), captures in self._series.items() if name == source}
        return ReplayReader(source, series, self._loop)


class ReplayReader:
    """Answers polls of one source with the capture that was recorded about as long after the start."""

    def __init__(self, source: str, series: Mapping[str, Sequence[Capture]], loop: _Loop) -> None:
        self._source = source
        self._series = series
        self._loop = loop

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the recording has its own targets
        """The recorded capture, as if it had been taken now; `disabled` for a poll that was not recorded."""
        clock = self._loop.clock
        now, wall = clock.monotonic(), clock.wall()
        series = self._series.get(poll.name)
        if series is None:
            failure = Failure("disabled", None, f"the recording has no {self._source}/{poll.name}")
            return Capture(self._source, poll.name, poll.request, (), failure, wall_time=wall, monotonic_time=now)
        return replace(self._loop.nearest(series, now), wall_time=wall, monotonic_time=now)

    def close(self) -> None:
        """Nothing runs, nothing is held."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()


class _Loop:
    """The current place in the recording, the same for all sources; it starts again after each period."""

    def __init__(self, period: float, clock: Clock) -> None:
        self.clock = clock
        self._period = period
        self._started: float | None = None
        self._turn = threading.Lock()

    def nearest(self, series: Sequence[Capture], now: float) -> Capture:
        """The capture nearest in time, so that polls that come a little early or late still get each one in turn."""
        if self._period <= 0:
            return series[0]
        place = self._elapsed(now) % self._period
        after = bisect.bisect_left(series, place, key=lambda capture: capture.monotonic_time)
        earlier, later = series[after - 1], series[after % len(series)]
        since = (place - earlier.monotonic_time) % self._period
        until = (later.monotonic_time - place) % self._period
        return earlier if since < until else later

    def _elapsed(self, now: float) -> float:
        with self._turn:
            if self._started is None:
                self._started = now
            return max(0.0, now - self._started)


def _period(series: Iterable[Sequence[Capture]]) -> float:
    """The time from the first capture to the last, and the usual pause of the most frequent poll; 0 for one capture."""
    times = [[capture.monotonic_time for capture in captures] for captures in series]
    last = max((each[-1] for each in times), default=0.0)
    busiest = max(times, key=len, default=[])
    pauses = [later - earlier for earlier, later in pairwise(busiest)]
    return last + (statistics.median(pauses) if pauses else 0.0)
