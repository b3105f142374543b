"""What came of a tool's run: an output to parse, or a failure that says what to do; and which command lines the installed version understands."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass

from telemetry_daemon.processes.process import signal_name
from telemetry_daemon.processes.supervise import Limits, Run
from telemetry_daemon.readers.tool_path import Tool
from telemetry_parsers.model import Command, Failure, Output, Reason

# Of an output that nobody parses, enough to see what went wrong.
_KEPT_OF_FAILED_BYTES = 64 << 10
# What was taken for a refusal may have been a bad moment of the tool's: after so long the first line is tried again.
_REMEMBERED_SECONDS = 3600.0


def failed(reason: Reason, text: str) -> Failure:
    """A failure with a reason."""
    return Failure("failed", reason, text)


def failure_of(run: Run, line: str, deadline: float, limits: Limits) -> Failure | None:
    """Why a run gave nothing to parse; None for one that ended by itself, with whatever exit status."""
    if run.cause == "exited":
        status = run.ended.status if run.ended else None
        return (
            None if status is None or status >= 0 else failed("killed", f"{line} was ended by {signal_name(-status)}")
        )
    if run.cause == "closed":
        return Failure("disabled", None, f"{line} was cut short: the reader was closed")
    if run.cause == "too_much_output":
        mebibytes = limits.output_bytes / (1 << 20)
        return failed("too_much_output", f"{line} printed more than {mebibytes:g} MiB and was ended")
    return failed(
        "timeout", f"{line} did not end within {deadline:g} s and was {'ended' if run.over else 'left alone'}"
    )


def stuck(line: str, pid: int, seconds: float) -> Failure:
    """The failure while an earlier run has not ended."""
    return Failure("stuck", None, f"{line} (process {pid}) has not ended for {seconds:.0f} s; no second one is started")


def launch_failure(error: Exception, path: str, *, there: bool) -> Failure:
    """Why a tool could not be started; `there` says whether its file still exists."""
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
    """A run's output; the last line is left out if it may be half a line."""
    stdout = run.stdout[: run.stdout.rfind(b"\n") + 1] if run.cut else run.stdout
    return Output(line, target, _text(stdout), _text(run.stderr), run.ended.status if run.ended else None)


def remains_of(run: Run, line: str, target: str) -> Output:
    """What is kept of a failed run, to see what went wrong; nobody parses it."""
    return Output(
        line,
        target,
        _text(run.stdout[:_KEPT_OF_FAILED_BYTES]),
        _text(run.stderr[:_KEPT_OF_FAILED_BYTES]),
        run.ended.status if run.ended else None,
    )


def lost_output(run: Run, line: str, target: str, failure: Failure) -> Output:
    """The output of a target whose run failed while those of others did not: no text, the failure as its stderr."""
    return Output(line, target, "", failure.text, run.ended.status if run.ended else None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Choice:
    """A command line to run, and its tool."""

    line: tuple[str, ...]
    tool: Tool


@dataclass(slots=True)
class _Memory:
    """What is known of one request: each line's tool, the first line not rejected and until when, the line used last."""

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
        """The first line that was not rejected and whose tool is there, None if there is none."""
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
        """Pass over the line used last. False if none is left; then the next choice is the first line again."""
        memory = self._memories.get(request)
        if memory is None:
            return False
        left = any(tool is not None for tool in memory.tools[memory.used + 1 :])
        memory.first = memory.used + 1 if left else 0
        memory.until = self._clock() + _REMEMBERED_SECONDS
        return left

    def forget(self, request: Command) -> None:
        """Begin with the first line again."""
        self._memories.pop(request, None)
