"""Supervises one run of a tool: reads its output, and kills it at the deadline."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Literal

from telemetry_daemon.processes.process import ExitInfo, Process
from telemetry_parsers.dataclass import dataclass

_CHUNK_BYTES = 1 << 16


class OutputPipes:
    """Reads standard output and standard error of a process."""

    def __init__(self, stdout: int, stderr: int, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._content = {stdout: bytearray(), stderr: bytearray()}
        self._stdout = stdout
        self._stderr = stderr
        self._poll = select.poll()
        self._open_descriptors = {stdout, stderr}
        for descriptor in self._open_descriptors:
            self._poll.register(descriptor, select.POLLIN)

    @property
    def is_at_end(self) -> bool:
        """Return whether both pipes were read to their end."""
        return not self._open_descriptors

    @property
    def exceeds_limit(self) -> bool:
        """Return whether one of the pipes had more bytes than the limit."""
        return any(len(content) > self._limit_bytes for content in self._content.values())

    @property
    def stdout(self) -> bytes:
        """Return the bytes read from standard output."""
        return bytes(self._content[self._stdout])

    @property
    def stderr(self) -> bytes:
        """Return the bytes read from standard error."""
        return bytes(self._content[self._stderr])

    def read(self, timeout_seconds: float) -> None:
        """Wait for output for at most this time, and read it."""
        for descriptor, _ in self._poll.poll(max(0.0, timeout_seconds) * 1000):
            self._read_chunk(descriptor)

    def drain(self, timeout_seconds: float) -> None:
        """Read until the pipes end, the timeout expires, or the limit is exceeded."""
        deadline = time.monotonic() + timeout_seconds
        self.read(0)
        while not (self.is_at_end or self.exceeds_limit or time.monotonic() >= deadline):
            self.read(deadline - time.monotonic())

    def _read_chunk(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # all available output was read
            return
        if chunk:
            self._content[descriptor] += chunk
        else:
            self._poll.unregister(descriptor)
            self._open_descriptors.discard(descriptor)


Cause = Literal["exited", "timeout", "too_much_output", "closed"]

# The first pause is short, because a tool usually exits soon after it has closed its output.
_FIRST_PAUSE_SECONDS = 0.0002
_FIRST_READ_SECONDS = 0.01
# The longest pause, after which a set `closing` event is noticed.
_MAX_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits on output and waiting times."""

    output_bytes: int = 8 << 20
    late_output_seconds: float = 0.2
    grace_seconds: float = 0.25
    kill_seconds: float = 0.5  # `grace_seconds`, `kill_seconds` and a pause add up to less than 1


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. If the tool is still running, `exit_info` is None."""

    cause: Cause
    stdout: bytes
    stderr: bytes
    is_truncated: bool
    exit_info: ExitInfo | None
    is_group_gone: bool

    @property
    def status(self) -> int | None:
        """Return the tool's exit status, or None if it is unknown."""
        return None if self.exit_info is None else self.exit_info.status


def supervise(
    process: Process,
    deadline: float,
    closing: threading.Event,
    limits: RunLimits,
    on_deadline: Literal["kill", "abandon"] = "kill",
) -> RunResult:
    """Read the output until the process exits, or stop the process at a limit. Return the result of the run."""
    pipes = OutputPipes(process.stdout, process.stderr, limits.output_bytes)
    kill_seconds = limits.kill_seconds
    cause = _wait_for_exit(process, pipes, deadline, closing)
    if cause == "exited":
        pipes.drain(limits.late_output_seconds)
        cause = "too_much_output" if pipes.exceeds_limit else "exited"
    elif cause == "too_much_output" or on_deadline == "kill":
        terminate(process, limits)
    else:
        kill_seconds = 0.0
    is_group_gone = reap_group(process, kill_seconds)
    exit_info = process.reap() if process.has_exited() else None
    return RunResult(cause, pipes.stdout, pipes.stderr, not pipes.is_at_end, exit_info, is_group_gone)


def terminate(process: Process, limits: RunLimits) -> None:
    """Send SIGTERM to the group and, after a short grace period, SIGKILL."""
    process.signal(signal.SIGTERM)
    if not wait_for(process.has_exited, limits.grace_seconds):
        process.signal(signal.SIGKILL)


def reap_group(process: Process, timeout_seconds: float) -> bool:
    """Wait for the tool's exit, and kill the rest of its process group. Return whether all processes are gone."""
    deadline = time.monotonic() + timeout_seconds
    if not wait_for(process.has_exited, timeout_seconds):
        return False
    process.signal(signal.SIGKILL)
    process.reap()
    return wait_for(process.is_group_gone, deadline - time.monotonic())


def wait_for(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    """Wait until the condition is true. Return False after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    pause_seconds = _FIRST_PAUSE_SECONDS
    while not condition():
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        time.sleep(min(pause_seconds, remaining))  # there is no event to wait for
        pause_seconds = _next_pause(pause_seconds)
    return True


def _wait_for_exit(process: Process, pipes: OutputPipes, deadline: float, closing: threading.Event) -> Cause:
    # The exit is polled, because pidfd_open needs Linux 5.3.
    read_seconds, pause_seconds = _FIRST_READ_SECONDS, _FIRST_PAUSE_SECONDS
    while not process.has_exited():
        remaining = deadline - time.monotonic()
        if closing.is_set():
            return "closed"
        if remaining <= 0:
            return "timeout"
        if pipes.is_at_end:
            closing.wait(min(pause_seconds, remaining))
            pause_seconds = _next_pause(pause_seconds)
        else:
            pipes.read(min(read_seconds, remaining))
            read_seconds = _next_pause(read_seconds)
        if pipes.exceeds_limit:
            return "too_much_output"
    return "exited"


def _next_pause(pause_seconds: float) -> float:
    return min(2 * pause_seconds, _MAX_PAUSE_SECONDS)
