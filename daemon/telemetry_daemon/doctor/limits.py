"""Limits and folders that are too small or closed for the daemon. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.unit import UNIT, Unit
from telemetry_exporters.human import byte_size

# What the daemon with its workers and a tool takes: docs/performance.md, and some room.
LEAST_MEMORY_BYTES = 128 << 20
LEAST_TASKS = 64
LEAST_CPUS = 0.1
# As many connections as it takes at once, and what it keeps for its readers.
LEAST_OPEN_FILES = 512
LEAST_FREE_BYTES = 1 << 20
LEAST_FREE_FILES = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may take; None where there is no limit. `tasks` are processes and threads."""

    memory_bytes: int | None = None
    tasks: int | None = None
    cpus: float | None = None
    open_files: int | None = None
    hides_processes: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the daemon's: the setting that names it, what keeps us from using it, and the room on its disk.

    `owner` is its user where that is another than ours.
    """

    setting: str
    path: str
    trouble: str = ""
    owner: str = ""
    is_read_only: bool = False
    free_bytes: int | None = None
    free_files: int | None = None


def findings_of_container(limits: Limits, container: str) -> Iterator[Finding]:
    """What a container gives too little of; outside of one our own limits say nothing of the daemon's."""
    if not container:
        return
    raise_in = "resources.limits of the pod" if container == "Kubernetes" else "the container's options"
    where = "container"
    if limits.memory_bytes is not None and limits.memory_bytes < LEAST_MEMORY_BYTES:
        yield _small(where, f"{byte_size(limits.memory_bytes)} of memory", byte_size(LEAST_MEMORY_BYTES), raise_in)
    if limits.tasks is not None and limits.tasks < LEAST_TASKS:
        yield _small(where, f"{limits.tasks} processes and threads", str(LEAST_TASKS), f"{raise_in} (pids)")
    if limits.cpus is not None and limits.cpus < LEAST_CPUS:
        yield _small(where, f"{limits.cpus:g} CPUs", f"{LEAST_CPUS:g}", f"{raise_in}, or give it none for the CPU")
    if limits.open_files is not None and limits.open_files < LEAST_OPEN_FILES:
        yield _small(where, f"{limits.open_files} open files", str(LEAST_OPEN_FILES), f"{raise_in} (ulimit nofile)")


def findings_of_unit(unit: Unit | None) -> Iterator[Finding]:
    """What the unit gives too little of."""
    if unit is None:
        return
    if unit.cpus is not None and unit.cpus < LEAST_CPUS:
        yield _small(UNIT, f"{unit.cpus:g} CPUs", f"{LEAST_CPUS:g}", f"CPUQuota= {_DROP_IN}")
    for name, least, unit_word in _OF_UNIT:
        number = unit.number(name)
        if number is not None and number < least:
            shown, needed = (byte_size(number), byte_size(least)) if name == "MemoryMax" else (str(number), str(least))
            yield _small(UNIT, f"{shown}{unit_word}", needed, f"{name}= {_DROP_IN}")


_DROP_IN = "in a drop-in (systemctl edit telemetry)"
_OF_UNIT = (
    ("MemoryMax", LEAST_MEMORY_BYTES, " of memory"),
    ("TasksMax", LEAST_TASKS, " processes and threads"),
    ("LimitNOFILE", LEAST_OPEN_FILES, " open files"),
)


def findings_of_proc(limits: Limits, *, owners_are_told: bool) -> Iterator[Finding]:
    """A /proc that hides what is to be told of processes."""
    if limits.hides_processes and owners_are_told:
        what = "it is mounted with hidepid: the processes of other users, and so the owners of cards, cannot be seen"
        yield Finding(
            "/proc",
            what,
            "give the service the drop-in owners.conf (CAP_SYS_PTRACE), run it as root, or in the group that the mount's gid= names",
        )


def findings_of_folders(folders: Sequence[Folder], container: str) -> Iterator[Finding]:
    """Folders that the daemon cannot write to. Those of another user are that user's, but not in the daemon's container."""
    for folder in folders:
        where = folder.path
        if folder.owner and not container:
            continue
        if folder.is_read_only:
            remedy = f"mount it writable, or set {folder.setting} to a folder that is (in a container: a volume)"
            yield Finding(where, "it lies on a file system that is mounted read-only", remedy)
        elif folder.trouble:
            text, _, remedy = folder.trouble.rpartition(": ")
            yield Finding(where, text or folder.trouble, remedy if text else f"correct it, or set {folder.setting}")
        elif folder.owner:
            yield Finding(
                where, f"it belongs to user {folder.owner}", f"give it to the daemon's user, or set {folder.setting}"
            )
        elif folder.free_bytes is not None and folder.free_bytes < LEAST_FREE_BYTES:
            yield Finding(where, f"its disk is full: {byte_size(folder.free_bytes)} are free", "make room")
        elif folder.free_files is not None and folder.free_files < LEAST_FREE_FILES:
            yield Finding(where, "its disk has no room for another file (inodes)", "remove files")


def _small(where: str, what: str, least: str, place: str) -> Finding:
    return Finding(where, f"{what} are allowed; the daemon needs {least}", f"raise it: {place}")
