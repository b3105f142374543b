"""For tests of the command reader: short polls, and a tool's process that cannot be killed."""

import contextlib
import fcntl
import os
import signal
import threading
from pathlib import Path

from telemetry_daemon.processes.process import ExitInfo, LaunchRequest, Process, launch
from telemetry_daemon.processes.supervise import RunLimits
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_parsers.model import Capture, Command, Poll

NO_TARGETS = Targets()
# Short if the test waits for a misbehaving tool; long if only a busy machine delays it.
QUICK = RunLimits(output_bytes=1 << 16, late_output_seconds=0.05, grace_seconds=0.05, kill_seconds=60)
# For processes that cannot be killed: nothing is gained by waiting.
HOPELESS = RunLimits(output_bytes=1 << 16, late_output_seconds=0.05, grace_seconds=0.02, kill_seconds=0.02)


def is_held(folder: Path, tool: str) -> bool:
    """Return whether a process holds the lock of the tool in that folder."""
    try:
        with (folder / f"{tool}.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # another process holds the lock
        return True
    except FileNotFoundError:  # the tool has not run yet
        return False
    return False


def poll(command: Command, deadline: float = 60.0) -> Poll:
    """Return a poll with this request. Tests do not reach the default deadline."""
    return Poll("readings", command, deadline=deadline)


def read(reader: CommandReader, command: Command, deadline: float = 60.0) -> Capture:
    return reader.read(poll(command, deadline), NO_TARGETS)


def tool(*line: str) -> Command:
    return Command((line,))


class StuckProcess:
    """A process in uninterruptible sleep: it accepts every signal and ends when the test lets it."""

    def __init__(self, pid: int = 4_194_304) -> None:
        self.pid = pid
        self.stdout, self._its_stdout = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.stderr, self._its_stderr = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.signals: list[int] = []
        self.reaped = False
        self.closed = False
        self.members_live = False
        self._status: int = -signal.SIGKILL
        self._ended = threading.Event()

    def prints(self, text: bytes) -> None:
        os.write(self._its_stdout, text)

    def ends(self, status: int = -signal.SIGKILL) -> None:
        self._status = status
        if not self._ended.is_set():
            self._ended.set()
            os.close(self._its_stdout)
            os.close(self._its_stderr)

    def has_exited(self) -> bool:
        return self._ended.is_set()

    def signal(self, number: int) -> None:
        """Accept the signal without effect."""
        if not self.reaped:
            self.signals.append(number)

    def reap(self) -> ExitInfo:
        """Report half a second of CPU time."""
        self.reaped = True
        return ExitInfo(self._status, 0.5)

    def is_group_gone(self) -> bool:
        return not self.members_live

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):  # closed by the test itself
            os.close(self.stdout)
            os.close(self.stderr)


class Stand:
    """A launcher that starts the given processes first, then real ones."""

    def __init__(self, *processes: Process) -> None:
        self._processes = list(processes)
        self.launches: list[LaunchRequest] = []

    def __call__(self, what: LaunchRequest) -> Process:
        self.launches.append(what)
        return self._processes.pop(0) if self._processes else launch(what)
