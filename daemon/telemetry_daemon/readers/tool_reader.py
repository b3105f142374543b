"""Reads a source by running its tool: one process at a time, and within the deadline even if the tool hangs."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from telemetry_daemon.processes.process import NOT_FOR_CHILDREN, Launch, Launcher, Process, launch
from telemetry_daemon.processes.supervise import Limits, Pipes, Run, reap_group, supervise
from telemetry_daemon.readers.base import ReadStart, Targets
from telemetry_daemon.readers.tool_lock import HeldLock, ToolBusyError, ToolLocks
from telemetry_daemon.readers.tool_path import ToolSearch
from telemetry_daemon.readers.tool_results import (
    Alternatives,
    Choice,
    diagnostic_output,
    failed,
    failed_output,
    failure_of,
    launch_failure,
    output_of,
    stuck,
)
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Command, Failure, Output, Poll

_LOCALE = {"LC_ALL": "C", "LANG": "C"}
# `close` may take a second in all, including the waits after SIGTERM and SIGKILL: see Limits.
_CLOSE_SECONDS = 0.9
# Failures that may concern a single target, so the other targets are still read.
_TARGET_FAILURES = ("killed", "too_much_output")


class _NoAnswerError(Exception):
    """The poll has no output to parse, because of this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass(slots=True)
class _Attempt:
    """The results of a poll so far. `lost` contains the failed targets with their partial output."""

    deadline: float
    until: float
    outputs: list[Output] = field(default_factory=list)
    lost: list[tuple[Failure, Output]] = field(default_factory=list)
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Task:
    """One run of the tool: its command line, target and process to start, and the lock."""

    line: str
    target: str
    launch: Launch
    lock: HeldLock


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A run whose process did not exit and still holds the lock."""

    task: _Task
    process: Process
    started_at: float
    is_cpu_counted: bool

    def failure(self) -> Failure:
        """Return the failure of all polls until the process exits."""
        return stuck(self.task.line, self.process.pid, time.monotonic() - self.started_at)


class CommandReader:
    """Runs the tool of one source. Unless `path` is set, the tool is searched on PATH and in the folders of the request."""

    def __init__(
        self,
        source: str,
        lock_directory: Path,
        path: str = "",
        *,
        environment: Mapping[str, str] | None = None,
        launcher: Launcher = launch,
        limits: Limits | None = None,
    ) -> None:
        self._source = source
        self._path = path
        self._environment = _tool_environment(os.environ if environment is None else environment)
        self._launch = launcher
        self._limits = limits or Limits()
        self._locks = ToolLocks(lock_directory, source)
        self._alternatives = Alternatives()
        self._read_lock = threading.Lock()
        self._closing = threading.Event()
        self._leftover: _Leftover | None = None
        self._left_behind: tuple[int, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return a capture with the output of each run, or with a failure."""
        start = ReadStart()
        attempt = _Attempt(poll.deadline, start.monotonic_time + poll.deadline)
        failure: Failure | None = None
        try:
            self._read_locked(poll, targets, attempt)
        except _NoAnswerError as error:
            failure = error.failure
        return start.capture(self._source, poll, tuple(attempt.outputs), failure, attempt.cpu_seconds)

    def capture_if_missing(self, poll: Poll) -> Capture | None:
        """Return a capture with the failure if the tool is missing, else None. Calls stat for each path."""
        start = ReadStart()
        if not isinstance(poll.request, Command) or self._closing.is_set() or self._leftover is not None:
            return None
        failure = self._missing_failure(poll.request)
        return None if failure is None else start.capture(self._source, poll, (), failure, 0.0)

    def reject(self, capture: Capture) -> bool:
        """Stop using this command line for an hour or until the tool changes. Return whether there is another one to try."""
        return isinstance(capture.request, Command) and self._alternatives.reject(capture.request)

    def reconsider(self, capture: Capture) -> None:
        """Forget all rejections: if the last command line fails, too, the tool may have had a temporary error."""
        if isinstance(capture.request, Command):
            self._alternatives.forget(capture.request)

    def close(self) -> None:
        """Stop all processes within a second, unless they must not be killed. Thread-safe; may be called twice."""
        self._closing.set()
        if not self._read_lock.acquire(timeout=_CLOSE_SECONDS):
            return
        try:
            if self._leftover is not None:
                if not reap_group(self._leftover.process, 0.0):
                    self._left_behind = (self._leftover.process.pid,)
                self._leftover.process.close()
                self._leftover.task.lock.close()
                self._leftover = None
        finally:
            self._read_lock.release()

    def left_behind(self) -> tuple[int, ...]:
        """Return the PID of the tool if it did not exit or must not be killed."""
        return self._left_behind

    def _read_locked(self, poll: Poll, targets: Targets, attempt: _Attempt) -> None:
        request = poll.request
        if not isinstance(request, Command):
            raise _NoAnswerError(
                failed("internal", f"{self._source}: a tool cannot answer a {type(request).__name__} request")
            )
        if not self._read_lock.acquire(timeout=max(0.0, poll.deadline)):
            raise _NoAnswerError(
                Failure("stuck", None, f"{self._source}: an earlier poll of this source has not finished")
            )
        try:
            self._run_all(request, targets, attempt)
        finally:
            self._read_lock.release()

    def _run_all(self, request: Command, targets: Targets, attempt: _Attempt) -> None:
        self._raise_if_closed()
        self._reap_leftover(attempt)
        choice = self._choose(request)
        lines = _command_lines(request, choice, targets)
        lock = self._acquire_lock(choice, attempt)
        try:
            for target, line in lines:
                self._run(self._task(request, choice, target, line, lock), request, attempt)
        finally:
            if self._leftover is None:
                lock.release()
        if len(attempt.lost) == len(lines):
            attempt.outputs = [remains for _, remains in attempt.lost]
            raise _NoAnswerError(attempt.lost[0][0])

    def _raise_if_closed(self) -> None:
        if self._closing.is_set():
            raise _NoAnswerError(Failure("disabled", None, f"{self._source}: the reader is closed"))

    def _reap_leftover(self, attempt: _Attempt) -> None:
        """Reap the process of an earlier run and add its CPU time. Raises _NoAnswerError if it has not exited."""
        leftover = self._leftover
        if leftover is None:
            return
        # Read its output, so that the process does not block on a full pipe.
        Pipes(leftover.process.stdout, leftover.process.stderr, 0).read(0)
        if not reap_group(leftover.process, 0.0):
            raise _NoAnswerError(leftover.failure())
        if not leftover.is_cpu_counted:
            attempt.cpu_seconds += leftover.process.reap().cpu_seconds
        leftover.process.close()
        leftover.task.lock.release()
        self._leftover = None

    def _choose(self, request: Command) -> Choice:
        if not request.alternatives or not all(request.alternatives):
            raise _NoAnswerError(failed("internal", f"{self._source}: the poll has no command line"))
        search = self._tool_search(request)
        choice = self._alternatives.choose(request, search.find)
        if choice is None:
            raise _NoAnswerError(_not_found_failure(request, search))
        if choice.tool.distrust_reason:
            text = f"{choice.tool.path} is not run as root: {choice.tool.distrust_reason}"
            raise _NoAnswerError(failed("no_permission", text))
        return choice

    def _missing_failure(self, request: Command) -> Failure | None:
        search = self._tool_search(request)
        names = {line[0] for line in request.alternatives if line}
        return _not_found_failure(request, search) if names and not any(map(search.find, names)) else None

    def _tool_search(self, request: Command) -> ToolSearch:
        search_path = self._environment.get("PATH", os.defpath)
        return ToolSearch(self._source, self._path, search_path, request.folders)

    def _acquire_lock(self, choice: Choice, attempt: _Attempt) -> HeldLock:
        try:
            return self._locks.acquire(self._lock_name(choice), attempt.until, self._closing)
        except ToolBusyError as busy:
            self._raise_if_closed()
            raise _NoAnswerError(Failure("stuck", None, str(busy))) from busy
        except OSError as error:
            raise _NoAnswerError(failed("internal", f"{choice.tool.name}: no lock acquired: {error}")) from error

    def _lock_name(self, choice: Choice) -> str:
        """Return the name of the lock. Tools at configured paths have separate locks, because two vendors may use the same name."""
        return f"{self._source}-{choice.tool.name}" if self._path else choice.tool.name

    def _task(self, request: Command, choice: Choice, target: str, line: tuple[str, ...], lock: HeldLock) -> _Task:
        inherited = () if lock.descriptor is None else (lock.descriptor,)
        launch_request = Launch(choice.tool.path, line[1:], self._environment | dict(request.env), inherited)
        return _Task(shlex.join(line), target, launch_request, lock)

    def _run(self, task: _Task, request: Command, attempt: _Attempt) -> None:
        """Run the tool once and store its output. Raises _NoAnswerError if the following runs would fail as well."""
        self._raise_if_late(task, attempt)
        process = self._start(task)
        task.lock.write_holder(process.pid)
        started_at = time.monotonic()
        run = supervise(process, attempt.until, self._closing, self._limits, request.on_deadline)
        attempt.cpu_seconds += run.exited.cpu_seconds if run.exited else 0.0
        leftover = None if run.is_group_gone else _Leftover(task, process, started_at, run.exited is not None)
        self._leftover = leftover
        if leftover is None:
            process.close()
        failure = failure_of(run, task.line, attempt.deadline, self._limits)
        if failure is None:
            attempt.outputs.append(output_of(run, task.line, task.target))
        elif leftover is None and failure.reason in _TARGET_FAILURES:
            attempt.outputs.append(failed_output(run, task.line, task.target, failure))
            attempt.lost.append((failure, diagnostic_output(run, task.line, task.target)))
        else:
            attempt.outputs.append(diagnostic_output(run, task.line, task.target))
            raise _NoAnswerError(failure if leftover is None or _is_abandoned(run, request) else leftover.failure())

    def _raise_if_late(self, task: _Task, attempt: _Attempt) -> None:
        if self._leftover is not None:
            raise _NoAnswerError(self._leftover.failure())
        if time.monotonic() >= attempt.until:
            raise _NoAnswerError(
                failed("timeout", f"{task.line}: the deadline of {attempt.deadline:g} s passed before it could start")
            )

    def _start(self, task: _Task) -> Process:
        try:
            return self._launch(task.launch)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            exists = Path(task.launch.executable).exists()
            raise _NoAnswerError(launch_failure(error, task.launch.executable, exists=exists)) from error


def _not_found_failure(request: Command, search: ToolSearch) -> Failure:
    return Failure("missing", None, search.missing_text(request.alternatives[0][0]))


def _is_abandoned(run: Run, request: Command) -> bool:
    return request.on_deadline == "abandon" and run.cause in ("timeout", "closed")


def _command_lines(request: Command, choice: Choice, targets: Targets) -> list[tuple[str, tuple[str, ...]]]:
    if request.per is None:
        return [("", choice.line)]
    names = targets.cards if request.per == "card" else targets.devices
    if not names:
        raise _NoAnswerError(
            Failure("no_devices", None, f"{choice.tool.name}: the inventory lists no {request.per} to read")
        )
    placeholder = "{" + request.per + "}"
    return [(name, tuple(part.replace(placeholder, name) for part in choice.line)) for name in names]


def _tool_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in NOT_FOR_CHILDREN} | _LOCALE
