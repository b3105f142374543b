"""What came of a tool's run: an output to parse, or a failure that says what to do."""

from __future__ import annotations

import errno

from telemetry_daemon.processes.process import signal_name
from telemetry_daemon.processes.supervise import Limits, Run
from telemetry_parsers.model import Failure, Output, Reason

# Of an output that nobody parses, enough to see what went wrong.
_KEPT_OF_FAILED_BYTES = 64 << 10


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
