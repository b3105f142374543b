"""Converts a tool's run to an output or failure."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from telemetry_daemon.processes.process import signal_name
from telemetry_daemon.processes.supervise import RunLimits, RunResult
from telemetry_daemon.readers.tool_path import Tool
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Command, Failure, Output, Reason

# This many bytes of a failed run's output are kept for diagnosis.
_DIAGNOSTIC_BYTES = 64 << 10
# After this time, a rejected command line is tried again, because the error may have been temporary.
_REJECTED_SECONDS = 3600.0


def new_failure(reason: Reason, text: str) -> Failure:
    """Return a failure in the state `failed`."""
    return Failure("failed", reason, text)


def failure_of(run: RunResult, command: str, deadline_seconds: float, limits: RunLimits) -> Failure | None:
    """Return the failure of a run, or None if its output can be parsed."""
    if run.cause == "exited":
        if run.status is None or run.status >= 0:
            return None
        return new_failure("killed", f"{command} was killed by {signal_name(-run.status)}")
    if run.cause == "closed":
        return Failure("disabled", None, f"{command} was interrupted, because the reader was closed")
    if run.cause == "too_much_output":
        mebibytes = limits.output_bytes / (1 << 20)
        return new_failure("too_much_output", f"{command} printed more than {mebibytes:g} MiB and was killed")
    consequence = "killed" if run.is_group_gone else "left running"
    return new_failure("timeout", f"{command} did not exit within {deadline_seconds:g} s and was {consequence}")


def stuck_failure(command: str, pid: int, running_seconds: float) -> Failure:
    """Return the failure to report while an earlier run has not exited."""
    text = f"{command} (process {pid}) has not exited for {running_seconds:.0f} s; no new run is started"
    return Failure("stuck", None, text)


def launch_failure(error: Exception, path: str, *, exists: bool) -> Failure:
    """Return the failure of a tool that could not be started."""
    text = f"{path} could not be started: {getattr(error, 'strerror', None) or error}"
    if isinstance(error, PermissionError):
        return new_failure("no_permission", f"{text}; allow the service's user to execute it")
    if isinstance(error, FileNotFoundError) and not exists:
        return Failure("missing", None, text)
    if isinstance(error, FileNotFoundError):
        return new_failure("internal", f"{text}; the file exists, but its interpreter or loader is missing")
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return new_failure("internal", f"{text}; the limit on processes and threads is reached: raise TasksMax=")
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return new_failure("internal", f"{text}; it is neither a program for this machine nor a script with a #! line")
    return new_failure("internal", text)


def output_of(run: RunResult, command: str, target: str) -> Output:
    """Return the output of a run, without an incomplete last line."""
    stdout = run.stdout[: run.stdout.rfind(b"\n") + 1] if run.is_truncated else run.stdout
    return Output(command, target, _text(stdout), _text(run.stderr), run.status)


def diagnostic_output(run: RunResult, command: str, target: str) -> Output:
    """Return the beginning of a failed run's output, for diagnosis."""
    stdout, stderr = _text(run.stdout[:_DIAGNOSTIC_BYTES]), _text(run.stderr[:_DIAGNOSTIC_BYTES])
    return Output(command, target, stdout, stderr, run.status)


def failed_output(run: RunResult, command: str, target: str, failure: Failure) -> Output:
    """Return an output that contains only the failure's text, as stderr."""
    return Output(command, target, "", failure.text, run.status)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class ChosenCommand:
    """A command line to run, and its tool's file."""

    command_line: tuple[str, ...]
    tool: Tool


@dataclass(slots=True)
class _ChoiceState:
    """The choice for one request. Command lines before `start_index` are rejected until the monotonic time `until`."""

    tools: tuple[Tool | None, ...]
    start_index: int = 0
    until: float = 0.0
    last_used_index: int = 0


class CommandLineChooser:
    """Chooses among a request's alternative command lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._states_by_request: dict[Command, _ChoiceState] = {}

    def choose(self, request: Command, find: Callable[[str], Tool | None]) -> ChosenCommand | None:
        """Return the first command line that is not rejected and whose tool exists, or None."""
        names = dict.fromkeys(line[0] for line in request.alternatives)
        tools_by_name = {name: find(name) for name in names}
        tools = tuple(tools_by_name[line[0]] for line in request.alternatives)
        state = self._states_by_request.get(request)
        if state is None or state.tools != tools or (state.start_index and self._clock() >= state.until):
            state = self._states_by_request[request] = _ChoiceState(tools)
        for index in range(state.start_index, len(tools)):
            tool = tools[index]
            if tool is not None:
                state.last_used_index = index
                return ChosenCommand(request.alternatives[index], tool)
        return None

    def reject(self, request: Command) -> bool:
        """Reject the last used command line, and return whether another can be tried."""
        state = self._states_by_request.get(request)
        if state is None:
            return False
        has_alternative = any(tool is not None for tool in state.tools[state.last_used_index + 1 :])
        state.start_index = state.last_used_index + 1 if has_alternative else 0
        state.until = self._clock() + _REJECTED_SECONDS
        return has_alternative

    def forget(self, request: Command) -> None:
        """Allow all command lines of a request again."""
        self._states_by_request.pop(request, None)
