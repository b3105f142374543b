"""A process' two pipes, read without blocking and up to a limit."""

from __future__ import annotations

import os
import select
import time

_CHUNK_BYTES = 1 << 16


class Pipes:
    """Standard output and error of a process, as far as they came."""

    def __init__(self, stdout: int, stderr: int, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = {stdout: bytearray(), stderr: bytearray()}
        self._stdout = stdout
        self._stderr = stderr
        self._poll = select.poll()
        self._open = {stdout, stderr}
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)

    @property
    def ended(self) -> bool:
        """Whether both have reached their end: nothing more can come."""
        return not self._open

    @property
    def too_much(self) -> bool:
        """Whether one of them gave more than the limit."""
        return any(len(kept) > self._limit_bytes for kept in self._kept.values())

    @property
    def stdout(self) -> bytes:
        """What came from standard output."""
        return bytes(self._kept[self._stdout])

    @property
    def stderr(self) -> bytes:
        """What came from standard error."""
        return bytes(self._kept[self._stderr])

    def read(self, patience_seconds: float) -> None:
        """Wait at most so long for something to come, and take it."""
        for descriptor, _ in self._poll.poll(max(0.0, patience_seconds) * 1000):
            self._take(descriptor)

    def drain(self, patience_seconds: float) -> None:
        """Read to the end, for at most so long and not beyond the limit."""
        until = time.monotonic() + patience_seconds
        self.read(0)
        while not (self.ended or self.too_much or time.monotonic() >= until):
            self.read(until - time.monotonic())

    def _take(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # all that is there was read
            return
        if chunk:
            self._kept[descriptor] += chunk
        else:
            self._poll.unregister(descriptor)
            self._open.discard(descriptor)
