"""Serve a page of ours with a minimum of asyncio code: change a third of its numbers every second, compress and serve it.

    python -m side_by_side.bare_page PORT PAGE

The server reads no device and checks nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import zlib
from pathlib import Path

_INTERVAL_SECONDS = 1.0
_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n"
)
_GZIP = 16 + zlib.MAX_WBITS


class Page:
    """The page with its changing numbers, and the response that contains it."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._changing_lines = [
            (index, *line.rsplit(" ", 1)) for index, line in enumerate(self._lines) if index % 3 == 0 and line[0] != "#"
        ]
        self.answer = b""
        self.change_numbers()

    def change_numbers(self) -> None:
        """Change the numbers and compress the page."""
        offset = time.monotonic() % 1
        for index, name, number in self._changing_lines:
            self._lines[index] = f"{name} {float(number) + offset!r}\n"
        compressor = zlib.compressobj(1, wbits=_GZIP)
        body = compressor.compress("".join(self._lines).encode()) + compressor.flush()
        self.answer = _HEAD.format(len(body)).encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # The client has closed the connection.
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self.answer)
                await writer.drain()
        writer.close()


async def main(port: str, page: Page) -> None:
    await asyncio.start_server(page.serve, "127.0.0.1", int(port))
    while True:
        await asyncio.sleep(_INTERVAL_SECONDS)  # the other programs also change their numbers once a second
        page.change_numbers()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Page(Path(sys.argv[2]).read_text())))
