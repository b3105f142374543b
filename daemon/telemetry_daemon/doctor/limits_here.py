"""The limits of this process and the state of the daemon's folders, read from the kernel."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.limits import Folder, Limits
from telemetry_daemon.doctor.machine import user_name
from telemetry_daemon.doctor.unit import Unit
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import text_at

# Version 1 of control groups says so where there is no limit, give or take a page.
_NO_LIMIT = 1 << 60
# The values of hidepid= that hide something: the group of gid= sees all but with the last.
_BUT_FOR_A_GROUP = frozenset({"1", "2", "noaccess", "invisible"})
_FOR_NO_GROUP = frozenset({"4", "ptraceable"})


def limits(root: Path, daemon: Unit | None = None) -> Limits:
    """The limits of this process, and what /proc hides from the daemon's unit, or without one from us; root's files lie below the folder."""
    places = list(_places(root))
    of_user = None if os.geteuid() == 0 else _resource(resource.RLIMIT_NPROC, 0)
    of_group = _least(places, "pids", ("pids.max",))
    return Limits(
        memory_bytes=_least(places, "memory", ("memory.max", "memory.limit_in_bytes")),
        tasks=min((limit for limit in (of_user, of_group) if limit is not None), default=None),
        cpus=_least_cpus(places),
        open_files=_resource(resource.RLIMIT_NOFILE, 1),
        hides_processes=_hides_processes(root, daemon),
    )


def _resource(kind: int, which: int) -> int | None:
    """The soft (0) or hard (1) limit of this process, which raises the soft one of files itself; None where there is none."""
    limit = resource.getrlimit(kind)[which]
    return None if limit == resource.RLIM_INFINITY else limit


def folders(settings: Settings) -> tuple[Folder, ...]:
    """The daemon's folders that exist, or that it cannot make at its start."""
    of_settings = (
        ("state.directory", settings.state.directory),
        ("state.runtime_directory", settings.state.runtime_directory),
    )
    found = (_folder(setting, Path(path)) for setting, path in of_settings)
    return tuple(folder for folder in found if folder is not None)


def _folder(setting: str, path: Path) -> Folder | None:
    try:
        status, disk = path.stat(), os.statvfs(path)
    except FileNotFoundError:
        return _missing(setting, path)
    except OSError as error:
        return Folder(setting, str(path), f"it cannot be looked at: {error.strerror or error}")
    owner = "" if os.geteuid() in (0, status.st_uid) else user_name(status.st_uid)
    trouble = ""
    try:
        OwnFolder.at(path).close()
    except OSError as error:
        trouble = str(error) if error.filename is None else (error.strerror or str(error))
    return Folder(
        setting,
        str(path),
        trouble,
        owner,
        bool(disk.f_flag & os.ST_RDONLY),
        disk.f_bavail * disk.f_frsize,
        disk.f_favail if disk.f_files else None,
    )


def _missing(setting: str, path: Path) -> Folder | None:
    """What keeps the daemon from making it; None where nothing does."""
    above = [path, *path.parents]
    link = next((one for one in above if one.is_symlink() and not one.exists()), None)
    if link is not None:
        return Folder(setting, str(path), f"{link} is a link to nothing: remove it, or make what it names")
    parent = next(one for one in above if one.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK) and not parent.is_relative_to("/proc"):
        return None
    owner = parent.stat().st_uid
    return Folder(
        setting,
        str(path),
        f"it cannot be made in {parent}: set {setting} to a folder that can be",
        "" if os.geteuid() in (0, owner) else user_name(owner),
    )


def _places(root: Path) -> Iterator[tuple[str, Path]]:
    """Our control groups, and those above them: the controllers of each (empty: all) and its folder."""
    mount = root / "sys/fs/cgroup"
    for line in text_at(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        top = mount / controllers if controllers else mount
        folder = top / path.lstrip("/")
        # In a container the path may be the host's, and what is mounted is our own group.
        for place in (folder, *folder.parents):
            yield controllers, place
            if place == top:
                break


def _least(places: list[tuple[str, Path]], controller: str, names: tuple[str, ...]) -> int | None:
    texts = (text_at(str(folder / name)) for listed, folder in places if _has(listed, controller) for name in names)
    numbers = [int(text) for text in texts if text.isdecimal()]
    return min((number for number in numbers if number < _NO_LIMIT), default=None)


def _least_cpus(places: list[tuple[str, Path]]) -> float | None:
    shares: list[float] = []
    for listed, folder in places:
        if _has(listed, "cpu"):
            quota, _, period = (
                text_at(f"{folder}/cpu.max")
                or f"{text_at(f'{folder}/cpu.cfs_quota_us')} {text_at(f'{folder}/cpu.cfs_period_us')}"
            ).partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                shares.append(int(quota) / int(period))
    return min(shares, default=None)


def _has(listed: str, controller: str) -> bool:
    return not listed or controller in listed.split(",")


def _hides_processes(root: Path, daemon: Unit | None) -> bool:
    """Whether the daemon, or without its unit this process, is shown its own processes alone."""
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
    """Whether a /proc that is mounted so hides processes from members of these groups."""
    is_let_in = options.get("gid", "").isdecimal() and int(options["gid"]) in groups
    return options.get("hidepid") in _FOR_NO_GROUP or (options.get("hidepid") in _BUT_FOR_A_GROUP and not is_let_in)
