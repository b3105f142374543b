"""Reads the limits and folders of the daemon, and yields findings about them."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.daemon import UNIT, LocalDaemon, Unit
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.machine import user_name
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import text_at
from telemetry_exporters.human import byte_size
from telemetry_parsers.dataclass import dataclass

_MIN_FREE_BYTES = 1 << 20
_MIN_FREE_FILES = 16
# Without a limit, cgroup v1 and systemd print this number or a larger one.
_NO_LIMIT = 1 << 60
# Values of the mount option hidepid= (proc(5)).
_HIDDEN_EXCEPT_GROUP = frozenset({"1", "2", "noaccess", "invisible"})
_HIDDEN_FROM_ALL = frozenset({"4", "ptraceable"})
_HIDEPID_PROBLEM = "the mount option hidepid hides other users' processes, and thus the owners of cards"
_HIDEPID_REMEDY = "install the drop-in owners.conf (CAP_SYS_PTRACE), run the service as root, or add the service's user to the group in the mount option gid="
_SECONDS_BY_UNIT: Mapping[str, float] = {"min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(min|s|ms|us)\b")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a process. None means no limit."""

    memory_bytes: int | None = None
    tasks: int | None = None
    cpus: float | None = None
    open_files: int | None = None
    hides_processes: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the daemon. `foreign_owner` is the owner's name if this user may not act as the owner."""

    setting: str
    path: str
    trouble: str = ""
    foreign_owner: str = ""
    is_read_only: bool = False
    free_bytes: int | None = None
    free_files: int | None = None


@dataclass(frozen=True, slots=True)
class _Requirement:
    """The minimum for a field of `Limits`, and the options that raise the limit."""

    name: str
    minimum: float
    unit_text: str
    container_option: str
    unit_option: str
    format: Callable[[float], str] = "{:g}".format

    def findings(self, where: str, limits: Limits, option: str) -> Iterator[Finding]:
        value = getattr(limits, self.name)
        if value is not None and value < self.minimum:
            problem = f"the limit is {self.format(value)}{self.unit_text}; the daemon needs {self.format(self.minimum)}"
            yield Finding(where, problem, f"raise the limit with {option}")


# The daemon, its workers and a tool need less memory than this (docs/performance.md).
_MEMORY = _Requirement("memory_bytes", 128 << 20, " of memory", "", "MemoryMax", lambda number: byte_size(int(number)))
_TASKS = _Requirement("tasks", 64, " processes and threads", " (pids)", "TasksMax")
_CPUS = _Requirement("cpus", 0.1, " CPUs", ", or remove the CPU limit", "CPUQuota")
# All connections and the readers' files need less than this.
_OPEN_FILES = _Requirement("open_files", 512, " open files", " (ulimit nofile)", "LimitNOFILE")


def container_findings(limits: Limits, container: str) -> Iterator[Finding]:
    """Yield findings about container limits that are too small."""
    if container:
        option = "resources.limits of the pod" if container == "Kubernetes" else "the container's options"
        for requirement in (_MEMORY, _TASKS, _CPUS, _OPEN_FILES):
            yield from requirement.findings("container", limits, option + requirement.container_option)


def unit_findings(unit: Unit | None) -> Iterator[Finding]:
    """Yield a finding for each limit of the unit that is too small."""
    if unit is not None:
        for requirement in (_CPUS, _MEMORY, _TASKS, _OPEN_FILES):
            option = f"the setting {requirement.unit_option} in a drop-in (systemctl edit telemetry)"
            yield from requirement.findings(UNIT, _unit_limits(unit), option)


def proc_findings(limits: Limits, *, owners_are_shown: bool) -> Iterator[Finding]:
    """Yield a finding if the daemon is to show owners, but /proc hides the processes of other users."""
    if limits.hides_processes and owners_are_shown:
        yield Finding("/proc", _HIDEPID_PROBLEM, _HIDEPID_REMEDY)


def folder_findings(folders: Sequence[Folder], container: str, daemon: LocalDaemon) -> Iterator[Finding]:
    """Yield findings about unusable folders."""
    for folder in folders:
        problem, remedy = _problem_and_remedy(folder)
        if problem and not (folder.foreign_owner and (daemon.is_running or not container)):
            yield Finding(folder.path, problem, remedy)


def _problem_and_remedy(folder: Folder) -> tuple[str, str]:
    if folder.is_read_only:
        remedy = f"mount it writable, or set {folder.setting} to a writable folder (in a container: a volume)"
        return "the file system is mounted read-only", remedy
    if folder.trouble:
        text, _, remedy = folder.trouble.rpartition(": ")
        return (text, remedy) if text else (folder.trouble, f"correct it, or set {folder.setting}")
    if folder.foreign_owner:
        remedy = f"change its owner to the daemon's user, or set {folder.setting}"
        return f"it belongs to user {folder.foreign_owner}", remedy
    if folder.free_bytes is not None and folder.free_bytes < _MIN_FREE_BYTES:
        return f"the disk is full: {byte_size(folder.free_bytes)} free", "free some space"
    if folder.free_files is not None and folder.free_files < _MIN_FREE_FILES:
        return "the disk has no free inodes", "remove files"
    return "", ""


def read_limits(root: Path, unit: Unit | None = None) -> Limits:
    """Return this process's limits. `hides_processes` applies to the unit's user, if there is a unit."""
    soft_tasks, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # The daemon raises its soft limit on open files to the hard limit.
    _, hard_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(
        memory_bytes=_lowest_limit(_cgroup_values(root, "memory", "memory.max", "memory.limit_in_bytes")),
        tasks=_lowest_limit((*_cgroup_values(root, "pids", "pids.max"), *([soft_tasks] if os.geteuid() else []))),
        cpus=min(_cpu_limits(root), default=None),
        open_files=_lowest_limit([hard_files]),
        hides_processes=_hides_processes(root, unit),
    )


def _lowest_limit(numbers: Collection[int]) -> int | None:
    return min((number for number in numbers if 0 <= number < _NO_LIMIT), default=None)


def _cgroup_values(root: Path, controller: str, *names: str) -> list[int]:
    texts = [text_at(str(folder / name)) for folder in _cgroup_folders(root, controller) for name in names]
    return [int(text) for text in texts if text.isdecimal()]


def _cpu_limits(root: Path) -> Iterator[float]:
    for folder in _cgroup_folders(root, "cpu"):
        version_1_text = f"{text_at(f'{folder}/cpu.cfs_quota_us')} {text_at(f'{folder}/cpu.cfs_period_us')}"
        quota, _, period = (text_at(f"{folder}/cpu.max") or version_1_text).partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    for line in text_at(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers or controller in controllers.split(","):
            mount_point = root / "sys/fs/cgroup" / controllers
            folder = mount_point / path.lstrip("/")
            # A container may show the host's path, but mount only its own part of the hierarchy.
            for candidate in (folder, *folder.parents):
                yield candidate
                if candidate == mount_point:
                    break


def _unit_limits(unit: Unit) -> Limits:
    def read_limit(name: str) -> int | None:
        text = unit.properties.get(name, "")
        return _lowest_limit([int(text)] if text.isdecimal() else [])

    # systemd prints durations as `1min 2s 50ms`.
    parts = _DURATION_PART.findall(unit.properties.get("CPUQuotaPerSecUSec", ""))
    cpus = sum(float(amount) * _SECONDS_BY_UNIT[unit_name] for amount, unit_name in parts) if parts else None
    return Limits(read_limit("MemoryMax"), read_limit("TasksMax"), cpus, read_limit("LimitNOFILE"))


def _hides_processes(root: Path, unit: Unit | None) -> bool:
    sees_all_processes = unit.sees_all_processes if unit is not None else os.geteuid() == 0
    if sees_all_processes:
        return False
    groups = unit.group_ids if unit is not None else {os.getegid(), *os.getgroups()}
    mounts = (line.split() for line in text_at(f"{root}/proc/self/mounts").splitlines())
    return any(
        _hides_from_groups(dict(option.partition("=")[::2] for option in mount[3].split(",")), groups)
        for mount in mounts
        if len(mount) > 3 and mount[1] == "/proc"
    )


def _hides_from_groups(options: Mapping[str, str], groups: Collection[int]) -> bool:
    is_in_group = options.get("gid", "").isdecimal() and int(options["gid"]) in groups
    value = options.get("hidepid")
    return value in _HIDDEN_FROM_ALL or (value in _HIDDEN_EXCEPT_GROUP and not is_in_group)


def read_folders(settings: Settings) -> tuple[Folder, ...]:
    """Return the daemon's folders. Omit a missing folder if the daemon can create it."""
    state = settings.state
    paths = {"state.directory": state.directory, "state.runtime_directory": state.runtime_directory}
    folders = (_read_folder(setting, Path(path)) for setting, path in paths.items())
    return tuple(folder for folder in folders if folder is not None)


def _read_folder(setting: str, path: Path) -> Folder | None:
    try:
        status, file_system = path.stat(), os.statvfs(path)
    except FileNotFoundError:
        return _check_missing_folder(setting, path)
    except OSError as error:
        return Folder(setting, str(path), f"cannot be examined: {error.strerror or error}")
    trouble, owner = "", _foreign_owner(status.st_uid)
    try:
        if not owner:
            OwnFolder.at(path).close()
    except OSError as error:
        trouble = str(error) if error.filename is None else (error.strerror or str(error))
    is_read_only = bool(file_system.f_flag & os.ST_RDONLY)
    free_bytes = file_system.f_bavail * file_system.f_frsize
    free_files = file_system.f_favail if file_system.f_files else None
    return Folder(setting, str(path), trouble, owner, is_read_only, free_bytes, free_files)


def _check_missing_folder(setting: str, path: Path) -> Folder | None:
    candidates = [path, *path.parents]
    dangling_link = next((path for path in candidates if path.is_symlink() and not path.exists()), None)
    if dangling_link is not None:
        return Folder(setting, str(path), f"{dangling_link} is a dangling link: remove the link, or create its target")
    parent = next(path for path in candidates if path.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK) and not parent.is_relative_to("/proc"):
        return None
    trouble = f"cannot be created in {parent}: set {setting} to another folder"
    return Folder(setting, str(path), trouble, _foreign_owner(parent.stat().st_uid))


def _foreign_owner(user_id: int) -> str:
    """Return the owner's name, or "" if this process may act as the owner."""
    return "" if os.geteuid() in (0, user_id) else user_name(user_id)
