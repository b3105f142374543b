"""Encodes the daemon's captures for listeners, and keeps the last three minutes."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from telemetry_daemon.guarded.gzip_reader import GZIP, zlib
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.captures import CodecError, capture_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Report

log = logging.getLogger(__name__)

# Two minutes before an alarm and one minute after the alarm.
SECONDS = 180.0
MAX_BYTES = 8 << 20
# Masking takes a second or two for each MiB, so sizes before compression are limited.
MAX_RAW_BYTES, MAX_CAPTURE_BYTES = 16 << 20, 1 << 20
# A capture that uses more of the memory limit would displace too many others.
_MAX_CAPTURE_SHARE = 1 / 8
# A compressor shared by all captures would halve the size, but keep 256 KiB of memory in use.
_LEVEL, _DEFLATED = 1, 8
# The memory overhead of Python for each stored line.
_OVERHEAD_BYTES = 220
_Poll = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CaptureLine:
    """A capture as a line of a recording. `taken` is a monotonic time."""

    source: str
    poll: str
    taken: float
    text: bytes


_T = TypeVar("_T")
# A listener is called in the thread of a poll. It must be quick and must not raise.
Listener = Callable[[CaptureLine], None]


class CaptureFeed:
    """Passes captures to listeners, such as the flight recorder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._changes = ChangeLog()

    def __call__(self, capture: Capture, _report: Report | None) -> None:
        """Encode the capture as a line, and pass the line to all listeners."""
        if not self._listeners:
            return
        try:
            text = capture_line(capture)
        except CodecError as error:  # a plugin returned a value that JSON cannot represent
            if self._changes.changed((capture.source, capture.poll), str(error)):
                extra = {"source": capture.source, "poll": capture.poll, "error": error}
                log.warning("a capture cannot be recorded", extra=extra)
            return
        line = CaptureLine(capture.source, capture.poll, capture.monotonic_time, text)
        with self._lock:
            for listener in self._listeners:
                listener(line)

    def add_listener(self, listener: Listener, read_earlier: Callable[[], _T]) -> _T:
        """Pass all later captures to the listener. Return the result of `read_earlier`, which is called before them."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            return read_earlier()

    def remove_listener(self, listener: Listener) -> None:
        """Stop passing captures to a listener."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)


@dataclass(frozen=True, slots=True)
class _StoredCapture:
    sequence: int
    taken: float
    packed: bytes
    raw_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.packed) + _OVERHEAD_BYTES


class RecentCaptures:
    """The captures of the last minutes, including the newest of each poll."""

    def __init__(
        self, seconds: float = SECONDS, max_bytes: int = MAX_BYTES, max_raw_bytes: int = MAX_RAW_BYTES
    ) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._max_raw_bytes = max_raw_bytes
        self._lock = threading.Lock()
        self._added_count = 0
        self._captures_by_poll: dict[_Poll, deque[_StoredCapture]] = {}
        # The total size of each source's captures, compressed and uncompressed.
        self._packed_bytes: Counter[str] = Counter()
        self._raw_bytes: Counter[str] = Counter()

    @property
    def size_bytes(self) -> int:
        """Return the memory that the captures use, in bytes."""
        with self._lock:
            return self._packed_bytes.total()

    def add(self, line: CaptureLine) -> None:
        """Add a capture, and drop captures beyond the limits."""
        if len(line.text) > MAX_CAPTURE_BYTES:
            return
        compressor = zlib.compressobj(_LEVEL, _DEFLATED, GZIP)
        packed = compressor.compress(line.text) + compressor.flush()
        with self._lock:
            self._added_count += 1
            stored_capture = _StoredCapture(self._added_count, line.taken, packed, len(line.text))
            if stored_capture.size_bytes > self._max_bytes * _MAX_CAPTURE_SHARE:
                return
            self._captures_by_poll.setdefault((line.source, line.poll), deque()).append(stored_capture)
            self._packed_bytes[line.source] += stored_capture.size_bytes
            self._raw_bytes[line.source] += stored_capture.raw_bytes
            self._drop_before(line.taken - self._seconds)
            while self._packed_bytes.total() > self._max_bytes:
                self._drop_from_largest_source(self._packed_bytes)
            while self._raw_bytes.total() > self._max_raw_bytes:
                self._drop_from_largest_source(self._raw_bytes)

    def packed(self) -> Iterator[bytes]:
        """Yield all captures in order of arrival, each as a gzip member."""
        with self._lock:
            return _in_order(capture for captures in self._captures_by_poll.values() for capture in captures)

    def newest(self) -> Iterator[bytes]:
        """Yield the newest capture of each poll, as gzip members."""
        with self._lock:
            return _in_order(captures[-1] for captures in self._captures_by_poll.values())

    def _drop_before(self, start: float) -> None:
        """Drop captures from before `start`, but keep the newest one of each poll."""
        for poll, captures in self._captures_by_poll.items():
            while len(captures) > 1 and captures[1].taken < start:
                self._drop_oldest(poll)

    def _drop_from_largest_source(self, sizes: Counter[str]) -> None:
        """Drop the oldest capture of the source with the largest size, if possible not the only capture of a poll."""
        source, _ = sizes.most_common(1)[0]
        polls = [poll for poll in self._captures_by_poll if poll[0] == source]
        polls_with_several = [poll for poll in polls if len(self._captures_by_poll[poll]) > 1]
        oldest_poll = min(polls_with_several or polls, key=lambda poll: self._captures_by_poll[poll][0].sequence)
        self._drop_oldest(oldest_poll)
        if not self._captures_by_poll[oldest_poll]:
            del self._captures_by_poll[oldest_poll]

    def _drop_oldest(self, poll: _Poll) -> None:
        dropped_capture = self._captures_by_poll[poll].popleft()
        self._packed_bytes[poll[0]] -= dropped_capture.size_bytes
        self._raw_bytes[poll[0]] -= dropped_capture.raw_bytes


def _in_order(captures: Iterable[_StoredCapture]) -> Iterator[bytes]:
    return (capture.packed for capture in sorted(captures, key=lambda capture: capture.sequence))
