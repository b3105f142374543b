"""Reads a source by running its tool: one process at a time and within the deadline, whatever the tool does."""

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
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_daemon.readers.tool_lock import HeldLock, ToolBusyError, ToolLocks
from telemetry_daemon.readers.tool_path import Whereabouts
from telemetry_daemon.readers.tool_results import (
    Alternatives,
    Choice,
    failed,
    failure_of,
    launch_failure,
    lost_output,
    output_of,
    remains_of,
    stuck,
)
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Command, Failure, Output, Poll

_LOCALE = {"LC_ALL": "C", "LANG": "C"}
# `close` may take one second in all, for SIGTERM's grace period and the wait after SIGKILL (see Limits).
_CLOSE_SECONDS = 0.9
# Failures that may not repeat for the next target.
_OF_ONE_TARGET = ("killed", "too_much_output")


class _NoAnswerError(Exception):
    """The poll ends without output to parse, with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass(slots=True)
class _Attempt:
    """The results of one poll so far; `lost` has the targets whose run failed, with the remaining output."""

    deadline: float
    until: float
    outputs: list[Output] = field(default_factory=list)
    lost: list[tuple[Failure, Output]] = field(default_factory=list)
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Task:
    """One run: the requested command line, the target, the command to start, and the lock."""

    line: str
    target: str
    launch: Launch
    lock: HeldLock


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A run with a process that still lives and holds its lock."""

    task: _Task
    process: Process
    since: float
    counted: bool

    def failure(self) -> Failure:
        """Return the failure of polls while the process lives."""
        return stuck(self.task.line, self.process.pid, time.monotonic() - self.since)


class CommandReader:
    """Runs the tool of one source. Without a configured `path`, PATH and the request's folders are searched."""

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
        self._environment = _for_tools(os.environ if environment is None else environment)
        self._launch = launcher
        self._limits = limits or Limits()
        self._locks = ToolLocks(lock_directory, source)
        self._alternatives = Alternatives()
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._leftover: _Leftover | None = None
        self._left_behind: tuple[int, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return the output of each run, or the failure that prevented it."""
        begun = Begun()
        attempt = _Attempt(poll.deadline, begun.monotonic_time + poll.deadline)
        failure: Failure | None = None
        try:
            self._answer_in_turn(poll, targets, attempt)
        except _NoAnswerError as none:
            failure = none.failure
        return begun.capture(self._source, poll, tuple(attempt.outputs), failure, attempt.cpu_seconds)

    def capture_if_missing(self, poll: Poll) -> Capture | None:
        """Return the failure if the tool is missing, or None. This takes a stat call per path."""
        begun = Begun()
        if not isinstance(poll.request, Command) or self._closing.is_set() or self._leftover is not None:
            return None
        failure = self._missing(poll.request)
        return None if failure is None else begun.capture(self._source, poll, (), failure, 0.0)

    def reject(self, capture: Capture) -> bool:
        """Reject this command line for this version of the tool, for an hour. Return whether another line is left to try."""
        return isinstance(capture.request, Command) and self._alternatives.reject(capture.request)

    def reconsider(self, capture: Capture) -> None:
        """Forget the rejections, because the last command line failed as well: earlier failures may not have been refusals."""
        if isinstance(capture.request, Command):
            self._alternatives.forget(capture.request)

    def close(self) -> None:
        """Stop all processes that may be killed, within a second; safe to repeat, from any thread."""
        self._closing.set()
        if not self._turn.acquire(timeout=_CLOSE_SECONDS):
            return
        try:
            if self._leftover is not None:
                if not reap_group(self._leftover.process, 0.0):
                    self._left_behind = (self._leftover.process.pid,)
                self._leftover.process.close()
                self._leftover.task.lock.leave()
                self._leftover = None
        finally:
            self._turn.release()

    def left_behind(self) -> tuple[int, ...]:
        """Return the tool's process if it did not exit or must not be killed."""
        return self._left_behind

    def _answer_in_turn(self, poll: Poll, targets: Targets, attempt: _Attempt) -> None:
        request = poll.request
        if not isinstance(request, Command):
            raise _NoAnswerError(
                failed("internal", f"{self._source}: a tool cannot answer a {type(request).__name__} request")
            )
        if not self._turn.acquire(timeout=max(0.0, poll.deadline)):
            raise _NoAnswerError(
                Failure("stuck", None, f"{self._source}: an earlier poll of this source has not ended")
            )
        try:
            self._answer(request, targets, attempt)
        finally:
            self._turn.release()

    def _answer(self, request: Command, targets: Targets, attempt: _Attempt) -> None:
        self._may_go_on()
        self._settle_leftover(attempt)
        choice = self._choose(request)
        lines = _lines(request, choice, targets)
        lock = self._take_lock(choice, attempt)
        try:
            for target, line in lines:
                self._run(self._task(request, choice, target, line, lock), request, attempt)
        finally:
            if self._leftover is None:
                lock.release()
        if len(attempt.lost) == len(lines):
            attempt.outputs = [remains for _, remains in attempt.lost]
            raise _NoAnswerError(attempt.lost[0][0])

    def _may_go_on(self) -> None:
        if self._closing.is_set():
            raise _NoAnswerError(Failure("disabled", None, f"{self._source}: the reader is closed"))

    def _settle_leftover(self, attempt: _Attempt) -> None:
        """Raise if a process of the earlier run still lives. Its CPU time is counted for this poll."""
        left = self._leftover
        if left is None:
            return
        Pipes(left.process.stdout, left.process.stderr, 0).read(
            0
        )  # so that a process left alone does not wait for a reader of its output
        if not reap_group(left.process, 0.0):
            raise _NoAnswerError(left.failure())
        if not left.counted:
            attempt.cpu_seconds += left.process.reap().cpu_seconds
        left.process.close()
        left.task.lock.release()
        self._leftover = None

    def _choose(self, request: Command) -> Choice:
        if not request.alternatives or not all(request.alternatives):
            raise _NoAnswerError(failed("internal", f"{self._source}: the poll names no command"))
        whereabouts = self._whereabouts(request)
        choice = self._alternatives.choose(request, whereabouts.find)
        if choice is None:
            raise _NoAnswerError(_not_found(request, whereabouts))
        if choice.tool.distrust_reason:
            text = f"{choice.tool.path} is not run as root: {choice.tool.distrust_reason}"
            raise _NoAnswerError(failed("no_permission", text))
        return choice

    def _missing(self, request: Command) -> Failure | None:
        whereabouts = self._whereabouts(request)
        names = {line[0] for line in request.alternatives if line}
        return _not_found(request, whereabouts) if names and not any(map(whereabouts.find, names)) else None

    def _whereabouts(self, request: Command) -> Whereabouts:
        search_path = self._environment.get("PATH", os.defpath)
        return Whereabouts(self._source, self._path, search_path, request.folders)

    def _take_lock(self, choice: Choice, attempt: _Attempt) -> HeldLock:
        try:
            return self._locks.take(self._lock_name(choice), attempt.until, self._closing)
        except ToolBusyError as busy:
            self._may_go_on()
            raise _NoAnswerError(Failure("stuck", None, str(busy))) from busy
        except OSError as error:
            raise _NoAnswerError(failed("internal", f"{choice.tool.name}: no lock could be taken: {error}")) from error

    def _lock_name(self, choice: Choice) -> str:
        """Return the tool's name. A configured path has a lock of its own, because two vendors may use the same name."""
        return f"{self._source}-{choice.tool.name}" if self._path else choice.tool.name

    def _task(self, request: Command, choice: Choice, target: str, line: tuple[str, ...], lock: HeldLock) -> _Task:
        inherited = () if lock.descriptor is None else (lock.descriptor,)
        what = Launch(choice.tool.path, line[1:], self._environment | dict(request.env), inherited)
        return _Task(shlex.join(line), target, what, lock)

    def _run(self, task: _Task, request: Command, attempt: _Attempt) -> None:
        """Do one run and keep its output. Raise if all later runs would fail as well."""
        self._may_start(task, attempt)
        process = self._start(task)
        task.lock.runs(process.pid)
        since = time.monotonic()
        run = supervise(process, attempt.until, self._closing, self._limits, request.on_deadline)
        attempt.cpu_seconds += run.exited.cpu_seconds if run.exited else 0.0
        left = None if run.is_group_gone else _Leftover(task, process, since, run.exited is not None)
        self._leftover = left
        if left is None:
            process.close()
        failure = failure_of(run, task.line, attempt.deadline, self._limits)
        if failure is None:
            attempt.outputs.append(output_of(run, task.line, task.target))
        elif left is None and failure.reason in _OF_ONE_TARGET:
            attempt.outputs.append(lost_output(run, task.line, task.target, failure))
            attempt.lost.append((failure, remains_of(run, task.line, task.target)))
        else:
            attempt.outputs.append(remains_of(run, task.line, task.target))
            raise _NoAnswerError(failure if left is None or _was_spared(run, request) else left.failure())

    def _may_start(self, task: _Task, attempt: _Attempt) -> None:
        if self._leftover is not None:
            raise _NoAnswerError(self._leftover.failure())
        if time.monotonic() >= attempt.until:
            raise _NoAnswerError(
                failed("timeout", f"{task.line}: the {attempt.deadline:g} s were over before it could start")
            )

    def _start(self, task: _Task) -> Process:
        try:
            return self._launch(task.launch)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            there = Path(task.launch.executable).exists()
            raise _NoAnswerError(launch_failure(error, task.launch.executable, there=there)) from error


def _not_found(request: Command, whereabouts: Whereabouts) -> Failure:
    return Failure("missing", None, whereabouts.missing(request.alternatives[0][0]))


def _was_spared(run: Run, request: Command) -> bool:
    return request.on_deadline == "abandon" and run.cause in ("timeout", "closed")


def _lines(request: Command, choice: Choice, targets: Targets) -> list[tuple[str, tuple[str, ...]]]:
    if request.per is None:
        return [("", choice.line)]
    names = targets.cards if request.per == "card" else targets.devices
    if not names:
        raise _NoAnswerError(
            Failure("no_devices", None, f"{choice.tool.name}: the inventory lists no {request.per} to ask for")
        )
    placeholder = "{" + request.per + "}"
    return [(name, tuple(part.replace(placeholder, name) for part in choice.line)) for name in names]


def _for_tools(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in NOT_FOR_CHILDREN} | _LOCALE
