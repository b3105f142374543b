"""Limits and folders of the daemon as the kernel and systemd report them, and findings if they are too small or closed."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.daemon import UNIT, Unit
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.machine import user_name
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import text_at
from telemetry_exporters.human import byte_size
from telemetry_parsers.dataclass import dataclass

_LEAST_FREE_BYTES = 1 << 20
_LEAST_FREE_FILES = 16
# Control groups version 1 and systemd print such a number, rounded to a page, if there is no limit.
_NO_LIMIT = 1 << 60
# Values of hidepid= that hide processes. The group of gid= sees all, except with the last value.
_BUT_FOR_A_GROUP = frozenset({"1", "2", "noaccess", "invisible"})
_FOR_NO_GROUP = frozenset({"4", "ptraceable"})
_HIDDEN = "it is mounted with hidepid: the processes of other users, and so the owners of cards, cannot be seen"
_SHOWN = "give the service the drop-in owners.conf (CAP_SYS_PTRACE), run it as root, or in the group that the mount's gid= names"
_UNITS: Mapping[str, float] = {"min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(min|s|ms|us)\b")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a process; None means no limit. `tasks` are processes and threads."""

    memory_bytes: int | None = None
    tasks: int | None = None
    cpus: float | None = None
    open_files: int | None = None
    hides_processes: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the daemon: its setting, why it is unusable, the room on its disk, and its owner if that is another user."""

    setting: str
    path: str
    trouble: str = ""
    owner: str = ""
    is_read_only: bool = False
    free_bytes: int | None = None
    free_files: int | None = None


@dataclass(frozen=True, slots=True)
class _Need:
    """A limit that the daemon needs: the least value, its wording, and where a container and the unit set it."""

    name: str
    least: float
    words: str
    of_container: str
    of_unit: str
    shown: Callable[[float], str] = "{:g}".format

    def findings_if_too_small(self, where: str, limits: Limits, option: str) -> Iterator[Finding]:
        """Yield a finding if the limit is too small."""
        value = getattr(limits, self.name)
        if value is not None and value < self.least:
            what = f"{self.shown(value)}{self.words} are allowed; the daemon needs {self.shown(self.least)}"
            yield Finding(where, what, f"raise it: {option}")


# The memory of the daemon, its workers and a tool (docs/performance.md), with some reserve.
_MEMORY = _Need("memory_bytes", 128 << 20, " of memory", "", "MemoryMax", lambda number: byte_size(int(number)))
_TASKS = _Need("tasks", 64, " processes and threads", " (pids)", "TasksMax")
_CPUS = _Need("cpus", 0.1, " CPUs", ", or give it none for the CPU", "CPUQuota")
# The maximum number of connections, and the files of its readers.
_OPEN_FILES = _Need("open_files", 512, " open files", " (ulimit nofile)", "LimitNOFILE")


def findings_of_container(limits: Limits, container: str) -> Iterator[Finding]:
    """Yield limits of the container that are too small. Outside of a container our own limits do not apply to the daemon."""
    if container:
        option = "resources.limits of the pod" if container == "Kubernetes" else "the container's options"
        for need in (_MEMORY, _TASKS, _CPUS, _OPEN_FILES):
            yield from need.findings_if_too_small("container", limits, option + need.of_container)


def findings_of_unit(unit: Unit | None) -> Iterator[Finding]:
    """Yield limits of the unit that are too small."""
    if unit is not None:
        for need in (_CPUS, _MEMORY, _TASKS, _OPEN_FILES):
            yield from need.findings_if_too_small(
                UNIT, _of_unit(unit), f"{need.of_unit}= in a drop-in (systemctl edit telemetry)"
            )


def findings_of_proc(limits: Limits, *, owners_are_shown: bool) -> Iterator[Finding]:
    """Yield a /proc that hides the processes whose owners are requested."""
    if limits.hides_processes and owners_are_shown:
        yield Finding("/proc", _HIDDEN, _SHOWN)


def findings_of_folders(folders: Sequence[Folder], container: str) -> Iterator[Finding]:
    """Yield folders that the daemon cannot write to. Folders of another user are left out, except in the daemon's container."""
    for folder in folders:
        what, remedy = _wrong_with(folder)
        if what and (container or not folder.owner):
            yield Finding(folder.path, what, remedy)


def _wrong_with(folder: Folder) -> tuple[str, str]:
    if folder.is_read_only:
        remedy = f"mount it writable, or set {folder.setting} to a folder that is (in a container: a volume)"
        return "it is on a file system that is mounted read-only", remedy
    if folder.trouble:
        text, _, remedy = folder.trouble.rpartition(": ")
        return (text, remedy) if text else (folder.trouble, f"correct it, or set {folder.setting}")
    if folder.owner:
        return f"it belongs to user {folder.owner}", f"give it to the daemon's user, or set {folder.setting}"
    if folder.free_bytes is not None and folder.free_bytes < _LEAST_FREE_BYTES:
        return f"its disk is full: {byte_size(folder.free_bytes)} are free", "make room"
    if folder.free_files is not None and folder.free_files < _LEAST_FREE_FILES:
        return "its disk has no room for another file (inodes)", "remove files"
    return "", ""


def limits(root: Path, daemon: Unit | None = None) -> Limits:
    """Return the limits of this process, and whether /proc hides processes from the daemon's unit, or else from us. Files are below `root`."""
    soft_tasks, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # The daemon raises its soft limit of open files itself.
    _, hard_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(
        memory_bytes=_least(_counts(root, "memory", "memory.max", "memory.limit_in_bytes")),
        tasks=_least((*_counts(root, "pids", "pids.max"), *([soft_tasks] if os.geteuid() else []))),
        cpus=min(_cpu_shares(root), default=None),
        open_files=_least([hard_files]),
        hides_processes=_hides_processes(root, daemon),
    )


def _least(numbers: Collection[int]) -> int | None:
    return min((number for number in numbers if 0 <= number < _NO_LIMIT), default=None)


def _counts(root: Path, controller: str, *names: str) -> list[int]:
    texts = [text_at(str(folder / name)) for folder in _control_groups(root, controller) for name in names]
    return [int(text) for text in texts if text.isdecimal()]


def _cpu_shares(root: Path) -> Iterator[float]:
    for folder in _control_groups(root, "cpu"):
        of_version_1 = f"{text_at(f'{folder}/cpu.cfs_quota_us')} {text_at(f'{folder}/cpu.cfs_period_us')}"
        quota, _, period = (text_at(f"{folder}/cpu.max") or of_version_1).partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    for line in text_at(f"{root}/proc/self/cgroup").splitlines():
        _, listed, path = (*line.split(":", 2), "", "")[:3]
        if not listed or controller in listed.split(","):
            top = root / "sys/fs/cgroup" / listed
            folder = top / path.lstrip("/")
            # In a container the path may be the host's, while the mounted tree is our own group.
            for part in (folder, *folder.parents):
                yield part
                if part == top:
                    break


def _of_unit(unit: Unit) -> Limits:
    def count(name: str) -> int | None:
        text = unit.properties.get(name, "")
        return _least([int(text)] if text.isdecimal() else [])

    # systemd prints spans as `1min 2s 50ms`.
    spans = _SPAN.findall(unit.properties.get("CPUQuotaPerSecUSec", ""))
    cpus = sum(float(number) * _UNITS[word] for number, word in spans) if spans else None
    return Limits(count("MemoryMax"), count("TasksMax"), cpus, count("LimitNOFILE"))


def _hides_processes(root: Path, daemon: Unit | None) -> bool:
    if daemon.sees_all_processes if daemon is not None else (os.geteuid() == 0):
        return False
    groups = daemon.groups if daemon is not None else {os.getegid(), *os.getgroups()}
    fields = (line.split() for line in text_at(f"{root}/proc/self/mounts").splitlines())
    return any(
        _hides(dict(option.partition("=")[::2] for option in parts[3].split(",")), groups)
        for parts in fields
        if len(parts) > 3 and parts[1] == "/proc"
    )


def _hides(options: Mapping[str, str], groups: Collection[int]) -> bool:
    is_let_in = options.get("gid", "").isdecimal() and int(options["gid"]) in groups
    return options.get("hidepid") in _FOR_NO_GROUP or (options.get("hidepid") in _BUT_FOR_A_GROUP and not is_let_in)


def folders(settings: Settings) -> tuple[Folder, ...]:
    """Return the daemon's folders that exist, or that it cannot create."""
    state = settings.state
    paths = {"state.directory": state.directory, "state.runtime_directory": state.runtime_directory}
    return tuple(folder for setting, path in paths.items() if (folder := _folder(setting, Path(path))) is not None)


def _folder(setting: str, path: Path) -> Folder | None:
    try:
        status, disk = path.stat(), os.statvfs(path)
    except FileNotFoundError:
        return _missing(setting, path)
    except OSError as error:
        return Folder(setting, str(path), f"it cannot be looked at: {error.strerror or error}")
    trouble = ""
    try:
        OwnFolder.at(path).close()
    except OSError as error:
        trouble = str(error) if error.filename is None else (error.strerror or str(error))
    return Folder(
        setting,
        str(path),
        trouble,
        _other_owner(status.st_uid),
        bool(disk.f_flag & os.ST_RDONLY),
        disk.f_bavail * disk.f_frsize,
        disk.f_favail if disk.f_files else None,
    )


def _missing(setting: str, path: Path) -> Folder | None:
    above = [path, *path.parents]
    link = next((path for path in above if path.is_symlink() and not path.exists()), None)
    if link is not None:
        return Folder(setting, str(path), f"{link} is a link to nothing: remove it, or make what it names")
    parent = next(path for path in above if path.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK) and not parent.is_relative_to("/proc"):
        return None
    trouble = f"it cannot be made in {parent}: set {setting} to a folder that can be"
    return Folder(setting, str(path), trouble, _other_owner(parent.stat().st_uid))


def _other_owner(user: int) -> str:
    """Return the name of the user, or an empty text if it is ours or we are root."""
    return "" if os.geteuid() in (0, user) else user_name(user)
