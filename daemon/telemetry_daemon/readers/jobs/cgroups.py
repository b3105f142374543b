"""Reads Slurm's cgroups: which jobs live, which have ended without an epilog, and the device lists of cgroup v1."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from telemetry_daemon.guarded.reading import read_file
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Plain

_VERSION_2 = ("sys/fs/cgroup/system.slice", "sys/fs/cgroup/unified/system.slice")
_SCOPE = "slurmstepd.scope"
_VERSION_1 = "sys/fs/cgroup/devices"
_LARGEST_BYTES = 64 << 10
_MOST_JOBS = 4096
_MOST_DEVICES = 256
# With `PrologFlags=Contain` this cgroup exists from a job's prolog to its last process, so its absence is evidence.
_STANDS_FOR_THE_JOB = "step_extern"
# The time that an epilog may take.
_GONE_SECONDS = 600.0
_NODE = re.compile(r"c ([0-9]{1,7}:[0-9]{1,7}) [rwm]{1,3}").fullmatch


@dataclass(frozen=True, slots=True)
class Life:
    """Whether a job lives according to its cgroup, and when it was last seen if it ended without an epilog."""

    lives: bool | None = None
    gone: float | None = None


class JobCgroups:
    """Remembers which jobs had a cgroup."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: Mapping[str, str] = {}
        self._contained: dict[str, float] = {}

    def look(self, now: float) -> None:
        """List the cgroups again."""
        self._folders = {folder.rpartition("/")[2]: folder for folder in _jobs(self._root)}
        seen = (name for name, folder in self._folders.items() if os.path.isdir(f"{folder}/{_STANDS_FOR_THE_JOB}"))  # noqa: PTH112  # paths are texts here
        self._contained.update(dict.fromkeys(seen, now))
        while len(self._contained) > _MOST_JOBS:
            self._contained.pop(next(iter(self._contained)))

    def life(self, job_id: str, sluid: str, now: float) -> Life:
        """Return the state of a job as of the last look."""
        names = [name for name in (f"job_{job_id}", sluid) if name]
        if any(name in self._folders for name in names):
            return Life(lives=True)
        last = next((self._contained[name] for name in names if name in self._contained), None)
        return Life(lives=False, gone=last) if last is not None and now - last > _GONE_SECONDS else Life()

    def listed(self) -> Iterator[Plain]:
        """Yield the jobs with a device list; the list `all` carries no information and is skipped."""
        for name, folder in self._folders.items():
            try:
                text = read_file(f"{folder}/devices.list", _LARGEST_BYTES).decode(errors="replace")
            except OSError:  # cgroup v2 has no list, or the job has ended
                continue
            nodes = [match[1] for line in text.splitlines()[:_MOST_DEVICES] if (match := _NODE(line))]
            if nodes:
                yield {"file": folder, "id": name.removeprefix("job_"), "nodes": nodes, "lives": True}


def _jobs(root: str) -> Iterator[str]:
    """Yield the job folders: `…slurmstepd.scope/job_12` or its SLUID, `slurm/uid_1000/job_12` in cgroup v1."""
    for above in _VERSION_2:
        for scope in _folders(f"{root}/{above}", "", _SCOPE):
            yield from (job for beginning in ("job_", "s") for job in _folders(scope, beginning))
    for slurm in _folders(f"{root}/{_VERSION_1}", "slurm"):
        yield from (job for user in _folders(slurm, "uid_") for job in _folders(user, "job_"))


def _folders(above: str, beginning: str, end: str = "") -> list[str]:
    try:
        names = sorted(name for name in os.listdir(above) if name.startswith(beginning) and name.endswith(end))  # noqa: PTH208  # paths are texts here
    except OSError:  # no such cgroups
        return []
    return [f"{above}/{name}" for name in names[:_MOST_JOBS]]
