"""One run of a tool from start to exit: reads its output, ends it at the deadline, and finds remaining processes."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Literal

from telemetry_daemon.processes.process import Ended, Process
from telemetry_parsers.dataclass import dataclass

_CHUNK_BYTES = 1 << 16


class Pipes:
    """Standard output and error of a process, as read so far."""

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
        """Return whether both pipes have reached their end."""
        return not self._open

    @property
    def too_much(self) -> bool:
        """Return whether a pipe has exceeded the limit."""
        return any(len(kept) > self._limit_bytes for kept in self._kept.values())

    @property
    def stdout(self) -> bytes:
        """Return the bytes from standard output."""
        return bytes(self._kept[self._stdout])

    @property
    def stderr(self) -> bytes:
        """Return the bytes from standard error."""
        return bytes(self._kept[self._stderr])

    def read(self, patience_seconds: float) -> None:
        """Wait at most this long for output, and read it."""
        for descriptor, _ in self._poll.poll(max(0.0, patience_seconds) * 1000):
            self._take(descriptor)

    def drain(self, patience_seconds: float) -> None:
        """Read to the end, for at most this long and up to the limit."""
        until = time.monotonic() + patience_seconds
        self.read(0)
        while not (self.ended or self.too_much or time.monotonic() >= until):
            self.read(until - time.monotonic())

    def _take(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # all available output was read
            return
        if chunk:
            self._kept[descriptor] += chunk
        else:
            self._poll.unregister(descriptor)
            self._open.discard(descriptor)


Cause = Literal["exited", "timeout", "too_much_output", "closed"]

# A tool that has closed its output usually exits at once. A tool with open output rarely exits before closing it.
_FIRST_PAUSE_SECONDS = 0.0002
_FIRST_LOOK_SECONDS = 0.01
# Added to the time that closing takes: see Limits.
_LONGEST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of output and waits. Grace period, wait and one pause together must stay under a reader's second to close."""

    output_bytes: int = 8 << 20
    late_output_seconds: float = 0.2
    grace_seconds: float = 0.25
    kill_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run. `ended` is None while the tool lives, `over` False while any process lives. `cut`: the last line may be incomplete."""

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
    """Read a process until it exits; at the monotonic time `until`, or when `closing` is set, end it or leave it alone."""
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
    """Send SIGTERM to the group and, after a short grace period, SIGKILL to the remaining processes."""
    process.signal(signal.SIGTERM)
    if not wait_for(process.exited, limits.grace_seconds):
        process.signal(signal.SIGKILL)


def settle(process: Process, patience_seconds: float) -> bool:
    """Reap the tool if it has exited and kill its remaining processes. Return True once none lives."""
    until = time.monotonic() + patience_seconds
    if not wait_for(process.exited, patience_seconds):
        return False
    process.signal(signal.SIGKILL)
    process.reap()
    return wait_for(process.gone, until - time.monotonic())


def wait_for(condition: Callable[[], bool], patience_seconds: float) -> bool:
    """Check the condition at least once, until it is true or the time is over."""
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
    """Read until the process exits, the deadline passes or the limit is reached. Poll for the exit, because pidfd_open needs Linux 5.3."""
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
