"""A worker process as the daemon sees it: started when asked, ended when late, never two while one is stuck."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.files import is_there
from telemetry_daemon.readers.process import NOT_FOR_CHILDREN, Launcher, launch
from telemetry_daemon.readers.worker_link import GoneError, LateError, Link, OverflowingError
from telemetry_parsers.codec.captures import (
    CodecError,
    decode_line,
    encode_line,
    failure_from_plain,
    output_from_plain,
    request_to_plain,
)
from telemetry_parsers.codec.fields import Fields
from telemetry_parsers.model import REASONS, Capture, Failure, Files, Library, Output, Plain, Poll, Reason, State

_LONGEST_BACK_OFF_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
# A library that was replaced or lost its driver is dropped by leaving the process, but not at every poll.
_RENEWAL_SECONDS = 30.0
# A library that is not there is looked for once a minute, not once a minute by every poll of its source.
_LOOK_AGAIN_SECONDS = 55.0
_ANSWER = frozenset({"id", "cpu_seconds", "error", "result"})
_ERROR = frozenset({"reason", "text"})
_READ = frozenset({"outputs", "failure"})


class WorkerError(Exception):
    """A call that gave no result; `failure` is what it means for the source."""

    state: State = "failed"
    reason: Reason | None = "internal"

    @property
    def failure(self) -> Failure:
        """The source's state and reason, with the error's own words."""
        return Failure(self.state, self.reason, str(self))


class WorkerTimeoutError(WorkerError):
    """No answer before the deadline; the worker was ended."""

    reason: Reason | None = "timeout"


class WorkerStuckError(WorkerError):
    """A worker does not end even when killed; no other is started before it has."""

    state: State = "stuck"
    reason: Reason | None = None


class WorkerDiedError(WorkerError):
    """The worker ended during the call, or could not be started."""

    reason: Reason | None = "killed"


class WorkerOverflowError(WorkerError):
    """The answer was longer than the limit."""

    reason: Reason | None = "too_much_output"


class WorkerFaultError(WorkerError):
    """The worker is well, but what it ran raised; the text says what."""


class Worker:
    """At most one process that runs somebody's code. Safe to use from several threads; calls take turns.

    `readers` are the library readers that it can be asked for: name -> target.
    """

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
        self._cpu_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """The process id of the running worker."""
        link = self._link
        return None if link is None else link.pid

    @property
    def stuck_pid(self) -> int | None:
        """The process id of a worker that had not ended, though killed, when it was last looked after."""
        stuck = self._stuck
        return None if stuck is None else stuck.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far; of a running one as of its last answer. Never goes back."""
        return self._cpu_seconds

    @property
    def running_seconds(self) -> float:
        """How long the running process has lived, 0 when there is none."""
        return 0.0 if self._link is None else self._clock() - self._started

    def call(
        self, operation: str, payload: Plain, deadline_seconds: float, given_up: Callable[[], bool] = lambda: False
    ) -> Plain:
        """The result of an operation, or one of the WorkerErrors; nothing is begun that was given up by its turn."""
        until = time.monotonic() + deadline_seconds
        if not self._turn.acquire(timeout=max(0.0, deadline_seconds)):
            raise WorkerTimeoutError(f"{self.label}: another call has kept its worker for {deadline_seconds:g} s")
        try:
            self._stopping.clear()
            # Asked only now: whoever gives up from here on stops what is about to begin.
            if given_up():
                raise WorkerDiedError(f"{self.label}: the call was given up before its turn")
            return self._ask(self._running(), operation, payload, until)
        finally:
            self._turn.release()

    def stop(self) -> None:
        """End the process with all that it holds, within a second, also while a call waits for it.

        The next call starts a new one.
        """
        self._stopping.set()
        if self._turn.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._dismiss()
                self._settle_stuck()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Stop for good."""
        self._closed.set()
        self.stop()

    def _interrupted(self) -> bool:
        return self._stopping.is_set() or self._closed.is_set()

    def _running(self) -> Link:
        if self._closed.is_set():
            raise WorkerDiedError(f"{self.label}: the worker is closed")
        self._look_after_the_stuck()
        if self._link is None:
            self._link = self._start()
            self._started = self._clock()
        return self._link

    def _look_after_the_stuck(self) -> None:
        stuck = self._settle_stuck()
        if stuck is not None:
            raise WorkerStuckError(f"{self.label}: worker {stuck.pid} does not end, its library or driver holds it")

    def _settle_stuck(self) -> Link | None:
        """The worker that still does not end, None once there is none."""
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
            self._back_off(WorkerDiedError, f"the worker could not be started: {error}")
            raise WorkerDiedError(f"{self.label}: {self._trouble}") from None

    def _ask(self, link: Link, operation: str, payload: Plain, until: float) -> Plain:
        self._serial += 1
        seconds = max(0.0, until - time.monotonic())
        request = {"id": self._serial, "operation": operation, "payload": payload, "seconds": seconds}
        try:
            line = encode_line(request).encode("ascii") + b"\n"
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
        self._count_cpu(link, answer.number("cpu_seconds"))
        return _result(self.label, answer)

    def _understood(self, line: bytes) -> Fields:
        """The answer, once it is sure that it is one, and the one to the question just asked."""
        answer = Fields(decode_line(line), "", _ANSWER)
        if answer.whole("id") != self._serial:
            raise CodecError("id", f"expected {self._serial}, found {answer.whole('id')}")
        answer.number("cpu_seconds")
        if answer.any("error") is not None:
            error = Fields(answer.any("error"), "error", _ERROR)
            error.word("reason", REASONS)
            error.text("text")
        return answer

    def _ended(self, link: Link, error: type[WorkerError], trouble: str) -> WorkerError:
        """End a worker that failed; the error to raise, which is another one when it does not end."""
        over = self._retire(link, link.end)
        self._back_off(error, trouble or link.fate())
        if over:
            return error(f"{self.label}: {self._trouble}")
        return WorkerStuckError(f"{self.label}: {self._trouble}, and worker {link.pid} does not end even when killed")

    def _dismiss(self) -> None:
        if self._link is not None:
            self._retire(self._link, self._link.dismiss)

    def _retire(self, link: Link, make_end: Callable[[], bool]) -> bool:
        """Whether the process is gone; one that is not is remembered as stuck."""
        over = make_end()
        self._link = None
        if over:
            self._count_end(link)
        else:
            self._stuck = link
        return over

    def _back_off(self, kind: type[WorkerError], trouble: str) -> None:
        """1, 2, 4 … 60 s: a plugin that fails at once must not be started in a loop."""
        self._trouble_kind, self._trouble = kind, trouble
        self._not_before = self._clock() + min(2.0**self._crashes, _LONGEST_BACK_OFF_SECONDS)
        self._crashes = min(self._crashes + 1, 10)

    def _count_end(self, link: Link) -> None:
        if link.ended is not None:
            self._count_cpu(link, link.ended.cpu_seconds)

    def _count_cpu(self, link: Link, cpu_seconds: float) -> None:
        more = max(0.0, cpu_seconds - link.counted_cpu_seconds)
        self._cpu_seconds += more
        link.counted_cpu_seconds += more


class WorkerReader:
    """Reads a source's files or library in a worker process, so that a wedged driver costs that process only.

    The worker stays its owner's: closing the reader stops it, and another reader may use it again. `root` is the folder
    that files are read below: in a container the host's own may lie elsewhere.
    """

    def __init__(
        self, source: str, worker: Worker, root: str = "/", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._worker = worker
        self._root = root
        self._clock = clock
        self._closed = threading.Event()
        self._missing: Failure | None = None
        self._look_again = 0.0

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # a library knows its devices
        """What the library or the files said, or the failure that kept them from saying it."""
        wall_time, monotonic_time = time.time(), time.monotonic()
        cpu_seconds = self._worker.cpu_seconds
        outputs, failure = self._answer(poll)
        return Capture(
            source=self._source,
            poll=poll.name,
            request=poll.request,
            outputs=outputs,
            failure=failure,
            seconds=time.monotonic() - monotonic_time,
            cpu_seconds=self._worker.cpu_seconds - cpu_seconds,
            wall_time=wall_time,
            monotonic_time=monotonic_time,
        )

    def close(self) -> None:
        """Stop the worker, within a second."""
        if not self._closed.is_set():
            self._closed.set()
            self._worker.stop()

    def left_behind(self) -> tuple[int, ...]:
        """The worker, when it did not end."""
        pid = self._worker.stuck_pid
        return () if pid is None else (pid,)

    def _answer(self, poll: Poll) -> tuple[tuple[Output, ...], Failure | None]:
        refusal = self._refusal(poll)
        if refusal is not None:
            return (), refusal
        target = self._worker.readers[poll.request.reader] if isinstance(poll.request, Library) else ""
        payload = {"request": request_to_plain(poll.request), "reader": target, "root": self._root}
        try:
            outputs, failure = _read_result(self._worker.call("read", payload, poll.deadline, self._closed.is_set))
        except WorkerError as error:
            return (), self._closed_failure() if self._closed.is_set() else error.failure
        except CodecError as error:
            return (), Failure("failed", "internal", f"{self._source}: what was read is no output: {error}")
        if failure is not None:
            self._renew(failure)
        return outputs, failure

    def _closed_failure(self) -> Failure:
        """To end or to be released is no fault of the source."""
        return Failure("disabled", None, f"{self._source}: the reader is closed")

    def _refusal(self, poll: Poll) -> Failure | None:
        """Why no worker is asked, None when one is."""
        request = poll.request
        if self._closed.is_set():
            return self._closed_failure()
        if isinstance(request, Library) and request.reader not in self._worker.readers:
            return Failure("missing", None, f"no library reader named {request.reader!r} is installed")
        if isinstance(request, Library) and request.module and find_spec(request.module) is None:
            # Without it a process could only say the same.
            text = f"the Python module {request.module} is not installed: pip install '{request.package}'"
            return Failure("missing", None, text)
        if isinstance(request, Library) and self._missing is not None and self._clock() < self._look_again:
            return self._missing
        if isinstance(request, Files) and not is_there(request, self._root):
            # On a node without such cards no process is kept for them.
            return Failure("missing", None, f"{self._source}: none of the folders to read is there")
        return None

    def _renew(self, failure: Failure) -> None:
        """A fresh process sees a library that has come, or come back."""
        missing = failure.state == "missing"
        if missing:
            self._missing, self._look_again = failure, self._clock() + _LOOK_AGAIN_SECONDS
        lost = failure.reason in ("library_mismatch", "driver_gone")
        if missing or (lost and self._worker.running_seconds >= _RENEWAL_SECONDS):
            self._worker.stop()


def _result(label: str, answer: Fields) -> Plain:
    if answer.any("error") is None:
        return answer.any("result")
    error = Fields(answer.any("error"), "error", _ERROR)
    kind = WorkerOverflowError if error.text("reason") == "too_much_output" else WorkerFaultError
    raise kind(f"{label}: {error.text('text')}")


def _read_result(result: Plain) -> tuple[tuple[Output, ...], Failure | None]:
    fields = Fields(result, "", _READ)
    failure = fields.any("failure")
    return fields.items("outputs", output_from_plain), None if failure is None else failure_from_plain(
        failure, "failure"
    )
