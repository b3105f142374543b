"""Runs a module or a command in a child process for a single request, so that its memory is freed afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass

_KILL_SECONDS = 1.0
# With `-m`, Python would import from the working directory, which may contain modules of other users.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; from importlib import import_module; "
    "sys.exit(import_module(sys.argv[1]).main())"
)


class NoAnswerError(Exception):
    """The process could not be started, or did not exit in time."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The exit status and the whole output of a process."""

    status: int
    output: str
    errors: str


def command_for(module: str) -> tuple[str, ...]:
    """Return a command that calls the module's `main` with the request on standard input."""
    return (sys.executable, "-c", _PROGRAM, module, *filter(None, sys.path))


class ShortLivedProcess:
    """A process that runs while the caller continues."""

    def __init__(self, command: Sequence[str], request: str, descriptors: Sequence[int] = ()) -> None:
        """Start the process, which inherits the descriptors. Raises NoAnswerError if this fails."""
        self._start_time = time.monotonic()
        self._request = request
        try:
            self._child = _start(command, descriptors)
        except OSError as error:
            raise NoAnswerError(f"no process could be started: {error}") from error

    def complete(self, deadline_seconds: float, hint: str = "; the file's disk may hang") -> ProcessResult:
        """Send the request and wait for the exit. Raises NoAnswerError `deadline_seconds` after the start."""
        remaining = max(0.0, self._start_time + deadline_seconds - time.monotonic())
        try:
            output, errors = self._child.communicate(self._request, timeout=remaining)
        except subprocess.TimeoutExpired:
            _abandon(self._child)
            raise NoAnswerError(f"no answer within {deadline_seconds:g} s{hint}") from None
        return ProcessResult(self._child.returncode, output, errors)


def run_command(command: Sequence[str], request: str, deadline_seconds: float) -> ProcessResult:
    """Run the command with this request on standard input. Raise NoAnswerError if it cannot start or is too slow."""
    return ShortLivedProcess(command, request).complete(deadline_seconds)


def _start(command: Sequence[str], descriptors: Sequence[int]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        pass_fds=descriptors,
    )


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill the process group, and wait briefly for the child's exit."""
    with contextlib.suppress(ProcessLookupError):  # the child has already exited
        os.killpg(child.pid, signal.SIGKILL)
    # A process outside the group may keep the pipes open.
    with contextlib.suppress(subprocess.TimeoutExpired):  # abandon the child if it does not exit
        child.wait(_KILL_SECONDS)
    for stream in filter(None, (child.stdin, child.stdout, child.stderr)):
        stream.close()
