"""Reads a source by running its tool, within the deadline even if the tool hangs."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from telemetry_daemon.processes.process import DAEMON_ONLY_VARIABLES, Launcher, LaunchRequest, Process, launch
from telemetry_daemon.processes.supervise import OutputPipes, RunLimits, RunResult, reap_group, supervise
from telemetry_daemon.readers.base import ReadStart, Targets
from telemetry_daemon.readers.tool_lock import HeldLock, ToolBusyError, ToolLocks
from telemetry_daemon.readers.tool_path import ToolSearch
from telemetry_daemon.readers.tool_results import (
    ChosenCommand,
    CommandLineChooser,
    diagnostic_output,
    failed_output,
    failure_of,
    launch_failure,
    new_failure,
    output_of,
    stuck_failure,
)
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Command, Failure, Output, Poll

_LOCALE = {"LC_ALL": "C", "LANG": "C"}
# Closing may take a second, including the waits after SIGTERM and SIGKILL.
_CLOSE_SECONDS = 0.9
# These failures may concern a single target, so the other targets are still read.
_TARGET_FAILURES = ("killed", "too_much_output")


class _PollFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass(slots=True)
class _PollResults:
    deadline_seconds: float
    ends_at: float
    outputs: list[Output] = field(default_factory=list)
    failed_targets: list[tuple[Failure, Output]] = field(default_factory=list)
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _PlannedRun:
    command: str
    target: str
    launch_request: LaunchRequest
    lock: HeldLock


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A process that did not exit and still holds the lock."""

    planned_run: _PlannedRun
    process: Process
    started_at: float
    is_cpu_counted: bool

    def failure(self) -> Failure:
        """Return the failure to report until the process exits."""
        return stuck_failure(self.planned_run.command, self.process.pid, time.monotonic() - self.started_at)


class CommandReader:
    """Runs one source's tool. Searches for the tool if `path` is empty."""

    def __init__(
        self,
        source: str,
        lock_directory: Path,
        path: str = "",
        *,
        environment: Mapping[str, str] | None = None,
        launcher: Launcher = launch,
        limits: RunLimits | None = None,
    ) -> None:
        self._source = source
        self._path = path
        self._environment = _tool_environment(os.environ if environment is None else environment)
        self._launch = launcher
        self._limits = limits or RunLimits()
        self._locks = ToolLocks(lock_directory, source)
        self._chooser = CommandLineChooser()
        self._read_lock = threading.Lock()
        self._closing = threading.Event()
        self._leftover: _Leftover | None = None
        self._leftover_pids: tuple[int, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return a capture with the output of each run, or with a failure."""
        start = ReadStart()
        results = _PollResults(poll.deadline, start.monotonic_time + poll.deadline)
        failure: Failure | None = None
        try:
            self._run_exclusively(poll, targets, results)
        except _PollFailedError as error:
            failure = error.failure
        return start.create_capture(self._source, poll, tuple(results.outputs), failure, results.cpu_seconds)

    def capture_if_missing(self, poll: Poll) -> Capture | None:
        """Return a failed capture if the tool is missing, else None."""
        start = ReadStart()
        if not isinstance(poll.request, Command) or self._closing.is_set() or self._leftover is not None:
            return None
        failure = self._missing_failure(poll.request)
        return None if failure is None else start.create_capture(self._source, poll, (), failure, 0.0)

    def reject(self, capture: Capture) -> bool:
        """Reject the capture's command line, and return whether another can be tried."""
        return isinstance(capture.request, Command) and self._chooser.reject(capture.request)

    def reconsider(self, capture: Capture) -> None:
        """Allow all command lines of the capture's request again."""
        if isinstance(capture.request, Command):
            self._chooser.forget(capture.request)

    def close(self) -> None:
        """Stop all processes within a second. Thread-safe; may be called twice."""
        self._closing.set()
        if not self._read_lock.acquire(timeout=_CLOSE_SECONDS):
            return
        try:
            if self._leftover is not None:
                if not reap_group(self._leftover.process, 0.0):
                    self._leftover_pids = (self._leftover.process.pid,)
                self._leftover.process.close()
                self._leftover.planned_run.lock.close()
                self._leftover = None
        finally:
            self._read_lock.release()

    def leftover_pids(self) -> tuple[int, ...]:
        """Return the PID of the tool if it still runs after `close`."""
        return self._leftover_pids

    def _run_exclusively(self, poll: Poll, targets: Targets, results: _PollResults) -> None:
        request = poll.request
        if not isinstance(request, Command):
            text = f"{self._source}: a tool cannot answer a {type(request).__name__} request"
            raise _PollFailedError(new_failure("internal", text))
        if not self._read_lock.acquire(timeout=max(0.0, poll.deadline)):
            text = f"{self._source}: an earlier poll of this source has not finished"
            raise _PollFailedError(Failure("stuck", None, text))
        try:
            self._run_all(request, targets, results)
        finally:
            self._read_lock.release()

    def _run_all(self, request: Command, targets: Targets, results: _PollResults) -> None:
        self._raise_if_closed()
        self._reap_leftover(results)
        choice = self._choose_command(request)
        command_lines = _command_lines(request, choice, targets)
        lock = self._acquire_lock(choice, results)
        try:
            for target, command_line in command_lines:
                self._run_once(self._plan_run(request, choice, target, command_line, lock), request, results)
        finally:
            if self._leftover is None:
                lock.release()
        if len(results.failed_targets) == len(command_lines):
            results.outputs = [output for _, output in results.failed_targets]
            raise _PollFailedError(results.failed_targets[0][0])

    def _raise_if_closed(self) -> None:
        if self._closing.is_set():
            raise _PollFailedError(Failure("disabled", None, f"{self._source}: the reader is closed"))

    def _reap_leftover(self, results: _PollResults) -> None:
        leftover = self._leftover
        if leftover is None:
            return
        # A full pipe would block the process.
        OutputPipes(leftover.process.stdout, leftover.process.stderr, 0).read(0)
        if not reap_group(leftover.process, 0.0):
            raise _PollFailedError(leftover.failure())
        if not leftover.is_cpu_counted:
            results.cpu_seconds += leftover.process.reap().cpu_seconds
        leftover.process.close()
        leftover.planned_run.lock.release()
        self._leftover = None

    def _choose_command(self, request: Command) -> ChosenCommand:
        if not request.alternatives or not all(request.alternatives):
            raise _PollFailedError(new_failure("internal", f"{self._source}: the poll has no command line"))
        search = self._tool_search(request)
        choice = self._chooser.choose(request, search.find)
        if choice is None:
            raise _PollFailedError(_not_found_failure(request, search))
        if choice.tool.distrust_reason:
            text = f"{choice.tool.path} is not run as root: {choice.tool.distrust_reason}"
            raise _PollFailedError(new_failure("no_permission", text))
        return choice

    def _missing_failure(self, request: Command) -> Failure | None:
        search = self._tool_search(request)
        names = {command_line[0] for command_line in request.alternatives if command_line}
        return _not_found_failure(request, search) if names and not any(map(search.find, names)) else None

    def _tool_search(self, request: Command) -> ToolSearch:
        search_path = self._environment.get("PATH", os.defpath)
        return ToolSearch(self._source, self._path, search_path, request.folders)

    def _acquire_lock(self, choice: ChosenCommand, results: _PollResults) -> HeldLock:
        try:
            return self._locks.acquire(self._lock_name(choice), results.ends_at, self._closing)
        except ToolBusyError as busy:
            self._raise_if_closed()
            raise _PollFailedError(Failure("stuck", None, str(busy))) from busy
        except OSError as error:
            raise _PollFailedError(new_failure("internal", f"{choice.tool.name} cannot be locked: {error}")) from error

    def _lock_name(self, choice: ChosenCommand) -> str:
        return f"{self._source}-{choice.tool.name}" if self._path else choice.tool.name

    def _plan_run(
        self, request: Command, choice: ChosenCommand, target: str, command_line: tuple[str, ...], lock: HeldLock
    ) -> _PlannedRun:
        inherited = () if lock.descriptor is None else (lock.descriptor,)
        environment = self._environment | dict(request.env)
        launch_request = LaunchRequest(choice.tool.path, command_line[1:], environment, inherited)
        return _PlannedRun(shlex.join(command_line), target, launch_request, lock)

    def _run_once(self, planned_run: _PlannedRun, request: Command, results: _PollResults) -> None:
        """Run the tool once. Raises _PollFailedError if later runs would fail, too."""
        self._raise_if_cannot_start(planned_run, results)
        process = self._start_tool(planned_run)
        planned_run.lock.write_holder(process.pid)
        started_at = time.monotonic()
        run = supervise(process, results.ends_at, self._closing, self._limits, request.on_deadline)
        results.cpu_seconds += run.exit_info.cpu_seconds if run.exit_info else 0.0
        leftover = None if run.is_group_gone else _Leftover(planned_run, process, started_at, run.exit_info is not None)
        self._leftover = leftover
        if leftover is None:
            process.close()
        command, target = planned_run.command, planned_run.target
        failure = failure_of(run, command, results.deadline_seconds, self._limits)
        if failure is None:
            results.outputs.append(output_of(run, command, target))
        elif leftover is None and failure.reason in _TARGET_FAILURES:
            results.outputs.append(failed_output(run, command, target, failure))
            results.failed_targets.append((failure, diagnostic_output(run, command, target)))
        else:
            results.outputs.append(diagnostic_output(run, command, target))
            raise _PollFailedError(failure if leftover is None or _is_abandoned(run, request) else leftover.failure())

    def _raise_if_cannot_start(self, planned_run: _PlannedRun, results: _PollResults) -> None:
        if self._leftover is not None:
            raise _PollFailedError(self._leftover.failure())
        if time.monotonic() >= results.ends_at:
            text = f"the deadline of {results.deadline_seconds:g} s passed before the command could start"
            raise _PollFailedError(new_failure("timeout", f"{planned_run.command}: {text}"))

    def _start_tool(self, planned_run: _PlannedRun) -> Process:
        try:
            return self._launch(planned_run.launch_request)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            executable = planned_run.launch_request.executable
            raise _PollFailedError(launch_failure(error, executable, exists=Path(executable).exists())) from error


def _not_found_failure(request: Command, search: ToolSearch) -> Failure:
    return Failure("missing", None, search.missing_tool_message(request.alternatives[0][0]))


def _is_abandoned(run: RunResult, request: Command) -> bool:
    return request.on_deadline == "abandon" and run.cause in ("timeout", "closed")


def _command_lines(request: Command, choice: ChosenCommand, targets: Targets) -> list[tuple[str, tuple[str, ...]]]:
    if request.per is None:
        return [("", choice.command_line)]
    names = targets.cards if request.per == "card" else targets.devices
    if not names:
        raise _PollFailedError(
            Failure("no_devices", None, f"{choice.tool.name}: the inventory contains no {request.per}")
        )
    placeholder = "{" + request.per + "}"
    return [(name, tuple(part.replace(placeholder, name) for part in choice.command_line)) for name in names]


def _tool_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in DAEMON_ONLY_VARIABLES} | _LOCALE
