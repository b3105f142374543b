"""One run of a tool from its start to its end: read it, end it at the deadline, see whether anything lives on.

docs/architecture.md, "When a tool hangs", has the table of what becomes of the poll.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from telemetry_daemon.processes.process import Ended, Process

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


Cause = Literal["exited", "timeout", "too_much_output", "closed"]

# A tool that has closed its output ends at once, as a rule; one whose output is open seldom ends before it closes.
_FIRST_PAUSE_SECONDS = 0.0002
_FIRST_LOOK_SECONDS = 0.01
# Added to what closing takes: see Limits.
_LONGEST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """How much and how long: output of each pipe, the late end of a pipe, SIGTERM's grace, the wait after SIGKILL.

    Grace, wait and one pause together must stay under the second that a reader may take to close.
    """

    output_bytes: int = 8 << 20
    late_output_seconds: float = 0.2
    grace_seconds: float = 0.25
    kill_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """How a run went. `ended` is None while the tool itself lives, `over` False while anything of it does.

    `cut` tells that a pipe was still open when we stopped reading: the last line may be half a line.
    """

    cause: Cause
    stdout: bytes
    stderr: bytes
    cut: bool
    ended: Ended | None
    over: bool


def supervise(
    process: Process,
    until: float,
    closing: threading.Event,
    limits: Limits,
    on_deadline: Literal["kill", "abandon"] = "kill",
) -> Run:
    """Read a process until it ends; at the monotonic time `until`, or when `closing` is set, end it or leave it alone."""
    pipes = Pipes(process.stdout, process.stderr, limits.output_bytes)
    patience = limits.kill_seconds
    cause = _watch(process, pipes, until, closing)
    if cause == "exited":
        pipes.drain(limits.late_output_seconds)
        cause = "too_much_output" if pipes.too_much else "exited"
    elif cause == "too_much_output" or on_deadline == "kill":
        end(process, limits)
    else:
        patience = 0.0
    over = settle(process, patience)
    ended = process.reap() if process.exited() else None
    return Run(cause, pipes.stdout, pipes.stderr, not pipes.ended, ended, over)


def end(process: Process, limits: Limits) -> None:
    """SIGTERM to the group, a short grace, then SIGKILL to what is left of it."""
    process.signal(signal.SIGTERM)
    if not wait_for(process.exited, limits.grace_seconds):
        process.signal(signal.SIGKILL)


def settle(process: Process, patience_seconds: float) -> bool:
    """Reap the tool if it has ended, kill what it left behind; True once nothing of it lives on."""
    until = time.monotonic() + patience_seconds
    if not wait_for(process.exited, patience_seconds):
        return False
    process.signal(signal.SIGKILL)
    process.reap()
    return wait_for(process.gone, until - time.monotonic())


def wait_for(condition: Callable[[], bool], patience_seconds: float) -> bool:
    """Ask until it holds or the time is over; asked at least once."""
    until = time.monotonic() + patience_seconds
    pause = _FIRST_PAUSE_SECONDS
    while not condition():
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = _longer(pause)
    return True


def _watch(process: Process, pipes: Pipes, until: float, closing: threading.Event) -> Cause:
    """Read until something decides. The exit is asked for in turns: pidfd_open is unknown to Linux before 5.3."""
    while_open, after_end = _FIRST_LOOK_SECONDS, _FIRST_PAUSE_SECONDS
    while not process.exited():
        left = until - time.monotonic()
        if closing.is_set():
            return "closed"
        if left <= 0:
            return "timeout"
        if pipes.ended:
            closing.wait(min(after_end, left))
            after_end = _longer(after_end)
        else:
            pipes.read(min(while_open, left))
            while_open = _longer(while_open)
        if pipes.too_much:
            return "too_much_output"
    return "exited"


def _longer(pause_seconds: float) -> float:
    return min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
