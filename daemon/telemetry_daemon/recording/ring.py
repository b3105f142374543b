"""The last three minutes of captures, packed, in memory that is bounded whatever the tools print."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_daemon.deflate import GZIP, zlib
from telemetry_daemon.recording.tap import Line

# Two minutes before an alarm, and the one after it in which its file is written anew.
SECONDS = 180.0
MOST_BYTES = 8 << 20
# A capture that needs more than this share of the ring is left out: it would drive out all others.
_LARGEST_SHARE = 8
# A tenth of the size is left. What many captures together would be packed to, a half of that, would take a compressor
# with 256 KiB that is held all the time.
_LEVEL, _DEFLATED = 1, 8
# What Python needs for one that is kept, besides its bytes.
_OVERHEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class _Kept:
    key: tuple[str, str]
    taken: float
    packed: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.packed) + _OVERHEAD_BYTES


class Ring:
    """Safe to use from any thread. Of polls that come less often, the newest capture before these minutes is kept, too."""

    def __init__(self, seconds: float = SECONDS, most_bytes: int = MOST_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._window: deque[_Kept] = deque()
        self._before: dict[tuple[str, str], _Kept] = {}
        self.size_bytes = 0

    def add(self, line: Line) -> None:
        """Keep a capture; the oldest go."""
        packer = zlib.compressobj(_LEVEL, _DEFLATED, GZIP)
        kept = _Kept((line.source, line.poll), line.taken, packer.compress(line.text) + packer.flush())
        if kept.size_bytes > self._most_bytes // _LARGEST_SHARE:
            return
        with self._lock:
            self._window.append(kept)
            self.size_bytes += kept.size_bytes
            while self._window[0].taken < line.taken - self._seconds:
                self._age()
            while self.size_bytes > self._most_bytes:
                self._make_room()

    def packed(self) -> Iterator[bytes]:
        """All captures, each as a gzip member, the oldest first: together a recording that is packed with gzip."""
        with self._lock:
            kept = [*sorted(self._before.values(), key=lambda one: one.taken), *self._window]
        return (one.packed for one in kept)

    def newest(self) -> Iterator[bytes]:
        """The newest capture of each poll, in the same form."""
        with self._lock:
            newest = {**self._before, **{one.key: one for one in self._window}}
        return (one.packed for one in sorted(newest.values(), key=lambda one: one.taken))

    def _age(self) -> None:
        """Put the oldest capture of the window in the place of the one that was before it."""
        oldest = self._window.popleft()
        replaced = self._before.pop(oldest.key, None)
        self._before[oldest.key] = oldest
        if replaced is not None:
            self.size_bytes -= replaced.size_bytes

    def _make_room(self) -> None:
        """The window gets shorter before a poll is missing altogether."""
        if len(self._window) > 1:
            self._age()
        else:
            oldest = min(self._before, key=lambda key: self._before[key].taken)
            self.size_bytes -= self._before.pop(oldest).size_bytes
