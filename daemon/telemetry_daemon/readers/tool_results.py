"""Turns a tool's run into an output to parse or a failure with a remedy, and remembers which command lines the installed version accepts."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from telemetry_daemon.processes.process import signal_name
from telemetry_daemon.processes.supervise import Limits, Run
from telemetry_daemon.readers.tool_path import Tool
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Command, Failure, Output, Reason

# The size of output that is kept for diagnosis and not parsed.
_KEPT_OF_FAILED_BYTES = 64 << 10
# A rejection may have been a temporary error of the tool. After this time the first line is tried again.
_REMEMBERED_SECONDS = 3600.0


def failed(reason: Reason, text: str) -> Failure:
    """Return a failure with this reason."""
    return Failure("failed", reason, text)


def failure_of(run: Run, line: str, deadline: float, limits: Limits) -> Failure | None:
    """Return why a run left nothing to parse, or None if the tool exited by itself with any status."""
    if run.cause == "exited":
        status = run.exited.status if run.exited else None
        return (
            None if status is None or status >= 0 else failed("killed", f"{line} was killed by {signal_name(-status)}")
        )
    if run.cause == "closed":
        return Failure("disabled", None, f"{line} was cut short: the reader was closed")
    if run.cause == "too_much_output":
        mebibytes = limits.output_bytes / (1 << 20)
        return failed("too_much_output", f"{line} printed more than {mebibytes:g} MiB and was ended")
    return failed(
        "timeout", f"{line} did not end within {deadline:g} s and was {'ended' if run.is_group_gone else 'left alone'}"
    )


def stuck(line: str, pid: int, seconds: float) -> Failure:
    """Return the failure while an earlier run has not exited."""
    return Failure("stuck", None, f"{line} (process {pid}) has not ended for {seconds:.0f} s; no second one is started")


def launch_failure(error: Exception, path: str, *, there: bool) -> Failure:
    """Return why a tool could not be started; `there` says whether its file still exists."""
    text = f"{path} could not be started: {getattr(error, 'strerror', None) or error}"
    if isinstance(error, PermissionError):
        return failed("no_permission", f"{text}; allow the service's user to execute it")
    if isinstance(error, FileNotFoundError) and not there:
        return Failure("missing", None, text)
    if isinstance(error, FileNotFoundError):
        return failed("internal", f"{text}; the file is there, but not the interpreter or loader that it names")
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return failed(
            "internal", f"{text}; the limit of processes and threads is reached: see who has them, or raise TasksMax="
        )
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return failed("internal", f"{text}; it is neither a program for this machine nor a script that begins with #!")
    return failed("internal", text)


def output_of(run: Run, line: str, target: str) -> Output:
    """Return a run's output without a last line that may be incomplete."""
    stdout = run.stdout[: run.stdout.rfind(b"\n") + 1] if run.is_cut else run.stdout
    return Output(line, target, _text(stdout), _text(run.stderr), run.exited.status if run.exited else None)


def remains_of(run: Run, line: str, target: str) -> Output:
    """Return the remains of a failed run for diagnosis; they are not parsed."""
    return Output(
        line,
        target,
        _text(run.stdout[:_KEPT_OF_FAILED_BYTES]),
        _text(run.stderr[:_KEPT_OF_FAILED_BYTES]),
        run.exited.status if run.exited else None,
    )


def lost_output(run: Run, line: str, target: str, failure: Failure) -> Output:
    """Return the output of a target whose run failed while other runs worked: no text, the failure as stderr."""
    return Output(line, target, "", failure.text, run.exited.status if run.exited else None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Choice:
    """A command line to run, and its tool."""

    line: tuple[str, ...]
    tool: Tool


@dataclass(slots=True)
class _Memory:
    """The state of one request: each line's tool, the first line that was not rejected, its expiry, the line used last."""

    tools: tuple[Tool | None, ...]
    first: int = 0
    until: float = 0.0
    used: int = 0


class Alternatives:
    """The choice for each request of one source."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._memories: dict[Command, _Memory] = {}

    def choose(self, request: Command, find: Callable[[str], Tool | None]) -> Choice | None:
        """Return the first line that was not rejected and whose tool is found, or None."""
        names = dict.fromkeys(line[0] for line in request.alternatives)
        tools_by_name = {name: find(name) for name in names}
        tools = tuple(tools_by_name[line[0]] for line in request.alternatives)
        memory = self._memories.get(request)
        if memory is None or memory.tools != tools or (memory.first and self._clock() >= memory.until):
            memory = self._memories[request] = _Memory(tools)
        for position in range(memory.first, len(tools)):
            tool = tools[position]
            if tool is not None:
                memory.used = position
                return Choice(request.alternatives[position], tool)
        return None

    def reject(self, request: Command) -> bool:
        """Reject the line used last. Return False if no line is left; the next choice is then the first line again."""
        memory = self._memories.get(request)
        if memory is None:
            return False
        left = any(tool is not None for tool in memory.tools[memory.used + 1 :])
        memory.first = memory.used + 1 if left else 0
        memory.until = self._clock() + _REMEMBERED_SECONDS
        return left

    def forget(self, request: Command) -> None:
        """Start again with the first line."""
        self._memories.pop(request, None)
