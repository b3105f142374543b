"""Reads details of the processes that use cards, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.processes.short_lived import NoAnswerError, run_command
from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_parsers.bounds import MAX_PROCESSES
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Failure, Output, Plain, Poll
from telemetry_parsers.owners.proc import DriverClient, memory_by_card, parse_clients

MAX_BYTES = 64 << 10
_MAX_ENVIRONMENT_BYTES = 1 << 20
_MAX_COMMAND_BYTES = 128 << 10
_MAX_FDINFO_BYTES = 16 << 10
_MAX_DESCRIPTORS = 1024
_MAX_STAT_LENGTH = 4096
_CARD_KEY = b"drm-pdev"
# The (inode, change time) of a process's folder in /proc. A later process with the same PID has other values.
FolderState = tuple[int, int]
# The environment variables to report. Others may contain passwords.
VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_SLUID", "PBS_JOBID", "FLUX_JOB_ID"),
    *("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "FLUX_TASK_RANK"),
)
# Reading a process with 63 open files takes half a millisecond.
_MAX_READS_PER_POLL = 8
# A process: (PID as a string, start time in clock ticks).
ProcessKey = tuple[str, int]
_GETENT_DEADLINE_SECONDS = 1.0
_RETRY_SECONDS = 600.0
_MAX_PASSWD_BYTES = 8 << 20
_MAX_CACHED_USERS = 4096
# The initial PID namespace, in which the driver's PIDs are valid.
INITIAL_NAMESPACE = "pid:[4026531836]"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A driver's process list may be this old, so its PIDs may belong to processes that have exited since.
_LIST_AGE_SECONDS = 600.0
# Shows that /proc was read, even if no process uses a card.
_PROC_OUTPUT = Output("/proc", status=0)
_OTHER_NAMESPACE = (
    "the driver's PIDs are not valid in this container's PID namespace: use the host's PID namespace (hostPID), or "
    "mount the host's / and set `path` to the mount point"
)
_HIDDEN = "{} hides other users' processes (hidepid): remount it with the option gid= and a group of the service's user"


def folder_state(folder: str) -> FolderState | None:
    """Return a process folder's inode and change time, or None if the process has exited or is hidden."""
    try:
        status = os.stat(folder)  # noqa: PTH116 # faster than Path.stat, for each process at each poll
    except OSError:  # the process has exited or is hidden
        return None
    return status.st_ino, status.st_ctime_ns


def start_ticks(folder: str) -> int | None:
    """Return a process's start time in clock ticks since boot, or None if the process has exited or is hidden."""
    try:
        descriptor = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, _MAX_STAT_LENGTH)  # the kernel returns the whole file at once
        finally:
            os.close(descriptor)
        # The process name in parentheses may contain spaces and parentheses.
        return int(content[content.rindex(b")") :].split(None, 21)[20])
    except (OSError, ValueError, LookupError):  # the process has exited or is hidden
        return None


def uid_of(folder: str) -> int:
    """Return the UID of the process with this /proc folder."""
    status = proc_text(f"{folder}/status")
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), "Uid: 0")
    return int(line.split()[1])


def job_variables(folder: str) -> dict[str, Plain]:
    """Return the variables that identify a process's job and rank, or {} if this process may not read them."""
    try:
        content = proc_text(f"{folder}/environ", _MAX_ENVIRONMENT_BYTES)
    except OSError:  # reading another user's environment needs a capability
        return {}
    pairs = (entry.partition("=") for entry in content.split("\0"))
    return {name: value for name, _, value in pairs if name in VARIABLES}


def card_fdinfo_texts(folder: str) -> Iterator[str]:
    """Yield the fdinfo text of each card device that a process has open."""
    try:
        descriptors = os.listdir(f"{folder}/fdinfo")  # noqa: PTH208 # faster than Path.iterdir, for each process
    except OSError:  # reading another user's files needs a capability
        return
    for descriptor in descriptors[:_MAX_DESCRIPTORS]:
        try:
            content = proc_bytes(f"{folder}/fdinfo/{descriptor}", _MAX_FDINFO_BYTES)
        except OSError:  # closed in the meantime
            continue
        if _CARD_KEY in content:
            yield content.decode("utf-8", errors="replace")


def command_line(pid: int) -> str:
    """Return the command line of a process, which may contain secrets."""
    try:
        return proc_text(f"/proc/{pid}/cmdline", _MAX_COMMAND_BYTES).rstrip("\0").replace("\0", " ")
    except OSError:  # the process has exited or is hidden
        return ""


def proc_text(path: str, max_bytes: int = MAX_BYTES) -> str:
    """Return up to `max_bytes` of a /proc file as a string."""
    return proc_bytes(path, max_bytes).decode("utf-8", errors="replace")


def proc_bytes(path: str, max_bytes: int) -> bytes:
    """Return up to `max_bytes` of a /proc file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < max_bytes and (chunk := os.read(descriptor, max_bytes - len(content))):
            content += chunk
    finally:
        os.close(descriptor)
    return content


class OpenCards:
    """Reads which cards each process has open."""

    def __init__(self) -> None:
        self._clients_by_key: dict[ProcessKey, tuple[DriverClient, ...]] = {}
        self._keys_without_card: set[ProcessKey] = set()

    def read(self, proc: str, processes: Collection[ProcessKey]) -> dict[ProcessKey, list[Plain]]:
        """Return the memory of each process on its open cards. Read only a few of the processes per call."""
        self._keys_without_card.intersection_update(processes)
        self._clients_by_key = {key: clients for key, clients in self._clients_by_key.items() if key in processes}
        unread = [key for key in processes if key not in self._keys_without_card and key not in self._clients_by_key]
        for key in [*unread, *self._clients_by_key][:_MAX_READS_PER_POLL]:
            clients = tuple(parse_clients(card_fdinfo_texts(f"{proc}/{key[0]}")))
            previous_clients = self._clients_by_key.pop(key, ())
            if clients or previous_clients:
                # The key is now last in the dict, so the next poll reads other processes first.
                self._clients_by_key[key] = clients
            else:
                self._keys_without_card.add(key)
        return self._memory_by_process()

    def _memory_by_process(self) -> dict[ProcessKey, list[Plain]]:
        counted_clients: set[tuple[str, str]] = set()
        memory_by_process = {}
        for key in sorted(self._clients_by_key):
            clients = {(client.bus_id, client.client_id): client for client in self._clients_by_key[key]}
            new_clients = (client for identity, client in clients.items() if identity not in counted_clients)
            if memory := memory_by_card(new_clients):
                memory_by_process[key] = memory
            counted_clients |= clients.keys()
        return memory_by_process


class UserNames:
    """Looks up and caches the names of users."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._names_by_uid: dict[int, str] = {}
        self._retry_times: dict[int, float] = {}

    def look_up(self, uids: Iterable[int]) -> None:
        """Look up the names of UIDs that are not cached."""
        now = self._clock()
        unknown = {uid for uid in uids if uid not in self._names_by_uid and self._retry_times.get(uid, 0.0) <= now}
        if not unknown:
            return
        if len(self._names_by_uid) + len(self._retry_times) + len(unknown) > _MAX_CACHED_USERS:
            self._names_by_uid.clear()
            self._retry_times.clear()
        self._names_by_uid.update((uid, name) for uid, name in self._read_names(sorted(unknown)) if uid in unknown)
        self._retry_times.update((uid, now + _RETRY_SECONDS) for uid in unknown - self._names_by_uid.keys())

    def name(self, uid: int) -> str:
        """Return the user's name, or else the UID as a string."""
        return self._names_by_uid.get(uid, str(uid))

    def _read_names(self, uids: list[int]) -> Iterator[tuple[int, str]]:
        try:
            if self._root in ("", "/"):
                text = run_command(("getent", "passwd", *map(str, uids)), "", _GETENT_DEADLINE_SECONDS).output
            else:  # look up the users of the node, not of the container
                text = read_file(f"{self._root}/etc/passwd", _MAX_PASSWD_BYTES).decode(errors="replace")
        except (NoAnswerError, OSError):  # these users are shown by UID until the next lookup
            return
        for line in text.splitlines():
            name, _, fields_text = line.partition(":")
            fields = fields_text.split(":", 2)
            if name and len(fields) > 1 and fields[1].isascii() and fields[1].isdigit():
                yield int(fields[1]), name


@dataclass(frozen=True, slots=True)
class _KnownProcess:
    """A process that a driver lists. `ticks` is 0 if /proc does not show the process."""

    state: FolderState | None
    ticks: int
    valid_from: float = 0.0
    output: Output | None = None


class ProcReader(Reader):
    """Reads running processes that other sources list."""

    def __init__(
        self,
        root: str,
        environment: bool,  # noqa: FBT001  # named like the setting
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = f"{root.rstrip('/')}/proc"
        # If a root is configured, its /proc belongs to the host and has the PIDs that the driver uses.
        self._uses_own_proc = not root
        self._reads_environment = environment
        self._users = UserNames(root)
        self._open_cards = OpenCards()
        self._clock = clock
        self._processes_by_pid: dict[int, _KnownProcess] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return one output for each process."""
        start, cpu_start = ReadStart(), time.thread_time()
        failure = self._access_failure()
        outputs = () if failure is not None else (_PROC_OUTPUT, *self._read_processes(targets.pids[:MAX_PROCESSES]))
        return start.create_capture("proc", poll, outputs, failure, time.thread_time() - cpu_start)

    def _access_failure(self) -> Failure | None:
        failure = self._namespace_failure() if self._uses_own_proc else None
        if failure is not None:
            return failure
        if not Path(self._proc, "1").is_dir() and not self._uses_own_proc:
            return Failure("missing", None, f"{self._proc} has no processes: is the host's / mounted there?")
        # Process 1 always exists. If it cannot be read, it is hidden.
        is_hidden = start_ticks(f"{self._proc}/1") is None
        return Failure("failed", "no_permission", _HIDDEN.format(self._proc)) if is_hidden else None

    def _namespace_failure(self) -> Failure | None:
        try:
            namespace = os.readlink(f"{self._proc}/self/ns/pid")  # noqa: PTH115  # pathlib is slower, and each poll does this
        except OSError as error:
            return Failure("failed", "internal", f"{self._proc}/self/ns/pid: {error.strerror}")
        return None if namespace == INITIAL_NAMESPACE else Failure("not_supported", None, _OTHER_NAMESPACE)

    def _read_processes(self, pids: Iterable[int]) -> tuple[Output, ...]:
        now = self._clock()
        new_processes: list[tuple[int, dict[str, Plain], int]] = []
        processes: dict[int, _KnownProcess] = {}
        for pid in pids:
            processes[pid] = process = self._update_process(pid, now)
            if process.output is None and process.ticks and (details := self._read_details(pid, process.ticks)):
                new_processes.append((pid, *details))
        self._users.look_up(uid for *_, uid in new_processes)
        for pid, data, uid in new_processes:
            output = Output(str(pid), status=0, data={**data, "user": self._users.name(uid)})
            processes[pid] = replace(processes[pid], output=output)
        self._processes_by_pid = processes
        return self._with_open_cards([process for process in processes.values() if process.valid_from <= now])

    def _update_process(self, pid: int, now: float) -> _KnownProcess:
        """Return the process with this PID. Keep its previous output while the PID belongs to the same process."""
        previous, folder = self._processes_by_pid.get(pid), f"{self._proc}/{pid}"
        state = folder_state(folder)
        if previous is not None and state == previous.state and (previous.output is not None or state is None):
            return previous
        ticks = (start_ticks(folder) or 0) if state is not None else 0
        if previous is not None and previous.ticks == ticks:
            return replace(previous, state=state)
        return _KnownProcess(state, ticks, 0.0 if previous is None else now + _LIST_AGE_SECONDS)

    def _with_open_cards(self, processes: Iterable[_KnownProcess]) -> tuple[Output, ...]:
        outputs = {
            (process.output.name, process.ticks): process.output for process in processes if process.output is not None
        }
        memory = self._open_cards.read(self._proc, outputs)
        return tuple(_with_memory(output, memory[key]) if key in memory else output for key, output in outputs.items())

    def _read_details(self, pid: int, ticks: int) -> tuple[dict[str, Plain], int] | None:
        folder = f"{self._proc}/{pid}"
        try:
            data: dict[str, Plain] = {
                "pid": pid,
                "ticks": ticks,
                "started": round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS_PER_SECOND, 2),
                "command": proc_text(f"{folder}/comm").rstrip("\n"),
                "cgroup": proc_text(f"{folder}/cgroup"),
            }
            uid = uid_of(folder)
        except (OSError, ValueError, LookupError):  # the process has exited
            return None
        if self._reads_environment and (variables := job_variables(folder)):
            data["environment"] = variables
        return None if start_ticks(folder) != ticks else (data, uid)


def _with_memory(output: Output, memory: list[Plain]) -> Output:
    data = output.data if isinstance(output.data, dict) else {}
    return replace(output, data={**data, "holds": memory})


def create_reader(path: str, settings: AttributionSettings) -> ProcReader:
    """Return a reader of processes. The host's /proc is below `path`."""
    return ProcReader(path, settings.environment)
