"""Reads jobs from hooks' files, mapping folders, and Slurm's cgroups."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from telemetry_daemon.guarded.own_folder import FileVersion, Inbox
from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_daemon.readers.jobs.cgroups import JobCgroups
from telemetry_daemon.readers.jobs.files import MAX_BYTES, MAX_FILES, SUFFIX, boot_id
from telemetry_daemon.readers.proc import UserNames
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll
from telemetry_parsers.owners.job_files import READER
from telemetry_parsers.owners.job_maps import CALL as JOB_MAP

# The text fields of a job file. All others are ignored.
_TEXT_FIELDS = ("id", "name", "job_name", "sluid", "user", "account", "partition")
_MAX_DEVICES = 256
_MAX_MAP_BYTES = 16 << 10
# A file that was read this soon after its change is read again, because a later write may have the same timestamp.
_TICK_SECONDS = 1.0
# An ended job is reported for this long.
_REPORTED_SECONDS = 60.0
# A file that changed this recently may be incomplete.
_NEW_SECONDS = 10.0
_UID = re.compile(r"[0-9]{1,10}", re.ASCII).fullmatch


class JobSettings(Protocol):
    """The folders from which jobs are read."""

    @property
    def job_directory(self) -> str:
        """Return the folder to which `telemetry job` writes."""

    @property
    def job_maps(self) -> tuple[str, ...]:
        """Return the mapping folders of other tools, such as `jobstats:/run/gpustat`."""


@dataclass(frozen=True, slots=True)
class _CachedFile:
    """A cached file. If the file is no longer reported, `content` is None."""

    version: FileVersion
    read_at: float
    content: Plain | None


@dataclass(slots=True)
class _CachedFolder:
    """A folder whose files are read again when they change."""

    path: str
    owner_uids: tuple[int, ...]
    limit_bytes: int
    decode: Callable[[bytes], Plain]
    files: dict[str, _CachedFile] = field(default_factory=dict)

    def read_files(self, is_wanted: Callable[[str], bool]) -> list[Plain]:
        now = time.time()
        with Inbox.at(Path(self.path), self.owner_uids) as inbox:
            versions = inbox.versions(is_wanted, MAX_FILES)
            self.files = {name: self._read_if_changed(inbox, name, version, now) for name, version in versions.items()}
        contents = ((file.version, file.content) for file in self.files.values() if file.content is not None)
        return [_mark_if_new(version, content, now) for version, content in contents]

    def _read_if_changed(self, inbox: Inbox, name: str, version: FileVersion, now: float) -> _CachedFile:
        previous = self.files.get(name)
        changed_at = version.changed_ns / 1e9
        if previous is not None and previous.version == version and previous.read_at - changed_at > _TICK_SECONDS:
            return _drop_old_job(previous, now)
        try:
            content = {"file": name, **self.decode(inbox.read(name, self.limit_bytes))}
        except (OSError, ValueError, RecursionError) as error:
            content = {"file": name, "problem": str(getattr(error, "strerror", None) or error)}
        return _CachedFile(version, now, content)


class JobsReader(Reader):
    """Reads jobs with the calls `slurm`, `pbs`, `flux` and `job-map`."""

    def __init__(self, root: str, settings: JobSettings) -> None:
        self._root = root.rstrip("/")
        self._job_maps = settings.job_maps
        self._user_names = UserNames(root)
        self._boot_id = boot_id(root) or boot_id("/")
        self._directory = self._root + settings.job_directory
        self._folders_by_scheduler: dict[str, _CachedFolder] = {}
        self._folders_by_map = {
            job_map: _CachedFolder(self._root + job_map.partition(":")[2], (), _MAX_MAP_BYTES, _decode_map)
            for job_map in settings.job_maps
        }
        self._cgroups = JobCgroups(self._root)
        self._schedulers_with_jobs: set[str] = set()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # jobs are read without targets
        """Return a capture with a scheduler's jobs, or with the content of the mapping folders."""
        start, cpu_start = ReadStart(), time.thread_time()
        call = poll.request.calls[0] if isinstance(poll.request, Library) and poll.request.calls else ""
        result = self._read_job_maps() if call == JOB_MAP else self._read_jobs(call)
        outputs, failure = ((), result) if isinstance(result, Failure) else (result, None)
        return start.create_capture(call or READER, poll, outputs, failure, time.thread_time() - cpu_start)

    def _read_jobs(self, scheduler: str) -> tuple[Output, ...] | Failure:
        """Return the scheduler's jobs, or a failure if the folder is not readable or never had any jobs."""
        new_folder = _CachedFolder(self._directory, (0, os.geteuid()), MAX_BYTES, _decode_job)
        folder = self._folders_by_scheduler.setdefault(scheduler, new_folder)
        try:
            reported_jobs = folder.read_files(lambda name: name.startswith(f"{scheduler}-") and name.endswith(SUFFIX))
        except FileNotFoundError:
            reported_jobs = []
        except OSError as error:
            return _folder_failure(f"{self._directory}: {error.strerror}", error)
        if scheduler == "slurm":
            self._cgroups.update(time.time())
        jobs = [self._to_reported_job(job) for job in reported_jobs]
        if scheduler == "slurm":
            jobs = [*(self._with_cgroup_state(job) for job in jobs), *self._cgroups.jobs_with_devices()]
        if jobs:
            self._schedulers_with_jobs.add(scheduler)
        if scheduler not in self._schedulers_with_jobs:
            return Failure("missing", None, f"{self._directory} has no {scheduler} jobs: check the {scheduler} hook")
        return (Output(scheduler, status=0, data=jobs),)

    def _to_reported_job(self, job: Mapping[str, Plain]) -> Plain:
        """Return the job's reported fields and the user's name. Mark a job from before a reboot as ended."""
        if "problem" in job:
            return job
        reported_job = {key: value for key, value in job.items() if key not in ("uid", "boot_id", "is_new")}
        if job["boot_id"] and self._boot_id and job["boot_id"] != self._boot_id:
            reported_job["lives"] = False
        if not reported_job["user"] and _UID(job["uid"]):
            self._user_names.look_up([int(job["uid"])])
            reported_job["user"] = self._user_names.name(int(job["uid"]))
        return reported_job

    def _with_cgroup_state(self, job: Mapping[str, Plain]) -> Plain:
        if "problem" in job or "lives" in job or job.get("ended") is not None:
            return job
        state = self._cgroups.state_of(job["id"], job["sluid"], time.time())
        cgroup_fields = {"lives": state.is_running, "ended": state.last_seen or None}
        return {**job, **{key: value for key, value in cgroup_fields.items() if value is not None}}

    def _read_job_maps(self) -> tuple[Output, ...] | Failure:
        outputs = tuple(self._read_job_map(job_map) for job_map in self._job_maps)
        existing_outputs = [output for output in outputs if output.status != errno.ENOENT]
        if not existing_outputs:
            return Failure("missing", None, f"none of the folders of `attribution.job_maps` exists: {self._job_maps}")
        return tuple(existing_outputs)

    def _read_job_map(self, job_map: str) -> Output:
        kind, _, path = job_map.partition(":")
        try:
            files = self._folders_by_map[job_map].read_files(lambda name: not name.startswith("."))
        except OSError as error:
            return Output(path, status=error.errno or errno.EIO, stderr=str(error.strerror), data={"kind": kind})
        return Output(path, status=0, data={"kind": kind, "files": [self._with_user_names(file) for file in files]})

    def _with_user_names(self, file: Mapping[str, Plain]) -> Plain:
        uids = [int(uid_text) for uid_text in file.get("text", "").split()[1:2] if _UID(uid_text)]
        self._user_names.look_up(uids)
        return {**file, "users": {str(uid): self._user_names.name(uid) for uid in uids}} if uids else file


def create_reader(path: str, settings: JobSettings) -> JobsReader:
    """Return a reader of jobs. The host's files are below `path`."""
    return JobsReader(path, settings)


def _mark_if_new(version: FileVersion, content: Plain, now: float) -> Plain:
    return {**content, "is_new": True} if now - version.changed_ns / 1e9 < _NEW_SECONDS else content


def _drop_old_job(file: _CachedFile, now: float) -> _CachedFile:
    """Return the file without its content if the job ended long ago."""
    content = file.content
    is_over = content is not None and content.get("ended") is not None and now - file.read_at > _REPORTED_SECONDS
    return replace(file, content=None) if is_over else file


def _decode_job(content: bytes) -> Plain:
    record = json.loads(content)
    if not isinstance(record, dict):
        raise ValueError("the content is not a JSON object")
    job: dict[str, Plain] = {key: _text_or_empty(record.get(key)) for key in (*_TEXT_FIELDS, "uid", "boot_id")}
    devices = record.get("devices")
    if isinstance(devices, list):
        job["devices"] = [_text_or_empty(device) for device in devices[:_MAX_DEVICES]]
    for key in ("started", "ended"):
        if isinstance(record.get(key), int | float):
            job[key] = record[key]
    return job


def _decode_map(content: bytes) -> Plain:
    return {"text": content.decode("utf-8", errors="replace")}


def _text_or_empty(value: Plain) -> str:
    return value if isinstance(value, str) else ""


def _folder_failure(text: str, error: OSError) -> Failure:
    is_denied = error.errno in (errno.EACCES, errno.EPERM)
    return Failure("failed", "no_permission" if is_denied else "not_understood", text)
