"""Decompresses gzip data up to the first damaged byte."""

from __future__ import annotations

import io
import zlib as standard_zlib  # unlike isal, this module can decompress byte by byte
from collections.abc import Iterator
from typing import Any, BinaryIO

try:
    from isal import isal_zlib as zlib
except ImportError:  # no wheel exists for this machine
    import zlib as zlib  # type: ignore[no-redef]  # noqa: PLC0414  # exported

__all__ = ["GZIP", "zlib"]

# With this `wbits`, zlib expects a gzip header and trailer.
GZIP = 31
_MAGIC = b"\x1f\x8b"
_COMPRESSED_CHUNK_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20
# Real traces shrink to a fiftieth at most, decompression bombs to a thousandth.
MAX_RATIO, ALLOWED_BYTES = 250, 1 << 30


class GzipReader(io.RawIOBase):
    """Decompresses the gzip members of a stream. `damage` says why the data ended early."""

    def __init__(self, compressed: BinaryIO) -> None:
        super().__init__()
        self.damage = ""
        self._compressed = compressed
        self._decompressor = zlib.decompressobj(GZIP)
        self._pending = b""
        self._output_bytes = self._input_bytes = 0
        # `_member_output_start` is an offset in the output. The other two are offsets in the input.
        self._stream_start = compressed.tell()
        self._member_start = self._member_output_start = 0
        self._recovered, self._later_damage = b"", ""
        self._is_at_end = False

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer. Return their count, which is 0 at the end."""
        while not self._is_at_end:
            piece = self._read_piece(len(buffer))
            if piece:
                self._output_bytes += len(piece)
                if self._output_bytes > ALLOWED_BYTES and self._output_bytes > MAX_RATIO * self._input_bytes:
                    self._stop(f"it unpacks to more than {MAX_RATIO} times its size")
                    return 0
                buffer[: len(piece)] = piece
                return len(piece)
        return 0

    def _read_piece(self, max_bytes: int) -> bytes:
        if self._recovered:
            piece, self._recovered = self._recovered[:max_bytes], self._recovered[max_bytes:]
            return piece
        if self._later_damage:
            self._stop(self._later_damage)
            return b""
        try:
            if self._decompressor.eof:
                self._start_member()
                return b""
            if not self._pending:
                self._pending = self._read_compressed()
                if not self._pending:
                    self._stop("it is truncated")
                    return b""
            data: bytes = self._decompressor.decompress(self._pending, min(max_bytes, _PIECE_BYTES))
            self._pending = self._decompressor.unconsumed_tail
        except zlib.error as error:  # type: ignore[misc]  # isal has no types
            self._recovered, self._later_damage = self._data_before_damage(), f"its content is damaged ({error})"
            return b""
        return data

    def _read_compressed(self) -> bytes:
        compressed = self._compressed.read(_COMPRESSED_CHUNK_BYTES)
        self._input_bytes += len(compressed)
        return compressed

    def _data_before_damage(self) -> bytes:
        """Return the rest of the member's data, up to the damaged byte."""
        self._compressed.seek(self._stream_start + self._member_start)
        skipped_bytes, data = self._output_bytes - self._member_output_start, bytearray()
        try:
            for piece in _decompress_slowly(self._compressed, skipped_bytes):
                data += piece[skipped_bytes:]
                skipped_bytes = max(0, skipped_bytes - len(piece))
                if len(data) >= _PIECE_BYTES:
                    break
        except standard_zlib.error:  # `read` returns these bytes first, and then reports the damage
            pass
        return bytes(data)

    def _start_member(self) -> None:
        """Begin the next member. After the last one, the stream ends."""
        compressed = self._decompressor.unused_data or self._read_compressed()
        compressed = compressed.lstrip(b"\0")
        if not compressed:
            self._is_at_end = True
        elif compressed.startswith(_MAGIC[: len(compressed)]):
            self._decompressor, self._pending = zlib.decompressobj(GZIP), compressed
            self._member_start, self._member_output_start = self._input_bytes - len(compressed), self._output_bytes
        else:
            self._stop("data that is not gzip follows")

    def _stop(self, damage: str) -> None:
        self.damage, self._is_at_end = damage, True


def _decompress_slowly(compressed: BinaryIO, fast_bytes: int) -> Iterator[bytes]:
    """Yield the member's data. After `fast_bytes`, decompress byte by byte. Raises zlib.error."""
    decompressor = standard_zlib.decompressobj(GZIP)
    while not decompressor.eof and (pending := compressed.read(_COMPRESSED_CHUNK_BYTES)):
        while pending and fast_bytes:
            piece = decompressor.decompress(pending, min(fast_bytes, _PIECE_BYTES))
            fast_bytes -= len(piece)
            pending = decompressor.unconsumed_tail
            yield piece
        for offset in range(len(pending)):
            yield decompressor.decompress(pending[offset : offset + 1])


def is_gzip(head: bytes) -> bool:
    """Return whether a file that starts with these bytes contains gzip data."""
    return head.startswith(_MAGIC)
