"""A worker process as the daemon sees it: started on demand, killed when late, never two while one is stuck."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from telemetry_daemon.processes.process import NOT_FOR_CHILDREN, Launcher, launch
from telemetry_daemon.processes.worker_link import GoneError, LateError, Link, OverflowingError
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.codec.worker_wire import Answer, Ask, Question, answer_in, question_line
from telemetry_parsers.model import Failure, Plain, Reason, State
from telemetry_parsers.states import NOT_STARTED

_LONGEST_BACK_OFF_SECONDS = 60.0
_CLOSE_SECONDS = 1.0


class WorkerError(Exception):
    """A call without a result; `failure` is the consequence for the source."""

    state: State = "failed"
    reason: Reason | None = "internal"

    @property
    def failure(self) -> Failure:
        """Return the source's state and reason, with the error's text."""
        return Failure(self.state, self.reason, str(self))


class WorkerTimeoutError(WorkerError):
    """No answer before the deadline; the worker was killed."""

    reason: Reason | None = "timeout"


class WorkerStuckError(WorkerError):
    """A worker does not exit even when killed; no other worker is started before it has."""

    state: State = "stuck"
    reason: Reason | None = None


class WorkerDiedError(WorkerError):
    """The worker exited during the call, or could not be started."""

    reason: Reason | None = "killed"


class WorkerOverflowError(WorkerError):
    """The answer was longer than the limit."""

    reason: Reason | None = "too_much_output"


class WorkerFaultError(WorkerError):
    """The worker works, but the code that it ran raised an exception, which the text names."""


class Worker:
    """At most one process that runs foreign code. Safe to use from several threads; calls take turns. `readers` are the targets of the library readers by name."""

    def __init__(
        self,
        label: str,
        readers: Mapping[str, str] = MappingProxyType({}),
        *,
        launcher: Launcher = launch,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = label
        self.readers = readers
        self._launcher = launcher
        self._environment = environment
        self._clock = clock
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._stopping = threading.Event()
        self._link: Link | None = None
        self._stuck: Link | None = None
        self._serial = 0
        self._crashes = 0
        self._started = self._not_before = clock()
        self._trouble = ""
        self._trouble_kind: type[WorkerError] = WorkerDiedError
        # CPU time of all its processes so far; of the running process as of its last answer. Never decreases.
        self.cpu_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """Return the PID of the running worker."""
        link = self._link
        return None if link is None else link.pid

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of its processes."""
        return self._environment

    @property
    def stuck_pid(self) -> int | None:
        """Return the PID of a killed worker that had not exited at the last check."""
        stuck = self._stuck
        return None if stuck is None else stuck.pid

    @property
    def running_seconds(self) -> float:
        """Return how long the running process has lived, or 0 without a process."""
        return 0.0 if self._link is None else self._clock() - self._started

    def call(self, what: Ask, deadline_seconds: float, given_up: Callable[[], bool] = lambda: False) -> Plain:
        """Return the result in plain form. Raises a WorkerError. A call that was given up before its turn is not started."""
        until = time.monotonic() + deadline_seconds
        if not self._turn.acquire(timeout=max(0.0, deadline_seconds)):
            raise WorkerTimeoutError(f"{self.label}: another call has kept its worker for {deadline_seconds:g} s")
        try:
            self._stopping.clear()
            # Checked only now: a caller that gives up later stops the call that is about to start.
            if given_up():
                raise WorkerDiedError(f"{self.label}: the call was given up before its turn")
            return self._ask(self._running(), what, until)
        finally:
            self._turn.release()

    def stop(self) -> None:
        """End the process within a second, even while a call waits for it. The next call starts a new process."""
        self._stopping.set()
        if self._turn.acquire(timeout=_CLOSE_SECONDS):
            try:
                if self._link is not None:
                    self._retire(self._link, self._link.dismiss)
                self._settle_stuck()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Stop permanently."""
        self._closed.set()
        self.stop()

    def _interrupted(self) -> bool:
        return self._stopping.is_set() or self._closed.is_set()

    def _running(self) -> Link:
        if self._closed.is_set():
            raise WorkerDiedError(f"{self.label}: the worker is closed")
        stuck = self._settle_stuck()
        if stuck is not None:
            raise WorkerStuckError(f"{self.label}: worker {stuck.pid} does not end, its library or driver holds it")
        if self._link is None:
            self._link = self._start()
            self._started = self._clock()
        return self._link

    def _settle_stuck(self) -> Link | None:
        if self._stuck is not None and self._stuck.over():
            self._count_end(self._stuck)
            self._stuck = None
        return self._stuck

    def _start(self) -> Link:
        wait_seconds = self._not_before - self._clock()
        if wait_seconds > 0:
            raise self._trouble_kind(f"{self.label}: {self._trouble}; started again in {wait_seconds:.0f} s")
        environment = {name: text for name, text in self._environment.items() if name not in NOT_FOR_CHILDREN}
        try:
            return Link(self.label, self._launcher, environment, self._interrupted)
        except (OSError, ValueError) as error:
            self._back_off(WorkerDiedError, f"{NOT_STARTED}: {error}")
            raise WorkerDiedError(f"{self.label}: {self._trouble}") from None

    def _ask(self, link: Link, what: Ask, until: float) -> Plain:
        self._serial += 1
        try:
            line = question_line(Question(self._serial, max(0.0, until - time.monotonic()), what))
        except CodecError as error:
            raise WorkerFaultError(f"{self.label}: the question cannot be asked: {error}") from None
        try:
            answer = self._understood(link.exchange(line, until))
        except LateError:
            raise self._ended(link, WorkerTimeoutError, "the worker did not answer before the deadline") from None
        except OverflowingError:
            raise self._ended(link, WorkerOverflowError, "the worker answered more than the limit") from None
        except CodecError as error:
            raise self._ended(link, WorkerDiedError, f"the worker answered what no worker should: {error}") from None
        except GoneError:
            if self._interrupted():
                self._retire(link, link.end)
                raise WorkerDiedError(f"{self.label}: the worker was stopped during the call") from None
            raise self._ended(link, WorkerDiedError, "") from None
        self._crashes = 0
        self._count_cpu(link, answer.cpu_seconds)
        if answer.error is None:
            return answer.result
        kind = WorkerOverflowError if answer.error.reason == "too_much_output" else WorkerFaultError
        raise kind(f"{self.label}: {answer.error.text}")

    def _understood(self, line: bytes) -> Answer:
        answer = answer_in(line)
        if answer.id != self._serial:
            raise CodecError("id", f"expected {self._serial}, found {answer.id}")
        return answer

    def _ended(self, link: Link, error: type[WorkerError], trouble: str) -> WorkerError:
        over = self._retire(link, link.end)
        self._back_off(error, trouble or link.fate())
        if over:
            return error(f"{self.label}: {self._trouble}")
        return WorkerStuckError(f"{self.label}: {self._trouble}, and worker {link.pid} does not end even when killed")

    def _retire(self, link: Link, make_end: Callable[[], bool]) -> bool:
        over = make_end()
        self._link = None
        if over:
            self._count_end(link)
        else:
            self._stuck = link
        return over

    def _back_off(self, kind: type[WorkerError], trouble: str) -> None:
        """Delay the next start by 1, 2, 4 … 60 s: a plugin that fails at once must not be started in a loop."""
        self._trouble_kind, self._trouble = kind, trouble
        self._not_before = self._clock() + min(2.0**self._crashes, _LONGEST_BACK_OFF_SECONDS)
        self._crashes = min(self._crashes + 1, 10)

    def _count_end(self, link: Link) -> None:
        if link.ended is not None:
            self._count_cpu(link, link.ended.cpu_seconds)

    def _count_cpu(self, link: Link, cpu_seconds: float) -> None:
        more = max(0.0, cpu_seconds - link.counted_cpu_seconds)
        self.cpu_seconds += more
        link.counted_cpu_seconds += more
