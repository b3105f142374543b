"""Response bodies: made at the first request, cached for one snapshot, compressed, or sent in pieces."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from types import ModuleType

from telemetry_daemon.guarded.packing import GZIP
from telemetry_daemon.guarded.packing import zlib as _usual
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_parsers.model import Snapshot

# Level 1 saves nine tenths of what level 6 saves, in half the time.
_LEVEL = 1
_DEFLATED = 8
_WITHOUT_HEADER = -15
# RFC 1952: deflate, no flags, no time, no file system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TRAILER = struct.Struct("<II")
# RFC 1951: an uncompressed block with its length and the complement. The first byte is 1 in the last block.
_STORED = struct.Struct("<BHH")
_MOST_STORED = 0xFFFF
_LENGTHS = 1 << 32


# Returns the page of a snapshot in this syntax, OpenMetrics without `# EOF`.
RendersPage = Callable[[Snapshot, Syntax], bytes]


class Rendered:
    """Pages of the newest snapshot. Use it from one thread only, the web server's loop."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._newest = snapshot
        self._snapshot: Snapshot | None = None
        self._bodies: dict[str, bytes] = {}
        self._gzipped: dict[str, Gzipped] = {}

    def forget(self) -> None:
        """Drop all pages."""
        self._snapshot = None

    def body(self, name: str, make: Callable[[Snapshot], bytes]) -> bytes:
        """Return the page of this name, which is made at the first request after a new snapshot."""
        snapshot = self._newest()
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._bodies.clear()
            self._gzipped.clear()
        if name not in self._bodies:
            self._bodies[name] = make(snapshot)
        return self._bodies[name]

    def gzipped(self, name: str, make: Callable[[Snapshot], bytes]) -> Gzipped:
        """Return the page of this name, compressed."""
        body = self.body(name, make)
        if name not in self._gzipped:
            self._gzipped[name] = Gzipped(body)
        return self._gzipped[name]


class Gzipped:
    """A compressed body with another tail per request, in one gzip member, because browsers ignore a second member."""

    def __init__(self, body: bytes, deflate: ModuleType = _usual) -> None:
        self._checksum_of: Callable[[bytes, int], int] = deflate.crc32
        compressor = deflate.compressobj(_LEVEL, _DEFLATED, _WITHOUT_HEADER)
        # The flush completes the last byte, so that another block can follow.
        self.beginning: bytes = _HEADER + compressor.compress(body) + compressor.flush(deflate.Z_SYNC_FLUSH)
        self._checksum = self._checksum_of(body, 0)
        self._length = len(body)

    def ended(self, tail: bytes) -> tuple[bytes, bytes]:
        """Return the compressed beginning and the uncompressed tail, because compression would let other threads run."""
        trailer = _TRAILER.pack(self._checksum_of(tail, self._checksum), (self._length + len(tail)) % _LENGTHS)
        return self.beginning, b"".join([*_stored(tail), trailer])


def packed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces as one gzip member. A piece may become empty."""
    compressor = _usual.compressobj(_LEVEL, _DEFLATED, GZIP)
    yield from map(compressor.compress, pieces)
    yield compressor.flush()


def _stored(data: bytes) -> Iterator[bytes]:
    """Yield the last blocks of a deflate stream, with these bytes uncompressed."""
    for begin in range(0, len(data) or 1, _MOST_STORED):
        part = data[begin : begin + _MOST_STORED]
        yield _STORED.pack(begin + len(part) == len(data), len(part), len(part) ^ _MOST_STORED)
        yield part


class Made:
    """The pieces of an iterator, made when the client reads them; compressed on request."""

    def __init__(self, pieces: Iterator[bytes], *, compressed: bool) -> None:
        self._pieces = packed(pieces) if compressed else pieces

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """Do nothing, because there is always a next piece."""

    def next(self) -> bytes | None:
        """Return the next piece, or None after the last one."""
        return next((piece for piece in self._pieces if piece), None)

    def close(self) -> None:
        """Make no more pieces."""
        self._pieces = iter(())
