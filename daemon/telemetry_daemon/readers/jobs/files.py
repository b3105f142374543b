"""The files of jobs: one for each, written when it begins, marked when it ends, removed an hour later; the running daemon is notified of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from telemetry_daemon.guarded.named import connected
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.readers.jobs.environment import Job

MOST_FILES = 10_000
LARGEST_BYTES = 64 << 10
SUFFIX = ".json"
BOOT_ID = "proc/sys/kernel/random/boot_id"
# A daemon that was down for that long has missed the end.
_KEPT_SECONDS = 3_600.0
_KEPT_WHERE_FULL_SECONDS = 60.0
# Looking at so many files takes a fraction of the time that a hook has.
_MOST_LOOKED_AT, _MOST_REMOVED = 2_000, 200
_LONGEST_NUMBER = 20
_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.+[]")
_PATIENCE_SECONDS = 0.3


class NoRoomError(Exception):
    """There are as many files as there may be."""


def file_name(scheduler: str, job_id: str) -> str:
    """`slurm-1234.json`; what may not stand in a file's name is written as its bytes."""
    plain = (one if one in _PLAIN else "".join(f"%{byte:02X}" for byte in one.encode()) for one in job_id)
    return f"{scheduler}-{''.join(plain)}{SUFFIX}"


def begin(folder: OwnFolder, job: Job, now: float) -> None:
    """Write the file of a job that begins; if its prolog came before, the job began then. Raises OSError, NoRoomError."""
    name = file_name(job.scheduler, job.id)
    record = _record(job, now)
    before = _read(folder, name)
    if before and _is_same_run(before, record):
        record = {**before, **{key: value for key, value in record.items() if value}, "started": before["started"]}
    elif not before:
        _make_room(folder, now)
    folder.hand_over(name, _encoded(record))


def end(folder: OwnFolder, job: Job, now: float) -> None:
    """Mark the file of a job that ends, if there is one and it is of this run or an earlier one. Raises OSError."""
    name = file_name(job.scheduler, job.id)
    before = _read(folder, name)
    if not before or before.get("ended") is not None or _is_later(str(before.get("run", "")), job.run):
        return
    folder.hand_over(name, _encoded({**before, "ended": now}))
    _remove_old(folder, now - _KEPT_SECONDS)


def _record(job: Job, now: float) -> dict[str, object]:
    return {
        "scheduler": job.scheduler,
        "id": job.id,
        "name": job.name,
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
    """What tells this start of the machine from others; empty where the kernel does not say."""
    with suppress(OSError):  # what the docstring says
        return read_file(f"{root.rstrip('/')}/{BOOT_ID}", LARGEST_BYTES).decode(errors="replace").strip()
    return ""


def _encoded(record: Mapping[str, object]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _read(folder: OwnFolder, name: str) -> dict[str, object]:
    """What the file says; nothing if there is none, or none of ours."""
    try:
        record = json.loads(folder.read(name, LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):  # a new job, or a file that is to be replaced
        return {}
    return record if isinstance(record, dict) else {}


def _is_same_run(before: Mapping[str, object], record: Mapping[str, object]) -> bool:
    if before.get("ended") is not None or not isinstance(before.get("started"), float):
        return False
    return all(before.get(key) == record[key] for key in ("run", "boot_id"))


def _is_later(run: str, than: str) -> bool:
    numbers = [int(one) for one in (run, than) if one.isascii() and one.isdigit() and len(one) < _LONGEST_NUMBER]
    return len(numbers) == 2 and numbers[0] > numbers[1]  # both of them


def _make_room(folder: OwnFolder, now: float) -> None:
    """Where there are too many files, remove those of jobs that have ended; raises NoRoomError if none of them may go."""
    if len(folder.names()) >= MOST_FILES and not _remove_old(folder, now - _KEPT_WHERE_FULL_SECONDS):
        raise NoRoomError(f"it has {MOST_FILES:,} files, as many as it may; remove those of jobs that are gone")


def _remove_old(folder: OwnFolder, until: float) -> int:
    """Remove the oldest files of jobs that ended until then, or before the machine last started; return how many were removed.

    A hook has little time, so a call looks at some files only; the next call goes on.
    """
    boot, removed = boot_id("/"), 0
    old = sorted((changed, name) for name, changed in folder.changed().items() if changed < until)
    for _, name in [one for one in old if one[1].endswith(SUFFIX)][:_MOST_LOOKED_AT]:
        record = _read(folder, name)
        if record and (record.get("ended") is not None or record.get("boot_id") != boot):
            folder.remove(name)
            removed += 1
            if removed == _MOST_REMOVED:
                break
    return removed


def group_of_service(*folders: str) -> int:
    """The group of the first of the daemon's folders that exists; root's if there is none."""
    for folder in folders:
        with suppress(OSError):  # not there: the next
            return Path(folder).stat().st_gid
    return 0


def nudge(runtime_directory: str, scheduler: str) -> None:
    """Have the daemon read the jobs of a scheduler at once; where none answers, the next one reads them anyway."""
    request = json.dumps({"verb": "jobs_changed", "source": scheduler}).encode() + b"\n"
    path = Path(runtime_directory, "control.sock")
    with suppress(OSError), connected(path, _PATIENCE_SECONDS) as connection:  # what the docstring says
        connection.sendall(request)
