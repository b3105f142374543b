"""Exchanges lines with one worker process: sends a request, and receives the answer."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Mapping

from telemetry_daemon.processes.process import ExitInfo, Launcher, LaunchRequest, signal_name
from telemetry_daemon.processes.supervise import RunLimits, reap_group, terminate, wait_for
from telemetry_parsers.codec.worker_answer import LIMIT_BYTES

# These times add up to less than a second.
_LIMITS = RunLimits(grace_seconds=0.2, kill_seconds=0.25)
_EXIT_SECONDS = 0.5
_PATH_FLAGS = (("isolated", "-I"), ("ignore_environment", "-E"), ("no_user_site", "-s"), ("safe_path", "-P"))
_CHUNK_BYTES = 1 << 16
_STDERR_TAIL_BYTES = 2048
# The interval at which a waiting call checks for an interruption.
_CHECK_SECONDS = 0.05


class LateError(Exception):
    """The worker did not answer before the deadline."""


class WorkerGoneError(Exception):
    """The worker exited, or the exchange was interrupted."""


class AnswerTooLargeError(Exception):
    """The worker's answer exceeds the limit."""


class WorkerProcess:
    """A started worker process, for use by one thread at a time."""

    def __init__(
        self, label: str, launcher: Launcher, environment: Mapping[str, str], is_interrupted: Callable[[], bool]
    ) -> None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        arguments = (*_path_flags(), "-m", "telemetry_daemon.processes.worker_main", label, str(read_end))
        with contextlib.ExitStack() as on_error:
            on_error.callback(os.close, write_end)
            try:
                self._process = launcher(LaunchRequest(sys.executable, arguments, environment, (read_end,)))
            finally:
                os.close(read_end)
            on_error.pop_all()
        os.set_blocking(write_end, False)
        self._request_descriptor = write_end
        self._is_request_pipe_closed = False
        self._is_interrupted = is_interrupted
        self._received = bytearray()
        self._stderr_tail = bytearray()
        self._exited_by_itself = False
        self.counted_cpu_seconds = 0.0

    @property
    def pid(self) -> int:
        """Return the worker's PID."""
        return self._process.pid

    @property
    def exit_info(self) -> ExitInfo | None:
        """Return how the process exited, or None if it is still running."""
        return self._process.reap() if self._process.has_exited() else None

    def exit_description(self) -> str:
        """Return how the worker exited, followed by the last line of its standard error."""
        lines = self._stderr_tail.decode("utf-8", "replace").split("\n")
        last_line = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
        return f"the worker {_exit_text(self.exit_info) if self._exited_by_itself else 'closed its pipe'}{last_line}"

    def exchange(self, line: bytes, deadline: float) -> bytes:
        """Send a line and return the answer. Raise LateError, WorkerGoneError or AnswerTooLargeError on failure."""
        unsent = memoryview(line)
        poll = select.poll()
        poll.register(self._request_descriptor, select.POLLOUT)
        poll.register(self._process.stdout, select.POLLIN)
        poll.register(self._process.stderr, select.POLLIN)
        while True:
            ready = self._wait_for_data(poll, deadline)
            if self._request_descriptor in ready:
                unsent = self._send(unsent)
                if not unsent:
                    poll.unregister(self._request_descriptor)
            if self._process.stderr in ready and not self._read_stderr():
                poll.unregister(self._process.stderr)
            if self._process.stdout in ready:
                answer = self._receive()
                if answer is not None:
                    return answer

    def stop(self) -> bool:
        """End the worker, and return whether its processes are gone."""
        self._close_request_pipe()
        wait_for(self._process.has_exited, _EXIT_SECONDS)
        return self.kill()

    def kill(self) -> bool:
        """Kill the worker within a second, and return whether its processes are gone."""
        self._exited_by_itself = self._process.has_exited()
        self._close_request_pipe()
        terminate(self._process, _LIMITS)
        is_gone = reap_group(self._process, _LIMITS.kill_seconds)
        self._drain_stderr()
        self._process.close()
        return is_gone

    def is_gone(self) -> bool:
        """Return whether all processes of a killed worker have exited."""
        return reap_group(self._process, 0)

    def _wait_for_data(self, poll: select.poll, deadline: float) -> frozenset[int]:
        remaining = deadline - time.monotonic()
        if self._is_interrupted():
            raise WorkerGoneError
        if remaining <= 0:
            raise LateError
        ready = frozenset(descriptor for descriptor, _ in poll.poll(1000 * min(remaining, _CHECK_SECONDS)))
        # A child of the worker may keep the pipe open after the worker's exit.
        if not ready and self._process.has_exited():
            raise WorkerGoneError
        return ready

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._request_descriptor, unsent) :]
        except BlockingIOError:  # the pipe is full; the rest is sent when the pipe is writable
            return unsent
        except BrokenPipeError:
            raise self._error_after_exit() from None

    def _error_after_exit(self) -> WorkerGoneError:
        wait_for(self._process.has_exited, _EXIT_SECONDS)
        return WorkerGoneError()

    def _receive(self) -> bytes | None:
        chunk = os.read(self._process.stdout, _CHUNK_BYTES)
        if not chunk:
            raise self._error_after_exit()
        self._received += chunk
        if len(self._received) > LIMIT_BYTES:
            raise AnswerTooLargeError
        if b"\n" not in chunk:
            return None
        answer, _, remainder = bytes(self._received).partition(b"\n")
        self._received = bytearray(remainder)
        return answer

    def _read_stderr(self) -> bool:
        """Read from standard error. Return False if it is closed."""
        chunk = os.read(self._process.stderr, _CHUNK_BYTES)
        self._stderr_tail = (self._stderr_tail + chunk)[-_STDERR_TAIL_BYTES:]
        return bool(chunk)

    def _drain_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError):  # all available output was read
            while self._read_stderr():
                pass

    def _close_request_pipe(self) -> None:
        if not self._is_request_pipe_closed:
            self._is_request_pipe_closed = True
            os.close(self._request_descriptor)


def _path_flags() -> tuple[str, ...]:
    """Return the interpreter flags that affect where Python finds modules."""
    return tuple(flag for name, flag in _PATH_FLAGS if getattr(sys.flags, name, False))


def _exit_text(exit_info: ExitInfo | None) -> str:
    if exit_info is None or exit_info.status is None:
        return "exited"
    if exit_info.status >= 0:
        return f"exited with status {exit_info.status}"
    return f"was killed by {signal_name(-exit_info.status)}"
