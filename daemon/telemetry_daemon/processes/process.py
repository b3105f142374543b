"""One tool's process: started in a separate session, signalled as a group, reaped with its CPU time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_parsers.dataclass import dataclass, field

# systemd's variables for the daemon are not for its children: a child that uses NOTIFY_SOCKET would speak for the
# daemon.
NOT_FOR_CHILDREN = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM"}
)
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: a file, its arguments, the whole environment, and inherited descriptors."""

    executable: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process exited: status (negative: the signal; None: unknown) and CPU seconds, including reaped children."""

    status: int | None
    cpu_seconds: float


class Process:
    """A process with its output's descriptors. Its PID is also its group and session, which are signalled only before it is reaped."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._ended: Ended | None = None
        # The start time of each remaining process of the group: a later process may reuse the PID.
        self._left: Mapping[int, int] | None = None
        self._closed = False

    def exited(self) -> bool:
        """Return whether the process has exited; it stays a zombie, so that its group ID is not reused."""
        if self._ended is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            self._ended = Ended(None, 0.0)  # reaped elsewhere: another process may have the PID by now
            return True

    def signal(self, number: int) -> None:
        """Send a signal to the group; `exited` and `gone` report the effect."""
        if self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all have exited, or a member changed its user
            os.killpg(self.pid, number)

    def reap(self) -> Ended:
        """Return exit status and CPU time; the status is None if the process was reaped elsewhere."""
        if self._ended is None:
            _, wait_status, usage = os.wait4(self.pid, 0)
            self._ended = Ended(os.waitstatus_to_exitcode(wait_status), usage.ru_utime + usage.ru_stime)
        return self._ended

    def gone(self) -> bool:
        """Return whether no member of the group lives; zombies do not count."""
        if self._left is None:
            self._left = _members(self.pid) if _group_exists(self.pid) else {}
        else:
            left = ((pid, start, _stat(pid)) for pid, start in self._left.items())
            self._left = {pid: start for pid, start, stat in left if stat is not None and stat.start_ticks == start}
        return not self._left

    def close(self) -> None:
        """Close the read ends of the pipes, once."""
        if not self._closed:
            self._closed = True
            os.close(self.stdout)
            os.close(self.stderr)


Launcher = Callable[[Launch], Process]


def launch(what: Launch) -> Process:
    """Start a tool with closed stdin and two pipes. Raise OSError or ValueError if it cannot be started."""
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        stdout, its_stdout = _pipe(ours, theirs)
        stderr, its_stderr = _pipe(ours, theirs)
        started = subprocess.Popen(
            [what.executable, *what.arguments],
            stdin=subprocess.DEVNULL,
            stdout=its_stdout,
            stderr=its_stderr,
            cwd="/",
            env=dict(what.environment),
            close_fds=True,
            pass_fds=what.inherited,
            start_new_session=True,
        )
        # The process is reaped with wait4. Mark it as finished for Popen, so that Popen neither waits nor warns.
        started.returncode = 0
        ours.pop_all()
    return Process(started.pid, stdout, stderr)


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:  # the group is empty
        return False
    except PermissionError:  # the group has a member that we lack permission to signal
        return True
    return True


def _members(group: int) -> Mapping[int, int]:
    pids = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())
    stats = ((pid, _stat(pid)) for pid in pids)
    return {pid: stat.start_ticks for pid, stat in stats if stat is not None and stat.group == group}


@dataclass(frozen=True, slots=True)
class _Stat:
    group: int
    start_ticks: int


def _stat(pid: int) -> _Stat | None:
    """Return the fields of /proc/PID/stat of a living process, counted from the last bracket: the name may contain anything."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:  # the process has exited
        return None
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else _Stat(int(fields[2]), int(fields[19]))


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9, and `signal 77` for a signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a signal without a name
        return f"signal {number}"
