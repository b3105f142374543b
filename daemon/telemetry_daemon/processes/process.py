"""A child process that leads a process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_parsers.dataclass import dataclass, field

# With NOTIFY_SOCKET, a child could send notifications for the daemon.
DAEMON_ONLY_VARIABLES = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM"}
)
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A program to start, with its complete environment and the descriptors that it inherits."""

    executable: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited_descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """A process's exit status and CPU time. An unknown status is None. A negative status is a negated signal number."""

    status: int | None
    cpu_seconds: float


class Process:
    """The leader of a process group, with pipes from its standard output and standard error."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._exit_info: ExitInfo | None = None
        # Maps the PIDs in the group to start times, because PIDs are reused.
        self._members: Mapping[int, int] | None = None
        self._is_closed = False

    def has_exited(self) -> bool:
        """Return whether the process has exited, without reaping it."""
        if self._exit_info is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            self._exit_info = ExitInfo(None, 0.0)  # reaped elsewhere: the PID may already be reused
            return True

    def signal(self, signal_number: int) -> None:
        """Send a signal to the group, without waiting for its effect."""
        if self._exit_info is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all have exited or run as another user
            os.killpg(self.pid, signal_number)

    def reap(self) -> ExitInfo:
        """Wait for the process to exit, and return its status and CPU time."""
        if self._exit_info is None:
            _, wait_status, usage = os.wait4(self.pid, 0)
            self._exit_info = ExitInfo(os.waitstatus_to_exitcode(wait_status), usage.ru_utime + usage.ru_stime)
        return self._exit_info

    def is_group_gone(self) -> bool:
        """Return whether all processes of the group have exited. Zombies count as exited."""
        if self._members is None:
            self._members = _group_members(self.pid) if _group_exists(self.pid) else {}
        else:
            stats = ((pid, start, _read_stat(pid)) for pid, start in self._members.items())
            self._members = {pid: start for pid, start, stat in stats if stat is not None and stat.start_ticks == start}
        return not self._members

    def close(self) -> None:
        """Close the read ends of the pipes. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self.stdout)
            os.close(self.stderr)


Launcher = Callable[[LaunchRequest], Process]


def launch(request: LaunchRequest) -> Process:
    """Start a process with pipes for its output. Raises OSError or ValueError if this fails."""
    with contextlib.ExitStack() as our_ends, contextlib.ExitStack() as child_ends:
        stdout, child_stdout = _open_pipe(our_ends, child_ends)
        stderr, child_stderr = _open_pipe(our_ends, child_ends)
        child = subprocess.Popen(
            [request.executable, *request.arguments],
            stdin=subprocess.DEVNULL,
            stdout=child_stdout,
            stderr=child_stderr,
            cwd="/",
            env=dict(request.environment),
            close_fds=True,
            pass_fds=request.inherited_descriptors,
            start_new_session=True,
        )
        # `reap` calls wait4, so Popen must not wait for the process.
        child.returncode = 0
        our_ends.pop_all()
    return Process(child.pid, stdout, stderr)


def _open_pipe(our_ends: contextlib.ExitStack, child_ends: contextlib.ExitStack) -> tuple[int, int]:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    our_ends.callback(os.close, read_end)
    child_ends.callback(os.close, write_end)
    os.set_blocking(read_end, False)
    return read_end, write_end


def _group_exists(group_id: int) -> bool:
    try:
        os.killpg(group_id, 0)
    except ProcessLookupError:  # the group is empty
        return False
    except PermissionError:  # the processes of the group run as another user
        return True
    return True


def _group_members(group_id: int) -> Mapping[int, int]:
    pids = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())
    stats = ((pid, _read_stat(pid)) for pid in pids)
    return {pid: stat.start_ticks for pid, stat in stats if stat is not None and stat.group == group_id}


@dataclass(frozen=True, slots=True)
class _Stat:
    group: int
    start_ticks: int


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:  # the process has exited
        return None
    # The process name in parentheses may contain spaces and parentheses.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else _Stat(int(fields[2]), int(fields[19]))


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGKILL` or `signal 77`."""
    try:
        return signal.Signals(number).name
    except ValueError:  # the signal has no name
        return f"signal {number}"
