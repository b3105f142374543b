"""Bodies packed as gzip; what is the same for every client is packed once."""

from __future__ import annotations

import struct
from types import ModuleType

try:
    from isal import isal_zlib as _usual
except (
    ImportError
):  # there is no wheel for this machine; what zlib packs is as good, and takes four to ten times as long
    import zlib as _usual  # type: ignore[no-redef]  # one of the two

# Nine tenths of what level 6 saves for half the time.
_LEVEL = 1
_DEFLATED = 8
_WITHOUT_HEADER = -15
# RFC 1952: deflate, no flags, no time, no file system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TRAILER = struct.Struct("<II")
_LENGTHS = 1 << 32


class Gzipped:
    """A body that is packed once and gets another end for each request; the result is one gzip member.

    Two members would be simpler, but browsers show nothing beyond the first.
    """

    def __init__(self, body: bytes, deflate: ModuleType = _usual) -> None:
        self._deflate = deflate
        compressor = deflate.compressobj(_LEVEL, _DEFLATED, _WITHOUT_HEADER)
        # Flushed so that it ends with a whole byte, and what follows can be packed by another compressor.
        self.beginning: bytes = _HEADER + compressor.compress(body) + compressor.flush(deflate.Z_SYNC_FLUSH)
        self._checksum: int = deflate.crc32(body)
        self._length = len(body)

    def ended(self, tail: bytes) -> tuple[bytes, bytes]:
        """The packed beginning, never copied, and the packed end for this tail."""
        compressor = self._deflate.compressobj(_LEVEL, _DEFLATED, _WITHOUT_HEADER)
        checksum = self._deflate.crc32(tail, self._checksum)
        trailer = _TRAILER.pack(checksum, (self._length + len(tail)) % _LENGTHS)
        return self.beginning, compressor.compress(tail) + compressor.flush() + trailer
