"""A stream of what a file holds, unpacked where it is packed; a damaged end is an end that says so."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from telemetry_daemon.deflate import GZIP, zlib

_MAGIC = b"\x1f\x8b"
_PACKED_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20
# Real traces pack ten to fifty times; a bomb a thousand times. Short files may be as dense as they like.
MOST_TIMES, ALLOWED_BYTES = 250, 1 << 30


class Unpacked(io.RawIOBase):
    """Reads what is packed in a stream with gzip, of one or many members. `damage` says why it ended early, "" if it did not."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self.damage = ""
        self._packed = packed
        self._inflate = zlib.decompressobj(GZIP)
        self._waiting = b""
        self._given = self._taken = 0
        self._is_over = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes; 0 at the end."""
        while not self._is_over:
            piece = self._next(len(buffer))
            if piece:
                self._given += len(piece)
                if self._given > ALLOWED_BYTES and self._given > MOST_TIMES * self._taken:
                    self._end(f"it unpacks to more than {MOST_TIMES} times its size")
                    return 0
                buffer[: len(piece)] = piece
                return len(piece)
        return 0

    def _next(self, most: int) -> bytes:
        try:
            if self._inflate.eof:
                self._begin_member()
                return b""
            if not self._waiting:
                self._waiting = self._packed.read(_PACKED_BYTES)
                self._taken += len(self._waiting)
                if not self._waiting:
                    self._end("it is cut off: the end of the packed data is missing")
                    return b""
            piece: bytes = self._inflate.decompress(self._waiting, min(most, _PIECE_BYTES))
            self._waiting = self._inflate.unconsumed_tail
        except zlib.error as error:  # type: ignore[misc]  # isal has no types
            self._end(f"its packed data are damaged ({error})")
            return b""
        return piece

    def _begin_member(self) -> None:
        """Whatever follows a member is another one, or padding that every tool passes over."""
        rest = (self._inflate.unused_data or self._packed.read(_PACKED_BYTES)).lstrip(b"\0")
        if not rest:
            self._is_over = True
        elif rest.startswith(_MAGIC[: len(rest)]):
            self._inflate, self._waiting = zlib.decompressobj(GZIP), rest
        else:
            self._end("something else follows the packed data")

    def _end(self, damage: str) -> None:
        self.damage, self._is_over = damage, True


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is packed with gzip."""
    return head.startswith(_MAGIC)
