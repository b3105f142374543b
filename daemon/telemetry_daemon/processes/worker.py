"""Starts worker processes on demand, sends them requests, and kills a worker that misses a deadline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from telemetry_daemon.processes.process import DAEMON_ONLY_VARIABLES, Launcher, launch
from telemetry_daemon.processes.worker_process import AnswerTooLargeError, LateError, WorkerGoneError, WorkerProcess
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.codec.worker_wire import Answer, Ask, Question, answer_in, question_line
from telemetry_parsers.model import Failure, Plain, Reason, State
from telemetry_parsers.states import NOT_STARTED

_MAX_BACK_OFF_SECONDS = 60.0
_CLOSE_SECONDS = 1.0


class WorkerError(Exception):
    """A failed call. The source is reported with this error's `state` and `reason`."""

    state: State = "failed"
    reason: Reason | None = "internal"

    @property
    def failure(self) -> Failure:
        """Return the error as a failure of the source."""
        return Failure(self.state, self.reason, str(self))


class WorkerTimeoutError(WorkerError):
    """The worker did not answer before the deadline, and was killed."""

    reason: Reason | None = "timeout"


class WorkerStuckError(WorkerError):
    """The worker did not exit when it was killed."""

    state: State = "stuck"
    reason: Reason | None = None


class WorkerDiedError(WorkerError):
    """The worker exited during the call, or could not be started."""

    reason: Reason | None = "killed"


class WorkerOverflowError(WorkerError):
    """The worker's answer exceeded the limit."""

    reason: Reason | None = "too_much_output"


class WorkerFaultError(WorkerError):
    """The code in the worker raised an exception, and the worker continues."""


class Worker:
    """Runs plugin or library code in one process at a time. Thread-safe."""

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
        self.environment = environment
        self._clock = clock
        self._call_lock = threading.Lock()
        self._closed = threading.Event()
        self._stopping = threading.Event()
        self._process: WorkerProcess | None = None
        self._stuck_process: WorkerProcess | None = None
        self._request_id = 0
        self._crash_count = 0
        self._started_at = self._next_start_at = clock()
        self._last_error = ""
        self._last_error_type: type[WorkerError] = WorkerDiedError
        # The CPU time of all processes so far, which never decreases.
        self.cpu_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """Return the PID of the worker process, or None if there is no process."""
        process = self._process
        return None if process is None else process.pid

    @property
    def stuck_pid(self) -> int | None:
        """Return the PID of a killed worker that has not exited, or None if there is none."""
        stuck = self._stuck_process
        return None if stuck is None else stuck.pid

    @property
    def running_seconds(self) -> float:
        """Return how many seconds the process has been running, or 0 if there is no process."""
        return 0.0 if self._process is None else self._clock() - self._started_at

    def call(self, request: Ask, deadline_seconds: float, is_cancelled: Callable[[], bool] = lambda: False) -> Plain:
        """Send a request and return the serialized result. Raise a subclass of WorkerError if the call fails."""
        deadline = time.monotonic() + deadline_seconds
        if not self._call_lock.acquire(timeout=max(0.0, deadline_seconds)):
            raise WorkerTimeoutError(f"{self.label}: the worker was busy with another call for {deadline_seconds:g} s")
        try:
            self._stopping.clear()
            # If the call is cancelled after this check, `stop` interrupts it.
            if is_cancelled():
                raise WorkerDiedError(f"{self.label}: the call was cancelled before it was sent")
            return self._exchange(self._current_process(), request, deadline)
        finally:
            self._call_lock.release()

    def stop(self) -> None:
        """Stop the process within a second, and interrupt the current call."""
        self._stopping.set()
        if self._call_lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                if self._process is not None:
                    self._retire(self._process, self._process.stop)
                self._reap_stuck_process()
            finally:
                self._call_lock.release()

    def close(self) -> None:
        """Stop the process for good. Later calls raise WorkerDiedError."""
        self._closed.set()
        self.stop()

    def _is_interrupted(self) -> bool:
        return self._stopping.is_set() or self._closed.is_set()

    def _current_process(self) -> WorkerProcess:
        if self._closed.is_set():
            raise WorkerDiedError(f"{self.label}: the worker is closed")
        stuck = self._reap_stuck_process()
        if stuck is not None:
            raise WorkerStuckError(f"{self.label}: worker {stuck.pid} does not exit: its library or driver blocks it")
        if self._process is None:
            self._process = self._start_process()
            self._started_at = self._clock()
        return self._process

    def _reap_stuck_process(self) -> WorkerProcess | None:
        if self._stuck_process is not None and self._stuck_process.is_gone():
            self._count_cpu_at_exit(self._stuck_process)
            self._stuck_process = None
        return self._stuck_process

    def _start_process(self) -> WorkerProcess:
        wait_seconds = self._next_start_at - self._clock()
        if wait_seconds > 0:
            raise self._last_error_type(f"{self.label}: {self._last_error}; next start in {wait_seconds:.0f} s")
        environment = {name: text for name, text in self.environment.items() if name not in DAEMON_ONLY_VARIABLES}
        try:
            return WorkerProcess(self.label, self._launcher, environment, self._is_interrupted)
        except (OSError, ValueError) as error:
            self._back_off(WorkerDiedError, f"{NOT_STARTED}: {error}")
            raise WorkerDiedError(f"{self.label}: {self._last_error}") from None

    def _exchange(self, process: WorkerProcess, request: Ask, deadline: float) -> Plain:
        self._request_id += 1
        try:
            line = question_line(Question(self._request_id, max(0.0, deadline - time.monotonic()), request))
        except CodecError as error:
            raise WorkerFaultError(f"{self.label}: the request cannot be sent: {error}") from None
        try:
            answer = self._decode_answer(process.exchange(line, deadline))
        except LateError:
            raise self._kill_worker(
                process, WorkerTimeoutError, "the worker did not answer before the deadline"
            ) from None
        except AnswerTooLargeError:
            raise self._kill_worker(process, WorkerOverflowError, "the worker's answer exceeded the limit") from None
        except CodecError as error:
            raise self._kill_worker(process, WorkerDiedError, f"the worker's answer is invalid: {error}") from None
        except WorkerGoneError:
            if self._is_interrupted():
                self._retire(process, process.kill)
                raise WorkerDiedError(f"{self.label}: the worker was stopped during the call") from None
            raise self._kill_worker(process, WorkerDiedError, "") from None
        self._crash_count = 0
        self._count_cpu(process, answer.cpu_seconds)
        if answer.error is None:
            return answer.result
        error_type = WorkerOverflowError if answer.error.reason == "too_much_output" else WorkerFaultError
        raise error_type(f"{self.label}: {answer.error.text}")

    def _decode_answer(self, line: bytes) -> Answer:
        answer = answer_in(line)
        if answer.id != self._request_id:
            raise CodecError("id", f"expected {self._request_id}, found {answer.id}")
        return answer

    def _kill_worker(self, process: WorkerProcess, error_type: type[WorkerError], text: str) -> WorkerError:
        """Kill the worker, delay the next start, and return the error to raise."""
        is_gone = self._retire(process, process.kill)
        self._back_off(error_type, text or process.exit_description())
        if is_gone:
            return error_type(f"{self.label}: {self._last_error}")
        return WorkerStuckError(f"{self.label}: {self._last_error}; worker {process.pid} does not exit when killed")

    def _retire(self, process: WorkerProcess, end_process: Callable[[], bool]) -> bool:
        is_gone = end_process()
        self._process = None
        if is_gone:
            self._count_cpu_at_exit(process)
        else:
            self._stuck_process = process
        return is_gone

    def _back_off(self, error_type: type[WorkerError], text: str) -> None:
        """Delay the next start by 1, 2, 4 … 60 s."""
        self._last_error_type, self._last_error = error_type, text
        self._next_start_at = self._clock() + min(2.0**self._crash_count, _MAX_BACK_OFF_SECONDS)
        self._crash_count = min(self._crash_count + 1, 10)

    def _count_cpu_at_exit(self, process: WorkerProcess) -> None:
        if process.exit_info is not None:
            self._count_cpu(process, process.exit_info.cpu_seconds)

    def _count_cpu(self, process: WorkerProcess, cpu_seconds: float) -> None:
        increase = max(0.0, cpu_seconds - process.counted_cpu_seconds)
        self.cpu_seconds += increase
        process.counted_cpu_seconds += increase
