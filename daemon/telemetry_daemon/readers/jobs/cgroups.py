"""Reads the states of jobs and the device lists from Slurm's cgroups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from telemetry_daemon.guarded.reading import read_file
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Plain

_V2_PARENTS = ("sys/fs/cgroup/system.slice", "sys/fs/cgroup/unified/system.slice")
_SCOPE = "slurmstepd.scope"
_V1_PARENT = "sys/fs/cgroup/devices"
_MAX_BYTES = 64 << 10
_MAX_JOBS = 4096
_MAX_DEVICES = 256
# With `PrologFlags=Contain`, this cgroup exists from the prolog of a job until its last process exits.
_EXTERN_STEP = "step_extern"
# A job without a cgroup for this long is assumed to have ended.
_GONE_SECONDS = 600.0
_DEVICE_ENTRY = re.compile(r"c ([0-9]{1,7}:[0-9]{1,7}) [rwm]{1,3}").fullmatch


@dataclass(frozen=True, slots=True)
class CgroupState:
    """A job's state according to its cgroup, and when the cgroup was last seen."""

    is_running: bool | None = None
    last_seen: float | None = None


class JobCgroups:
    """Reads the cgroups of Slurm's jobs, and remembers when each job last had one."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders_by_name: Mapping[str, str] = {}
        self._last_seen_by_name: dict[str, float] = {}

    def update(self, now: float) -> None:
        """Read the cgroups of all jobs."""
        self._folders_by_name = {folder.rpartition("/")[2]: folder for folder in _job_folders(self._root)}
        for name, folder in self._folders_by_name.items():
            if os.path.isdir(f"{folder}/{_EXTERN_STEP}"):  # noqa: PTH112  # paths are strings here
                self._last_seen_by_name[name] = now
        while len(self._last_seen_by_name) > _MAX_JOBS:
            self._last_seen_by_name.pop(next(iter(self._last_seen_by_name)))

    def state_of(self, job_id: str, sluid: str, now: float) -> CgroupState:
        """Return the state of a job at the last update."""
        names = [name for name in (f"job_{job_id}", sluid) if name]
        if any(name in self._folders_by_name for name in names):
            return CgroupState(is_running=True)
        last_seen = next((self._last_seen_by_name[name] for name in names if name in self._last_seen_by_name), None)
        if last_seen is not None and now - last_seen > _GONE_SECONDS:
            return CgroupState(is_running=False, last_seen=last_seen)
        return CgroupState()

    def jobs_with_devices(self) -> Iterator[Plain]:
        """Yield each job with a device list. The job's `nodes` have the form `major:minor`."""
        for name, folder in self._folders_by_name.items():
            try:
                text = read_file(f"{folder}/devices.list", _MAX_BYTES).decode(errors="replace")
            except OSError:  # cgroup v2 does not have this file, or the job has ended
                continue
            nodes = [match[1] for line in text.splitlines()[:_MAX_DEVICES] if (match := _DEVICE_ENTRY(line))]
            if nodes:
                yield {"file": folder, "id": name.removeprefix("job_"), "nodes": nodes, "lives": True}


def _job_folders(root: str) -> Iterator[str]:
    for parent in _V2_PARENTS:
        for scope in _subfolders(f"{root}/{parent}", "", _SCOPE):
            yield from (*_subfolders(scope, "job_"), *_subfolders(scope, "s"))
    for slurm_folder in _subfolders(f"{root}/{_V1_PARENT}", "slurm"):
        for user_folder in _subfolders(slurm_folder, "uid_"):
            yield from _subfolders(user_folder, "job_")


def _subfolders(parent: str, prefix: str, suffix: str = "") -> list[str]:
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(prefix) and name.endswith(suffix))  # noqa: PTH208  # paths are strings here
    except OSError:  # this hierarchy does not exist
        return []
    return [f"{parent}/{name}" for name in names[:_MAX_JOBS]]
