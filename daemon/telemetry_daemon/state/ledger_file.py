"""The ledger's files: `ledger.json` with current records, and `jobs.jsonl` with completed records."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_exporters.documents.job_json import clean_record, line
from telemetry_exporters.text import deep_clean
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.job_record import JobRecord

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.ledger/1"]
SCHEMA: _Schema = "telemetry.ledger/1"
LEDGER, JOBS = "ledger.json", "jobs.jsonl"
ROTATED_JOBS = JOBS + ".1"
MAX_LEDGER_BYTES = 64 << 20
MAX_JOBS_BYTES = 16 << 20
WRITE_SECONDS = 60.0
# At most this many records wait while the disk is full.
MAX_UNWRITTEN = 1024
# If the daemon was killed, `ledger.json` may still contain jobs that `jobs.jsonl` has at its end. `load` omits them.
_NEWEST_JOBS_BYTES = 4 << 20
_LOCK_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SavedLedger:
    """The content of `ledger.json`: the records of current owners."""

    schema: _Schema
    boot: str
    time: float
    monotonic: float
    jobs: tuple[JobRecord, ...]


def encode_ledger(saved: SavedLedger) -> str:
    """Encode the state as the content of `ledger.json`."""
    return encode_line(to_plain(SavedLedger, deep_clean(saved))) + "\n"


def decode_ledger(content: bytes | str) -> SavedLedger:
    """Decode the content of `ledger.json`. Raise CodecError if it is invalid."""
    saved = from_plain(SavedLedger, decode_line(content))
    return replace(saved, jobs=tuple(clean_record(job) for job in saved.jobs))


class LedgerFile:
    """Reads and writes the ledger's files. Thread-safe."""

    def __init__(self, directory: str, monotonic: Callable[[], float]) -> None:
        self._folder = Path(directory)
        self._monotonic = monotonic
        self._changes = ChangeLog()
        self._write_lock = threading.Lock()
        self._written_at = -math.inf
        self._unwritten_records: tuple[JobRecord, ...] = ()

    def load(self) -> SavedLedger | None:
        """Return the saved ledger, or None if it is missing or unusable. Completed jobs are omitted."""
        path = self._folder / LEDGER
        try:
            with OwnFolder.at(self._folder) as folder:
                saved = decode_ledger(folder.read(LEDGER, MAX_LEDGER_BYTES))
                newest_job_lines = _newest_job_lines(folder)
        except FileNotFoundError:  # the first start
            return None
        except (OSError, CodecError) as error:
            log.warning("the old ledger is unusable; starting a new ledger", extra={"path": str(path), "error": error})
            return None
        return replace(saved, jobs=tuple(job for job in saved.jobs if job.id.encode() not in newest_job_lines))

    @property
    def is_due(self) -> bool:
        """Return whether the last write of `ledger.json` was at least a minute ago."""
        return self._monotonic() - self._written_at >= WRITE_SECONDS

    def write(self, completed: Sequence[JobRecord], saved: SavedLedger | None) -> None:
        """Append the completed records to `jobs.jsonl`. Replace `ledger.json` unless `saved` is None."""
        if not self._write_lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            self._unwritten_records = (*self._unwritten_records, *completed)[-MAX_UNWRITTEN:]
            return
        try:
            self._unwritten_records = (*self._unwritten_records, *completed)[-MAX_UNWRITTEN:]
            self._write(saved)
        except OSError as error:
            if self._changes.changed("files", error.errno):
                extra = {"path": str(self._folder), "error": error}
                log.warning("the ledger cannot be saved", extra=extra)
        else:
            self._changes.changed("files", None)
        finally:
            self._write_lock.release()

    def _write(self, saved: SavedLedger | None) -> None:
        if not self._unwritten_records and saved is None:
            return
        with OwnFolder.create_at(self._folder) as folder:
            if self._unwritten_records:
                lines = "".join(f"{line(record)}\n" for record in self._unwritten_records)
                folder.append(JOBS, lines.encode(), MAX_JOBS_BYTES, ROTATED_JOBS)
                self._unwritten_records = ()
            if saved is not None:
                folder.replace(LEDGER, encode_ledger(saved).encode())
                self._written_at = self._monotonic()


def _newest_job_lines(folder: OwnFolder) -> bytes:
    try:
        return folder.read(JOBS, 2 * MAX_JOBS_BYTES)[-_NEWEST_JOBS_BYTES:]
    except FileNotFoundError:  # no records yet
        return b""
