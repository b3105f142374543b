"""One tool's process: started in a session of its own, signalled as a group, reaped with its CPU time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# What systemd tells the daemon is not for its children: one that answers NOTIFY_SOCKET would speak for us.
NOT_FOR_CHILDREN = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM"}
)
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: a file, its arguments, the whole environment, and descriptors that it inherits."""

    executable: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: exit status (negative: the signal; None: unknown) and CPU seconds, reaped children included."""

    status: int | None
    cpu_seconds: float


class Process:
    """A process with the descriptors that read its output, which never block; its pid is that of its group and session, too.

    The group is signalled only before the process is reaped: until then its number cannot be reused.
    """

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._ended: Ended | None = None
        # The start time of each process that was left of the group: a later one of the same pid is another.
        self._left: Mapping[int, int] | None = None
        self._closed = False

    def exited(self) -> bool:
        """Whether it has ended; it stays a zombie, so that its group's number stays ours."""
        if self._ended is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            self._ended = Ended(None, 0.0)  # reaped by somebody else: its number may be anybody's by now
            return True

    def signal(self, number: int) -> None:
        """Send a signal to the group; whether it helped is for `exited` and `gone` to tell."""
        if self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all gone, or one that changed its user
            os.killpg(self.pid, number)

    def reap(self) -> Ended:
        """Its exit status and CPU time; the status is None if somebody else reaped it."""
        if self._ended is None:
            _, wait_status, usage = os.wait4(self.pid, 0)
            self._ended = Ended(os.waitstatus_to_exitcode(wait_status), usage.ru_utime + usage.ru_stime)
        return self._ended

    def gone(self) -> bool:
        """Whether no member of its group lives on; zombies that nobody reaps don't count."""
        if self._left is None:
            self._left = _members(self.pid) if _group_exists(self.pid) else {}
        else:
            left = ((pid, start, _stat(pid)) for pid, start in self._left.items())
            self._left = {pid: start for pid, start, stat in left if stat is not None and stat.start_ticks == start}
        return not self._left

    def close(self) -> None:
        """Close our ends of the pipes, once."""
        if not self._closed:
            self._closed = True
            os.close(self.stdout)
            os.close(self.stderr)


Launcher = Callable[[Launch], Process]


def launch(what: Launch) -> Process:
    """Start a tool with closed stdin and two pipes; OSError or ValueError says why it could not be started."""
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
        # We reap it ourselves with wait4; for Popen it is over, so that it neither waits nor warns.
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
    except ProcessLookupError:  # that nobody is in the group is the answer
        return False
    except PermissionError:  # somebody is in it, though not ours to signal
        return True
    return True


def _members(group: int) -> Mapping[int, int]:
    """The start time of each living process of the group, by its pid."""
    pids = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())
    stats = ((pid, _stat(pid)) for pid in pids)
    return {pid: stat.start_ticks for pid, stat in stats if stat is not None and stat.group == group}


@dataclass(frozen=True, slots=True)
class _Stat:
    group: int
    start_ticks: int


def _stat(pid: int) -> _Stat | None:
    """What /proc/PID/stat says (proc_pid_stat(5)) of a process that lives.

    The name in brackets may hold anything, so count from its end.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:  # it has ended
        return None
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else _Stat(int(fields[2]), int(fields[19]))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 77` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a number without a name
        return f"signal {number}"
