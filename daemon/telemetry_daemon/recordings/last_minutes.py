"""The daemon's captures as lines of a recording: passed to listeners, and kept for three minutes in bounded memory."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from telemetry_daemon.guarded.packing import GZIP, zlib
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.captures import CodecError, capture_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Report

log = logging.getLogger(__name__)

# Two minutes before an alarm, and the minute after it in which its file is rewritten.
SECONDS = 180.0
MOST_BYTES = 8 << 20
# Before compression: masking takes a second or two for each MiB, and a file is given two minutes.
MOST_RAW_BYTES, LARGEST_RAW_BYTES = 16 << 20, 1 << 20
# A capture that needs more than this share of the ring is left out, because it would displace all others.
_LARGEST_SHARE = 8
# This level leaves a tenth of the size. Compressing many captures together would halve that, but a compressor takes 256
# KiB permanently.
_LEVEL, _DEFLATED = 1, 8
# Python's overhead for each line that is kept.
_OVERHEAD_BYTES = 220
_Poll = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """A capture as a line of a recording, with its poll and its begin (monotonic)."""

    source: str
    poll: str
    taken: float
    text: bytes


T = TypeVar("T")
# Receives each line in the thread of its poll. Must be quick, and must not raise.
Listener = Callable[[Line], None]


class Tap:
    """Receives each capture from a node's sources."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._changes = ChangeLog()

    def __call__(self, capture: Capture, _report: Report | None) -> None:
        """Encode the capture as a line, and pass it to all listeners."""
        if not self._listeners:
            return
        try:
            text = capture_line(capture)
        except CodecError as error:  # a plugin's reader returned a value that JSON cannot represent
            if self._changes.changed((capture.source, capture.poll), str(error)):
                facts = {"source": capture.source, "poll": capture.poll, "error": error}
                log.warning("a capture cannot be recorded", extra=facts)
            return
        line = Line(capture.source, capture.poll, capture.monotonic_time, text)
        with self._lock:
            for listener in self._listeners:
                listener(line)

    def listen(self, listener: Listener, begin: Callable[[], T]) -> T:
        """Add a listener, and return the result of `begin`, which runs while no capture is passed on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            return begin()

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)


@dataclass(frozen=True, slots=True)
class _Kept:
    number: int
    taken: float
    packed: bytes
    raw_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.packed) + _OVERHEAD_BYTES


class Ring:
    """The last minutes. Thread-safe. For rare polls, the newest capture before these minutes is kept, too."""

    def __init__(
        self, seconds: float = SECONDS, most_bytes: int = MOST_BYTES, most_raw_bytes: int = MOST_RAW_BYTES
    ) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._most_raw_bytes = most_raw_bytes
        self._lock = threading.Lock()
        self._added = 0
        self._polls: dict[_Poll, deque[_Kept]] = {}
        # By source.
        self._bytes: Counter[str] = Counter()
        self._raw_bytes: Counter[str] = Counter()

    @property
    def size_bytes(self) -> int:
        """Return the memory that the captures take."""
        with self._lock:
            return self._bytes.total()

    def add(self, line: Line) -> None:
        """Add a capture, and drop the oldest."""
        if len(line.text) > LARGEST_RAW_BYTES:
            return
        packer = zlib.compressobj(_LEVEL, _DEFLATED, GZIP)
        packed = packer.compress(line.text) + packer.flush()
        with self._lock:
            self._added += 1
            kept = _Kept(self._added, line.taken, packed, len(line.text))
            if kept.size_bytes > self._most_bytes // _LARGEST_SHARE:
                return
            self._polls.setdefault((line.source, line.poll), deque()).append(kept)
            self._bytes[line.source] += kept.size_bytes
            self._raw_bytes[line.source] += kept.raw_bytes
            self._age(line.taken - self._seconds)
            while self._bytes.total() > self._most_bytes:
                self._make_room(self._bytes)
            while self._raw_bytes.total() > self._most_raw_bytes:
                self._make_room(self._raw_bytes)

    def packed(self) -> Iterator[bytes]:
        """Yield all captures in order of arrival, each as a gzip member. Together they are a gzipped recording."""
        with self._lock:
            return _in_order(entry for kept in self._polls.values() for entry in kept)

    def newest(self) -> Iterator[bytes]:
        """Yield the newest capture of each poll, as gzip members."""
        with self._lock:
            return _in_order(kept[-1] for kept in self._polls.values())

    def _age(self, begin: float) -> None:
        """Drop captures from before that time, except the newest of each poll."""
        for poll, kept in self._polls.items():
            while len(kept) > 1 and kept[1].taken < begin:
                self._drop_oldest(poll)

    def _make_room(self, held: Counter[str]) -> None:
        """Drop the oldest captures of the largest source. Its window shrinks before any poll disappears."""
        most, _ = held.most_common(1)[0]
        polls = [poll for poll in self._polls if poll[0] == most]
        several = [poll for poll in polls if len(self._polls[poll]) > 1]
        oldest = min(several or polls, key=lambda poll: self._polls[poll][0].number)
        self._drop_oldest(oldest)
        if not self._polls[oldest]:
            del self._polls[oldest]

    def _drop_oldest(self, poll: _Poll) -> None:
        gone = self._polls[poll].popleft()
        self._bytes[poll[0]] -= gone.size_bytes
        self._raw_bytes[poll[0]] -= gone.raw_bytes


def _in_order(kept: Iterable[_Kept]) -> Iterator[bytes]:
    return (entry.packed for entry in sorted(kept, key=lambda entry: entry.number))
