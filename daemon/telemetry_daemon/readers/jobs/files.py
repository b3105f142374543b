"""The files in which the hooks record the starts and ends of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from telemetry_daemon.guarded.named import connect
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.readers.jobs.environment import Job

MAX_FILES = 10_000
MAX_BYTES = 64 << 10
SUFFIX = ".json"
BOOT_ID_PATH = "proc/sys/kernel/random/boot_id"
# Files of ended jobs may be removed at this age, or earlier if the folder is full.
_KEPT_SECONDS = 3_600.0
_KEPT_IF_FULL_SECONDS = 60.0
# Reading this many files takes a fraction of a hook's time limit.
_MAX_READ, _MAX_REMOVED = 2_000, 200
_MAX_NUMBER_LENGTH = 20
_UNESCAPED = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.+[]")
_CONNECT_SECONDS = 0.3


class TooManyFilesError(Exception):
    """The folder already contains the maximum number of job files."""


def file_name(scheduler: str, job_id: str) -> str:
    """Return the file name of a job, such as `slurm-1234.json`. Unsafe characters are percent-encoded."""
    escaped = (char if char in _UNESCAPED else "".join(f"%{byte:02X}" for byte in char.encode()) for char in job_id)
    return f"{scheduler}-{''.join(escaped)}{SUFFIX}"


def record_start(folder: OwnFolder, job: Job, now: float) -> None:
    """Write the file of a started job. Raises OSError if this fails, or TooManyFilesError if the folder is full."""
    name = file_name(job.scheduler, job.id)
    record = _new_record(job, now)
    previous = _read_record(folder, name)
    if previous and _is_same_run(previous, record):
        record = {**previous, **{key: value for key, value in record.items() if value}, "started": previous["started"]}
    elif not previous:
        _make_room(folder, now)
    folder.replace_for_group(name, _encode(record))


def record_end(folder: OwnFolder, job: Job, now: float) -> None:
    """Mark a job as ended, unless a later run of the job has started. Raises OSError if this fails."""
    name = file_name(job.scheduler, job.id)
    previous = _read_record(folder, name)
    if not previous or previous.get("ended") is not None or _is_later_run(str(previous.get("run", "")), job.run):
        return
    folder.replace_for_group(name, _encode({**previous, "ended": now}))
    _remove_old_files(folder, now - _KEPT_SECONDS)


def _new_record(job: Job, now: float) -> dict[str, object]:
    return {
        "scheduler": job.scheduler,
        "id": job.id,
        "name": job.name,
        "job_name": job.job_name,
        "sluid": job.sluid,
        "run": job.run,
        "user": job.user,
        "uid": job.uid,
        "account": job.account,
        "partition": job.partition,
        "devices": list(job.devices),
        "boot_id": boot_id("/"),
        "started": now,
        "ended": None,
    }


def boot_id(root: str) -> str:
    """Return the ID of the current boot, or an empty string if the kernel reports none."""
    with suppress(OSError):  # the kernel reports no ID
        return read_file(f"{root.rstrip('/')}/{BOOT_ID_PATH}", MAX_BYTES).decode(errors="replace").strip()
    return ""


def _encode(record: Mapping[str, object]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _read_record(folder: OwnFolder, name: str) -> dict[str, object]:
    """Return the content of a record, or {} if the record is missing or invalid."""
    try:
        record = json.loads(folder.read(name, MAX_BYTES))
    except (OSError, ValueError, RecursionError):  # the job is new, or its file is invalid and will be replaced
        return {}
    return record if isinstance(record, dict) else {}


def _is_same_run(previous: Mapping[str, object], record: Mapping[str, object]) -> bool:
    if previous.get("ended") is not None or not isinstance(previous.get("started"), float):
        return False
    return all(previous.get(key) == record[key] for key in ("run", "boot_id"))


def _is_later_run(run: str, other_run: str) -> bool:
    run_numbers = [
        int(text) for text in (run, other_run) if text.isascii() and text.isdigit() and len(text) < _MAX_NUMBER_LENGTH
    ]
    return len(run_numbers) == 2 and run_numbers[0] > run_numbers[1]


def _make_room(folder: OwnFolder, now: float) -> None:
    """Remove old files if the folder is full, or raise TooManyFilesError."""
    if len(folder.names()) >= MAX_FILES and not _remove_old_files(folder, now - _KEPT_IF_FULL_SECONDS):
        raise TooManyFilesError(f"the folder already contains {MAX_FILES:,} files; remove the files of ended jobs")


def _remove_old_files(folder: OwnFolder, changed_before: float) -> int:
    """Remove files of jobs that have ended or ran before a reboot. Return how many files were removed."""
    current_boot_id, removed_count = boot_id("/"), 0
    timed_names = sorted((changed_at, name) for name, changed_at in folder.modification_times().items())
    names = [name for changed_at, name in timed_names if changed_at < changed_before and name.endswith(SUFFIX)]
    for name in names[:_MAX_READ]:
        record = _read_record(folder, name)
        if record and (record.get("ended") is not None or record.get("boot_id") != current_boot_id):
            folder.remove(name)
            removed_count += 1
            if removed_count == _MAX_REMOVED:
                break
    return removed_count


def service_group_id(*folders: str) -> int:
    """Return the group ID of the service's first folder that exists, or 0 if none exists."""
    for folder in folders:
        with suppress(OSError):  # try the next folder
            return Path(folder).stat().st_gid
    return 0


def request_poll(runtime_directory: str, scheduler: str) -> None:
    """Ask the daemon to poll a scheduler's jobs now."""
    request = json.dumps({"verb": "jobs_changed", "source": scheduler}).encode() + b"\n"
    path = Path(runtime_directory, "control.sock")
    with suppress(OSError), connect(path, _CONNECT_SECONDS) as connection:  # the next poll reads the jobs anyway
        connection.sendall(request)
