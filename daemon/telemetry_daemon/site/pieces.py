"""Documents made while they are sent, a piece in each turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from telemetry_daemon.site.packing import packed


class Made:
    """The pieces of an iterator, made when the client takes them; packed as gzip if that is asked for."""

    def __init__(self, pieces: Iterator[bytes], *, compressed: bool) -> None:
        self._pieces = packed(pieces) if compressed else pieces

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """There is always a next piece, so nobody has to be told."""

    def next(self) -> bytes | None:
        """The next piece, None after the last one."""
        return next((piece for piece in self._pieces if piece), None)

    def close(self) -> None:
        """Make no more."""
        self._pieces = iter(())
