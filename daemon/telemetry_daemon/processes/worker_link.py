"""One worker process and its protocol: a line is sent, a line or an error is received."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Mapping

from telemetry_daemon.processes.process import Ended, Launch, Launcher, signal_name
from telemetry_daemon.processes.supervise import Limits, end, settle, wait_for
from telemetry_parsers.codec.worker_answer import LIMIT_BYTES

# Together less than a second. A library being released waits for its event thread.
_LIMITS = Limits(grace_seconds=0.2, kill_seconds=0.25)
_FAREWELL_SECONDS = 0.5
_PATH_FLAGS = (("isolated", "-I"), ("ignore_environment", "-E"), ("no_user_site", "-s"), ("safe_path", "-P"))
_CHUNK_BYTES = 1 << 16
_LAST_WORDS_BYTES = 2048
# How often a waiting call checks for an interruption: often enough to close within a second.
_LOOK_SECONDS = 0.05


class LateError(Exception):
    """No answer before the deadline."""


class GoneError(Exception):
    """The process exited, or the exchange was interrupted."""


class OverflowingError(Exception):
    """The answer is longer than the limit."""


class Link:
    """A started worker. Only one thread uses it; an exchange ends once `interrupted` is set."""

    def __init__(
        self, label: str, launcher: Launcher, environment: Mapping[str, str], interrupted: Callable[[], bool]
    ) -> None:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        arguments = (*_flags(), "-m", "telemetry_daemon.processes.worker_main", label, str(reading))
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(os.close, writing)
            try:
                self._process = launcher(Launch(sys.executable, arguments, environment, (reading,)))
            finally:
                os.close(reading)
            unless_started.pop_all()
        os.set_blocking(writing, False)
        self._requests = writing
        self._hung_up = False
        self._interrupted = interrupted
        self._received = bytearray()
        self._last_words = bytearray()
        self._ended_by_itself = False
        self.counted_cpu_seconds = 0.0

    @property
    def pid(self) -> int:
        """Return the worker's PID."""
        return self._process.pid

    @property
    def ended(self) -> Ended | None:
        """Return how the process exited, or None while it lives."""
        return self._process.reap() if self._process.exited() else None

    def fate(self) -> str:
        """Return how the worker ended, with its last line on standard error."""
        lines = self._last_words.decode("utf-8", "replace").split("\n")
        last_line = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
        return f"the worker {_how(self.ended) if self._ended_by_itself else 'closed its pipe'}{last_line}"

    def exchange(self, line: bytes, until: float) -> bytes:
        """Return the answer to a line, received before the monotonic time `until`."""
        unsent = memoryview(line)
        poll = select.poll()
        poll.register(self._requests, select.POLLOUT)
        poll.register(self._process.stdout, select.POLLIN)
        poll.register(self._process.stderr, select.POLLIN)
        while True:
            ready = self._wait(poll, until)
            if self._requests in ready:
                unsent = self._send(unsent)
                if not unsent:
                    poll.unregister(self._requests)
            if self._process.stderr in ready and not self._listen():
                poll.unregister(self._process.stderr)
            if self._process.stdout in ready:
                answer = self._receive()
                if answer is not None:
                    return answer

    def dismiss(self) -> bool:
        """Let the worker exit, then kill it. Return True once no process of it lives."""
        self._hang_up()
        wait_for(self._process.exited, _FAREWELL_SECONDS)
        return self.end()

    def end(self) -> bool:
        """Kill the worker and its group within a second. Return True once no process lives."""
        self._ended_by_itself = self._process.exited()
        self._hang_up()
        end(self._process, _LIMITS)
        over = settle(self._process, _LIMITS.kill_seconds)
        self._listen_to_the_end()
        self._process.close()
        return over

    def over(self) -> bool:
        """Return whether no process of the worker lives by now."""
        return settle(self._process, 0)

    def _wait(self, poll: select.poll, until: float) -> frozenset[int]:
        left = until - time.monotonic()
        if self._interrupted():
            raise GoneError
        if left <= 0:
            raise LateError
        ready = frozenset(descriptor for descriptor, _ in poll.poll(1000 * min(left, _LOOK_SECONDS)))
        # A process that the worker started may hold the pipe open after the worker's exit.
        if not ready and self._process.exited():
            raise GoneError
        return ready

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._requests, unsent) :]
        except BlockingIOError:  # the pipe is full; the rest is sent when the pipe is writable
            return unsent
        except BrokenPipeError:
            raise self._gone() from None

    def _gone(self) -> GoneError:
        """Return the error for a closed pipe. The pipes close slightly before the process exits."""
        wait_for(self._process.exited, _FAREWELL_SECONDS)
        return GoneError()

    def _receive(self) -> bytes | None:
        chunk = os.read(self._process.stdout, _CHUNK_BYTES)
        if not chunk:
            raise self._gone()
        self._received += chunk
        if len(self._received) > LIMIT_BYTES:
            raise OverflowingError
        if b"\n" not in chunk:
            return None
        answer, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return answer

    def _listen(self) -> bool:
        """Keep the end of standard error. Return False once it is closed."""
        chunk = os.read(self._process.stderr, _CHUNK_BYTES)
        self._last_words = (self._last_words + chunk)[-_LAST_WORDS_BYTES:]
        return bool(chunk)

    def _listen_to_the_end(self) -> None:
        with contextlib.suppress(BlockingIOError):  # all available output was read
            while self._listen():
                pass

    def _hang_up(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            os.close(self._requests)


def _flags() -> tuple[str, ...]:
    """Return this interpreter's flags for the import path; the worker gets the same flags."""
    return tuple(flag for name, flag in _PATH_FLAGS if getattr(sys.flags, name, False))


def _how(ended: Ended | None) -> str:
    if ended is None or ended.status is None:
        return "ended"
    if ended.status >= 0:
        return f"exited with status {ended.status}"
    return f"was ended by {signal_name(-ended.status)}"
