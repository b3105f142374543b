"""The daemon's captures as lines of a recording: handed on to who listens, and those of the last three minutes kept, in bounded memory."""

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

# Two minutes before an alarm, and the one after it in which its file is rewritten.
SECONDS = 180.0
MOST_BYTES = 8 << 20
# Before they are packed: to mask a MiB takes a second or two, and a file is given two minutes.
MOST_RAW_BYTES, LARGEST_RAW_BYTES = 16 << 20, 1 << 20
# A capture that needs more than this share of the ring is left out: it would drive out all others.
_LARGEST_SHARE = 8
# A tenth of the size is left. What many captures together would be packed to, a half of that, would take a compressor
# with 256 KiB that is held all the time.
_LEVEL, _DEFLATED = 1, 8
# What Python needs for one that is kept, besides its bytes.
_OVERHEAD_BYTES = 220
_Poll = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """A capture as a line of a recording, of which poll it is, and when that began (monotonic)."""

    source: str
    poll: str
    taken: float
    text: bytes


T = TypeVar("T")
# Gets each line from the thread of its poll: it must be quick, and must not raise.
Listener = Callable[[Line], None]


class Tap:
    """To be given to a node's sources, which call it with each capture."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._changes = ChangeLog()

    def __call__(self, capture: Capture, _report: Report | None) -> None:
        """Write the capture as a line, once for all listeners."""
        if not self._listeners:
            return
        try:
            text = capture_line(capture)
        except CodecError as error:  # a plugin's reader gave what JSON does not have
            if self._changes.changed((capture.source, capture.poll), str(error)):
                facts = {"source": capture.source, "poll": capture.poll, "error": error}
                log.warning("a capture cannot be recorded", extra=facts)
            return
        line = Line(capture.source, capture.poll, capture.monotonic_time, text)
        with self._lock:
            for listener in self._listeners:
                listener(line)

    def listen(self, listener: Listener, first: Callable[[], T]) -> T:
        """Hand each capture on to this one, too, and return what `first` gives: it is called between two captures."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            return first()

    def leave(self, listener: Listener) -> None:
        """Hand nothing on to it any more."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)


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
    """Safe to use from any thread. Of polls that come less often, the newest capture before these minutes is kept, too."""

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
        """The memory that is needed."""
        with self._lock:
            return self._bytes.total()

    def add(self, line: Line) -> None:
        """Keep a capture; the oldest go."""
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
        """All captures, each as a gzip member, in the order in which they came: together a recording that is packed with gzip."""
        with self._lock:
            return _in_order(one for kept in self._polls.values() for one in kept)

    def newest(self) -> Iterator[bytes]:
        """The newest capture of each poll, in the same form."""
        with self._lock:
            return _in_order(kept[-1] for kept in self._polls.values())

    def _age(self, begin: float) -> None:
        """Drop what was before that time, but of each poll the newest of it."""
        for poll, kept in self._polls.items():
            while len(kept) > 1 and kept[1].taken < begin:
                self._drop_oldest(poll)

    def _make_room(self, held: Counter[str]) -> None:
        """The source that holds most loses its oldest; its window gets shorter before a poll is missing altogether."""
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
    return (one.packed for one in sorted(kept, key=lambda one: one.number))
