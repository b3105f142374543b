"""Reads what hooks and other tools say of jobs: the files of `telemetry job`, mapping folders, and Slurm's cgroups."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from telemetry_daemon.guarded.own_folder import Entry, Inbox
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_daemon.readers.jobs.cgroups import JobCgroups
from telemetry_daemon.readers.jobs.files import LARGEST_BYTES, MOST_FILES, SUFFIX, boot_id
from telemetry_daemon.readers.proc import Users
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll
from telemetry_parsers.owners.job_files import READER
from telemetry_parsers.owners.job_maps import CALL as JOB_MAP

# What the parser knows of a job file; whatever else it holds stays there.
_TEXTS = ("id", "name", "sluid", "user", "account", "partition")
_MOST_DEVICES = 256
_LARGEST_MAP_BYTES = 16 << 10
# Two writes within one tick of the kernel's clock leave the same time, so a file that was just written is read again.
_TICK_SECONDS = 1.0
# So long the end of a job is told; the hooks keep its file for an hour, and a busy node would have thousands of them in memory.
_TOLD_SECONDS = 60.0
# Somebody may be writing a file that is so new.
_NEW_SECONDS = 10.0
_UID = re.compile(r"[0-9]{1,10}", re.ASCII).fullmatch


class JobSettings(Protocol):
    """Where jobs are told of."""

    @property
    def job_directory(self) -> str:
        """The folder of `telemetry job`."""
        ...

    @property
    def job_maps(self) -> tuple[str, ...]:
        """Folders of other tools, each with its kind: `jobstats:/run/gpustat`."""
        ...


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file had, and when it was looked at; None once it has told of an end for long enough."""

    entry: Entry
    looked: float
    content: Plain | None


@dataclass(slots=True)
class _Folder:
    """A folder whose files are read when they change. `take` turns the bytes of a file into what is told of it."""

    path: str
    owners: tuple[int, ...]
    limit_bytes: int
    take: Callable[[str, bytes], Plain]
    known: dict[str, _Read] = field(default_factory=dict)

    def look(self, wanted: Callable[[str], bool]) -> list[Plain]:
        """What the files with such names say now. Raises OSError."""
        now = time.time()
        with Inbox.at(Path(self.path), self.owners) as inbox:
            entries = inbox.entries(wanted, MOST_FILES)
            self.known = {name: self._current(inbox, name, entry, now) for name, entry in entries.items()}
        return [self._told(read.entry, read.content, now) for read in self.known.values() if read.content is not None]

    def _current(self, inbox: Inbox, name: str, entry: Entry, now: float) -> _Read:
        before = self.known.get(name)
        if before is not None and before.entry == entry and before.looked - entry.changed / 1e9 > _TICK_SECONDS:
            return _without_its_end(before, now)
        try:
            content = {"file": name, **self.take(name, inbox.read(name, self.limit_bytes))}
        except (OSError, ValueError, RecursionError) as error:
            content = {"file": name, "problem": str(getattr(error, "strerror", None) or error)}
        return _Read(entry, now, content)

    def _told(self, entry: Entry, content: Plain, now: float) -> Plain:
        return {**content, "is_new": True} if now - entry.changed / 1e9 < _NEW_SECONDS else content


class JobsReader:
    """Answers the calls `slurm`, `pbs`, `flux` and `job-map`."""

    def __init__(self, root: str, settings: JobSettings) -> None:
        self._root = root.rstrip("/")
        self._maps = settings.job_maps
        self._users = Users(root)
        self._boot_id = boot_id(root) or boot_id("/")
        self._directory = self._root + settings.job_directory
        self._of_scheduler: dict[str, _Folder] = {}
        self._of_map = {
            told: _Folder(self._root + told.partition(":")[2], (), _LARGEST_MAP_BYTES, _map_file)
            for told in settings.job_maps
        }
        self._cgroups = JobCgroups(self._root)
        self._had_jobs: set[str] = set()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # jobs are told of without targets
        """One output for a scheduler, or one for each mapping folder."""
        begun, cpu = Begun(), time.thread_time()
        call = poll.request.calls[0] if isinstance(poll.request, Library) and poll.request.calls else ""
        answer = self._mapped() if call == JOB_MAP else self._jobs(call)
        outputs, failure = ((), answer) if isinstance(answer, Failure) else (answer, None)
        return begun.capture(call or READER, poll, outputs, failure, time.thread_time() - cpu)

    def close(self) -> None:
        """Nothing runs, nothing is held."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()

    def _jobs(self, scheduler: str) -> tuple[Output, ...] | Failure:
        """The jobs of one scheduler; it is missing until it has told of one."""
        owners = (0, os.geteuid())
        folder = self._of_scheduler.setdefault(scheduler, _Folder(self._directory, owners, LARGEST_BYTES, _job_file))
        try:
            found = folder.look(lambda name: name.startswith(f"{scheduler}-") and name.endswith(SUFFIX))
        except FileNotFoundError:
            found = []
        except OSError as error:
            return _failure(f"{self._directory}: {error.strerror}", error)
        if scheduler == "slurm":
            self._cgroups.look(time.time())
        jobs = [self._known(job) for job in found]
        if scheduler == "slurm":
            jobs = [*(self._living(job) for job in jobs), *self._cgroups.listed()]
        if jobs:
            self._had_jobs.add(scheduler)
        if scheduler not in self._had_jobs:
            return Failure("missing", None, f"{self._directory} has no job of {scheduler}: does its hook call us?")
        return (Output(scheduler, status=0, data=jobs),)

    def _known(self, job: Mapping[str, Plain]) -> Plain:
        """The job with its user's name, and ended if the machine has started anew since it was written."""
        if "problem" in job:
            return job
        told = {key: value for key, value in job.items() if key not in ("uid", "boot_id", "is_new")}
        if job["boot_id"] and self._boot_id and job["boot_id"] != self._boot_id:
            told["lives"] = False
        if not told["user"] and _UID(job["uid"]):
            self._users.learn([int(job["uid"])])
            told["user"] = self._users.name(int(job["uid"]))
        return told

    def _living(self, job: Mapping[str, Plain]) -> Plain:
        """The job of Slurm with what its cgroup tells of its life; one whose epilog never came ended when its cgroup did."""
        if "problem" in job or "lives" in job or job.get("ended") is not None:
            return job
        life = self._cgroups.life(job["id"], job["sluid"], time.time())
        return {
            **job,
            **({"lives": life.lives} if life.lives is not None else {}),
            **({"ended": life.gone} if life.gone else {}),
        }

    def _mapped(self) -> tuple[Output, ...] | Failure:
        outputs = tuple(self._folder(told) for told in self._maps)
        there = [output for output in outputs if output.status != errno.ENOENT]
        if not there:
            return Failure("missing", None, f"none of the folders of `attribution.job_maps` is there: {self._maps}")
        return tuple(there)

    def _folder(self, told: str) -> Output:
        kind, _, path = told.partition(":")
        try:
            files = self._of_map[told].look(lambda name: not name.startswith("."))
        except OSError as error:
            return Output(path, status=error.errno or errno.EIO, stderr=str(error.strerror), data={"kind": kind})
        return Output(path, status=0, data={"kind": kind, "files": [self._with_users(file) for file in files]})

    def _with_users(self, file: Mapping[str, Plain]) -> Plain:
        """The file with the names of the users whose numbers stand in it."""
        uids = [int(word) for word in file.get("text", "").split()[1:2] if _UID(word)]
        self._users.learn(uids)
        return {**file, "users": {str(uid): self._users.name(uid) for uid in uids}} if uids else file


def reader(path: str, settings: JobSettings) -> JobsReader:
    """The reader of this machine's jobs, or of those below another root."""
    return JobsReader(path, settings)


def _without_its_end(read: _Read, now: float) -> _Read:
    """The same, or nothing of a job whose end was told for long enough."""
    content = read.content
    is_over = content is not None and content.get("ended") is not None and now - read.looked > _TOLD_SECONDS
    return replace(read, content=None) if is_over else read


def _job_file(_name: str, content: bytes) -> Plain:
    """The fields of a job file that are known. Raises ValueError."""
    told = json.loads(content)
    if not isinstance(told, dict):
        raise ValueError("it is no object")
    job: dict[str, Plain] = {key: _text(told.get(key)) for key in (*_TEXTS, "uid", "boot_id")}
    devices = told.get("devices")
    if isinstance(devices, list):
        job["devices"] = [_text(one) for one in devices[:_MOST_DEVICES]]
    for key in ("started", "ended"):
        if isinstance(told.get(key), int | float):
            job[key] = told[key]
    return job


def _map_file(_name: str, content: bytes) -> Plain:
    return {"text": content.decode("utf-8", errors="replace")}


def _text(value: Plain) -> str:
    return value if isinstance(value, str) else ""


def _failure(text: str, error: OSError) -> Failure:
    denied = error.errno in (errno.EACCES, errno.EPERM)
    return Failure("failed", "no_permission" if denied else "not_understood", text)
