"""gzip data: the fastest available zlib, and a stream of unpacked data that reports a damaged end."""

from __future__ import annotations

import io
import zlib as standard_zlib  # reads byte by byte, and returns all data before a damaged byte
from collections.abc import Iterator
from typing import Any, BinaryIO

try:
    from isal import isal_zlib as zlib
except ImportError:  # there is no wheel for this machine
    import zlib as zlib  # type: ignore[no-redef]  # noqa: PLC0414  # one of the two, for other modules

__all__ = ["GZIP", "zlib"]

# zlib's value for a gzip header and trailer.
GZIP = 31
_MAGIC = b"\x1f\x8b"
_PACKED_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20
# Real traces compress ten to fifty times; a bomb a thousand times. Short files may be as dense as they like.
MOST_TIMES, ALLOWED_BYTES = 250, 1 << 30


class Unpacked(io.RawIOBase):
    """Reads gzip data of one or more members from a stream. `damage` says why the data ended early, or is empty."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self.damage = ""
        self._packed = packed
        self._inflate = zlib.decompressobj(GZIP)
        self._waiting = b""
        self._given = self._read_bytes = 0
        # Where the current member begins: in the stream, in the packed data read, and in the output.
        self._begin = packed.tell()
        self._member_read = self._member_given = 0
        self._rest, self._why = b"", ""
        self._is_over = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; return 0 at the end."""
        while not self._is_over:
            piece = self._next(len(buffer))
            if piece:
                self._given += len(piece)
                if self._given > ALLOWED_BYTES and self._given > MOST_TIMES * self._read_bytes:
                    self._end(f"it unpacks to more than {MOST_TIMES} times its size")
                    return 0
                buffer[: len(piece)] = piece
                return len(piece)
        return 0

    def _next(self, most: int) -> bytes:
        if self._rest:
            piece, self._rest = self._rest[:most], self._rest[most:]
            return piece
        if self._why:
            self._end(self._why)
            return b""
        try:
            if self._inflate.eof:
                self._begin_member()
                return b""
            if not self._waiting:
                self._waiting = self._next_packed()
                if not self._waiting:
                    self._end("it is cut off: the end of the packed data is missing")
                    return b""
            unpacked: bytes = self._inflate.decompress(self._waiting, min(most, _PIECE_BYTES))
            self._waiting = self._inflate.unconsumed_tail
        except zlib.error as error:  # type: ignore[misc]  # isal has no types
            self._rest, self._why = self._before_damage(), f"its packed data are damaged ({error})"
            return b""
        return unpacked

    def _next_packed(self) -> bytes:
        packed = self._packed.read(_PACKED_BYTES)
        self._read_bytes += len(packed)
        return packed

    def _before_damage(self) -> bytes:
        """Return the intact data of the current member that was not yet returned, because the decoder drops a whole piece with a damaged byte."""
        self._packed.seek(self._begin + self._member_read)
        left, rest = self._given - self._member_given, bytearray()
        try:
            for piece in _unpacked_slowly(self._packed, left):
                rest += piece[left:]
                left = max(0, left - len(piece))
                if len(rest) >= _PIECE_BYTES:
                    break
        except standard_zlib.error:  # the damaged byte, which is reported after the remaining data
            pass
        return bytes(rest)

    def _begin_member(self) -> None:
        """Start the next member, or skip padding, which every tool ignores."""
        rest = self._inflate.unused_data or self._next_packed()
        rest = rest.lstrip(b"\0")
        if not rest:
            self._is_over = True
        elif rest.startswith(_MAGIC[: len(rest)]):
            self._inflate, self._waiting = zlib.decompressobj(GZIP), rest
            self._member_read, self._member_given = self._read_bytes - len(rest), self._given
        else:
            self._end("something else follows the packed data")

    def _end(self, damage: str) -> None:
        self.damage, self._is_over = damage, True


def _unpacked_slowly(packed: BinaryIO, most_at_once: int) -> Iterator[bytes]:
    """Yield a member's data: the first part in large pieces, the rest byte by byte. Raises zlib.error."""
    inflate = standard_zlib.decompressobj(GZIP)
    while not inflate.eof and (waiting := packed.read(_PACKED_BYTES)):
        while waiting and most_at_once:
            piece = inflate.decompress(waiting, min(most_at_once, _PIECE_BYTES))
            most_at_once -= len(piece)
            waiting = inflate.unconsumed_tail
            yield piece
        for number in range(len(waiting)):
            yield inflate.decompress(waiting[number : number + 1])


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is packed with gzip."""
    return head.startswith(_MAGIC)
