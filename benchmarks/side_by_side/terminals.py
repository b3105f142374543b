"""Runs interactive programs in a terminal of 160 × 50, and measures the cost of the first screen and of each second after it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from side_by_side import processes

COLUMNS, ROWS = 160, 50
_START_SECONDS = 30.0
_END_SECONDS = 5.0
_RETRY_SECONDS = 0.01


class NoScreenError(Exception):
    """A program that did not show the expected text, with its last output."""


@dataclass
class Screen:
    """A program in a terminal, whose output is read continuously."""

    pid: int
    printed: bytearray = field(default_factory=bytearray)

    def wait_for(self, marker: bytes) -> float:
        """Return the CPU seconds until the program showed the marker. Raise NoScreenError if it does not."""
        until = time.perf_counter() + _START_SECONDS
        while marker not in self.printed:
            if time.perf_counter() > until:
                raise NoScreenError(f"The screen never showed {marker.decode()}: {bytes(self.printed[-300:])!r}")
            time.sleep(_RETRY_SECONDS)  # another thread collects what the program prints
        return processes.cpu_seconds(self.pid)

    def watch(self, seconds: float) -> tuple[float, float]:
        """Return CPU seconds and bytes per second."""
        cpu, printed, begin = processes.cpu_seconds(self.pid), len(self.printed), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begin
        return (processes.cpu_seconds(self.pid) - cpu) / passed, (len(self.printed) - printed) / passed


@contextmanager
def running_in_terminal(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Screen]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(
            command[0], list(command), {**environment, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        )  # This is the child process.
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = Screen(pid)
    threading.Thread(target=_drain, args=(terminal, screen.printed), daemon=True).start()
    try:
        yield screen
    finally:
        _end(pid)
        os.close(terminal)


def _drain(terminal: int, printed: bytearray) -> None:
    with contextlib.suppress(OSError):  # The program has ended.
        while piece := os.read(terminal, 1 << 16):
            printed += piece


def _end(pid: int) -> None:
    children = processes.tree(pid)[1:]
    os.kill(pid, signal.SIGTERM)
    until = time.perf_counter() + _END_SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.perf_counter() > until:  # The program ignored the request to end and is killed.
            os.kill(pid, signal.SIGKILL)
        time.sleep(_RETRY_SECONDS)  # waitpid has no timeout
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # The process ended with its parent.
            os.kill(child, signal.SIGKILL)
