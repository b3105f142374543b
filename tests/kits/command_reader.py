"""For tests of the command reader: polls in short, and a tool's process that cannot be killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from pathlib import Path

from telemetry_daemon.processes.process import Ended, Launch, Process, launch
from telemetry_daemon.processes.supervise import Limits
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_parsers.model import Capture, Command, Poll

NO_TARGETS = Targets()
# Short where a misbehaving tool makes us wait; long where only a busy machine does.
QUICK = Limits(output_bytes=1 << 16, late_output_seconds=0.05, grace_seconds=0.05, kill_seconds=60)
# For processes that cannot be killed: nothing is gained by waiting.
HOPELESS = Limits(output_bytes=1 << 16, late_output_seconds=0.05, grace_seconds=0.02, kill_seconds=0.02)


def is_held(folder: Path, tool: str) -> bool:
    """Whether somebody holds the lock of the tool in that folder."""
    try:
        with (folder / f"{tool}.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # the lock is somebody's
        return True
    except FileNotFoundError:  # nobody has run it yet
        return False
    return False


def poll(command: Command, deadline: float = 60.0) -> Poll:
    """A poll with this request; by default no test gets near its deadline."""
    return Poll("readings", command, deadline=deadline)


def read(reader: CommandReader, command: Command, deadline: float = 60.0) -> Capture:
    """One read without targets."""
    return reader.read(poll(command, deadline), NO_TARGETS)


def tool(*line: str) -> Command:
    """A request for one command line."""
    return Command((line,))


class StuckProcess:
    """A process in the kernel's hands: it takes every signal and does not end until told to."""

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
        """Write to its standard output."""
        os.write(self._its_stdout, text)

    def ends(self, status: int = -signal.SIGKILL) -> None:
        """The kernel lets go of it."""
        self._status = status
        if not self._ended.is_set():
            self._ended.set()
            os.close(self._its_stdout)
            os.close(self._its_stderr)

    def exited(self) -> bool:
        """Whether it was told to end."""
        return self._ended.is_set()

    def signal(self, number: int) -> None:
        """Accepted, to no effect."""
        if not self.reaped:
            self.signals.append(number)

    def reap(self) -> Ended:
        """Half a second of CPU time."""
        self.reaped = True
        return Ended(self._status, 0.5)

    def gone(self) -> bool:
        """Whether its children are gone, too."""
        return not self.members_live

    def close(self) -> None:
        """Close the pipes."""
        self.closed = True
        with contextlib.suppress(OSError):  # closed by the test itself
            os.close(self.stdout)
            os.close(self.stderr)


class Stand:
    """A launcher that starts the processes it was given, one a time, and real ones after them."""

    def __init__(self, *processes: Process) -> None:
        self._processes = list(processes)
        self.launches: list[Launch] = []

    def __call__(self, what: Launch) -> Process:
        """The next process."""
        self.launches.append(what)
        return self._processes.pop(0) if self._processes else launch(what)
