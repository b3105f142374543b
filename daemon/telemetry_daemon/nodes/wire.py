"""HTTP/1.1 as a client speaks it: a request, the head of its answer, and its body as it comes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping

_MOST_HEAD_BYTES = 64 << 10
_READ_BYTES = 1 << 16


class BrokenError(Exception):
    """What came is no answer."""


class Connection:
    """A connection, and what was read of it and not used yet."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket = connection
        self._seconds = seconds
        self._until = 0.0
        self._read = bytearray()
        self.is_kept = True

    def restart_clock(self) -> None:
        """From now on an answer may take its time."""
        self._until = time.monotonic() + self._seconds

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def request(self, target: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Send a request; the status and the headers of its answer, with names in lower case."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        while b"\r\n\r\n" not in self._read:
            if len(self._read) > _MOST_HEAD_BYTES or not self._fill():
                raise BrokenError("what came is no HTTP")
        head, _, rest = bytes(self._read).partition(b"\r\n\r\n")
        self._read = bytearray(rest)
        first, *named = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise BrokenError("what came is no HTTP")
        pairs = (line.partition(":") for line in named)
        return int(status[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The body as it comes."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif (length := headers.get("content-length", "")).isdecimal() and length.isascii():
            yield from self._exactly(int(length))
        else:
            self.is_kept = False
            yield bytes(self._read)
            while self._fill(beyond=True):
                yield bytes(self._read)

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield from self._exactly(size)
            self._line()
        while self._line():  # trailers
            pass

    def _chunk_size(self) -> int:
        try:
            return int(self._line().partition(b";")[0], 16)
        except ValueError as error:
            raise BrokenError("what came is no HTTP") from error

    def _line(self) -> bytes:
        while b"\r\n" not in self._read:
            if len(self._read) > _MOST_HEAD_BYTES or not self._fill():
                raise BrokenError("its answer was cut off")
        line, _, rest = bytes(self._read).partition(b"\r\n")
        self._read = bytearray(rest)
        return line

    def _exactly(self, count: int) -> Iterator[bytes]:
        while count > 0:
            if not self._read and not self._fill():
                raise BrokenError("its answer was cut off")
            piece = bytes(self._read[:count])
            del self._read[: len(piece)]
            count -= len(piece)
            yield piece

    def _fill(self, *, beyond: bool = False) -> bool:
        """Read more; False at the end of what comes. `beyond` drops what was read before."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        received = self._socket.recv(_READ_BYTES)
        if beyond:
            self._read.clear()
        self._read += received
        return bool(received)
