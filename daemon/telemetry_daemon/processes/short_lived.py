"""A child process of telemetry for one question; its memory is freed after the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass

_DEATH_SECONDS = 1.0
# The child has exactly this process's import path. `-m` would put the working directory first, where any user may have
# left a module.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; from importlib import import_module; "
    "sys.exit(import_module(sys.argv[1]).main())"
)


class NoAnswerError(Exception):
    """The process could not be started or did not answer in time, as the text says."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process exited, and its whole output."""

    status: int
    output: str
    errors: str


def running(module: str) -> tuple[str, ...]:
    """Return the command that runs a module's `main`, which reads its question from standard input."""
    return (sys.executable, "-c", _PROGRAM, module, *filter(None, sys.path))


class Asked:
    """A process that starts up while the caller does something else. The question is sent when the caller waits for the answer."""

    def __init__(self, command: Sequence[str], question: str, descriptors: Sequence[int] = ()) -> None:
        """Start the process, which inherits these descriptors. Raises NoAnswerError if it cannot be started."""
        self._began = time.monotonic()
        self._question = question
        try:
            self._child = _started(command, descriptors)
        except OSError as error:
            raise NoAnswerError(f"no process could be started: {error}") from error

    def answer(self, deadline_seconds: float, hint: str = "; is the file on a disk that hangs?") -> Ended:
        """Return how the process exited. Raise NoAnswerError with the hint if the deadline, counted from its start, has passed."""
        left = max(0.0, self._began + deadline_seconds - time.monotonic())
        try:
            output, errors = self._child.communicate(self._question, timeout=left)
        except subprocess.TimeoutExpired:
            _abandon(self._child)
            raise NoAnswerError(f"no answer within {deadline_seconds:g} s{hint}") from None
        return Ended(self._child.returncode, output, errors)


def ask(command: Sequence[str], question: str, deadline_seconds: float) -> Ended:
    """Return the command's answer. Raise NoAnswerError if the command does not start or exit in time."""
    return Asked(command, question).answer(deadline_seconds)


def _started(command: Sequence[str], descriptors: Sequence[int]) -> subprocess.Popen[str]:
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
    """Kill the child and all that it started; a child that does not die is left alone."""
    with contextlib.suppress(ProcessLookupError):  # the child has exited by itself
        os.killpg(child.pid, signal.SIGKILL)
    # The child's pipes may stay open: a process that it started may have left the group.
    with contextlib.suppress(subprocess.TimeoutExpired):  # a child that does not die is left alone
        child.wait(_DEATH_SECONDS)
    for stream in filter(None, (child.stdin, child.stdout, child.stderr)):
        stream.close()
