"""Bodies that are made at the first request for them and kept for as long as the snapshot stays the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from telemetry_parsers.model import Snapshot

# Nine tenths of what level 6 saves for half the time.
_GZIP_LEVEL = 1
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class Gzipped:
    """A body whose beginning is compressed once, to be ended differently each time: still one gzip member."""

    def __init__(self, body: bytes) -> None:
        compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
        self.beginning = compressor.compress(body) + compressor.flush(zlib.Z_SYNC_FLUSH)
        self._compressor = compressor

    def ended(self, tail: bytes) -> tuple[bytes, bytes]:
        """The compressed beginning, never copied, and the compressed end for this tail."""
        compressor = self._compressor.copy()
        return self.beginning, compressor.compress(tail) + compressor.flush()


class Rendered:
    """Pages of the snapshot that holds now. For one thread, the web server's loop.

    `renders` counts the pages that were made, `compressions` those that were compressed.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._newest = snapshot
        self._snapshot: Snapshot | None = None
        self._bodies: dict[str, bytes] = {}
        self._gzipped: dict[str, Gzipped] = {}
        self.renders = 0
        self.compressions = 0

    def body(self, name: str, make: Callable[[Snapshot], bytes]) -> bytes:
        """The page of that name, made of the newest snapshot unless it has been."""
        snapshot = self._newest()
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._bodies.clear()
            self._gzipped.clear()
        if name not in self._bodies:
            self._bodies[name] = make(snapshot)
            self.renders += 1
        return self._bodies[name]

    def gzipped(self, name: str, make: Callable[[Snapshot], bytes]) -> Gzipped:
        """The same, compressed."""
        body = self.body(name, make)
        if name not in self._gzipped:
            self._gzipped[name] = Gzipped(body)
            self.compressions += 1
        return self._gzipped[name]
