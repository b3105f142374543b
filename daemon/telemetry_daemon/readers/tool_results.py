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


def failure_of(run: RunResult, line: str, deadline: float, limits: RunLimits) -> Failure | None:
    """Return the failure of a run, or None if its output can be parsed."""
    if run.cause == "exited":
        status = run.exit_info.status if run.exit_info else None
        if status is None or status >= 0:
            return None
        return new_failure("killed", f"{line} was killed by {signal_name(-status)}")
    if run.cause == "closed":
        return Failure("disabled", None, f"{line} was interrupted, because the reader was closed")
    if run.cause == "too_much_output":
        mebibytes = limits.output_bytes / (1 << 20)
        return new_failure("too_much_output", f"{line} printed more than {mebibytes:g} MiB and was killed")
    consequence = "killed" if run.is_group_gone else "left running"
    return new_failure("timeout", f"{line} did not exit within {deadline:g} s and was {consequence}")


def stuck_failure(line: str, pid: int, seconds: float) -> Failure:
    """Return the failure to report while an earlier run has not exited."""
    return Failure("stuck", None, f"{line} (process {pid}) has not exited for {seconds:.0f} s; no new run is started")


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


def output_of(run: RunResult, line: str, target: str) -> Output:
    """Return the output of a run, without an incomplete last line."""
    stdout = run.stdout[: run.stdout.rfind(b"\n") + 1] if run.is_cut else run.stdout
    return Output(line, target, _text(stdout), _text(run.stderr), run.exit_info.status if run.exit_info else None)


def diagnostic_output(run: RunResult, line: str, target: str) -> Output:
    """Return the beginning of a failed run's output, for diagnosis."""
    return Output(
        line,
        target,
        _text(run.stdout[:_DIAGNOSTIC_BYTES]),
        _text(run.stderr[:_DIAGNOSTIC_BYTES]),
        run.exit_info.status if run.exit_info else None,
    )


def failed_output(run: RunResult, line: str, target: str, failure: Failure) -> Output:
    """Return an output that contains only the failure's text, as stderr."""
    return Output(line, target, "", failure.text, run.exit_info.status if run.exit_info else None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class ChosenCommand:
    """A command line to run, and its tool's file."""

    line: tuple[str, ...]
    tool: Tool


@dataclass(slots=True)
class _RejectedLines:
    """All command lines before `start_index` are rejected."""

    tools: tuple[Tool | None, ...]
    start_index: int = 0
    until: float = 0.0
    last_used_index: int = 0


class CommandLineChooser:
    """Chooses among a request's alternative command lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rejected: dict[Command, _RejectedLines] = {}

    def choose(self, request: Command, find: Callable[[str], Tool | None]) -> ChosenCommand | None:
        """Return the first command line that may be tried, or None."""
        names = dict.fromkeys(line[0] for line in request.alternatives)
        tools_by_name = {name: find(name) for name in names}
        tools = tuple(tools_by_name[line[0]] for line in request.alternatives)
        rejected = self._rejected.get(request)
        if rejected is None or rejected.tools != tools or (rejected.start_index and self._clock() >= rejected.until):
            rejected = self._rejected[request] = _RejectedLines(tools)
        for index in range(rejected.start_index, len(tools)):
            tool = tools[index]
            if tool is not None:
                rejected.last_used_index = index
                return ChosenCommand(request.alternatives[index], tool)
        return None

    def reject(self, request: Command) -> bool:
        """Reject the last used command line, and return whether another can be tried."""
        rejected = self._rejected.get(request)
        if rejected is None:
            return False
        has_alternative = any(tool is not None for tool in rejected.tools[rejected.last_used_index + 1 :])
        rejected.start_index = rejected.last_used_index + 1 if has_alternative else 0
        rejected.until = self._clock() + _REJECTED_SECONDS
        return has_alternative

    def forget(self, request: Command) -> None:
        """Forget the rejected command lines of a request."""
        self._rejected.pop(request, None)
