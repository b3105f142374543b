"""The ledger's files in the state directory: `ledger.json`, which is replaced whole, and `jobs.jsonl`, with a line per ended owner."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_exporters.documents.job_json import checked, line
from telemetry_exporters.text import cleaned
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.job_record import JobRecord

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.ledger/1"]
SCHEMA: _Schema = "telemetry.ledger/1"
LEDGER, JOBS = "ledger.json", "jobs.jsonl"
OLDER = JOBS + ".1"
LARGEST_LEDGER_BYTES = 64 << 20
LARGEST_JOBS_BYTES = 16 << 20
WRITE_SECONDS = 60.0
# Records that wait for a full disk.
MOST_UNWRITTEN = 1024
# If the daemon was killed, the newest records may be in both files.
_TAIL_BYTES = 4 << 20
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Saved:
    """The file `ledger.json`: the records that have not ended, and the time and boot in which they were written."""

    schema: _Schema
    boot: str
    time: float
    monotonic: float
    jobs: tuple[JobRecord, ...]


def text_of(saved: Saved) -> str:
    """Return the content of the file."""
    return encode_line(to_plain(Saved, cleaned(saved))) + "\n"


def saved_in(content: bytes | str) -> Saved:
    """Return the saved state in this content. Raises CodecError."""
    saved = from_plain(Saved, decode_line(content))
    return replace(saved, jobs=tuple(checked(job) for job in saved.jobs))


class LedgerFile:
    """The files. Thread-safe: a thread gives up instead of waiting for a disk that hangs. A failure is logged once."""

    def __init__(self, directory: str, monotonic: Callable[[], float]) -> None:
        self._folder = Path(directory)
        self._monotonic = monotonic
        self._changes = ChangeLog()
        self._turn = threading.Lock()
        self._written = -math.inf
        self._unwritten: tuple[JobRecord, ...] = ()

    def load(self) -> Saved | None:
        """Return the saved state without records that have ended, or None, with a warning if the file cannot be used."""
        path = self._folder / LEDGER
        try:
            with OwnFolder.at(self._folder) as folder:
                saved = saved_in(folder.read(LEDGER, LARGEST_LEDGER_BYTES))
                ended = _newest(folder)
        except FileNotFoundError:  # the first start
            return None
        except (OSError, CodecError) as error:
            log.warning("the ledger starts again: its file is unusable", extra={"path": str(path), "error": error})
            return None
        return replace(saved, jobs=tuple(job for job in saved.jobs if job.id.encode() not in ended))

    @property
    def is_due(self) -> bool:
        """Return whether nothing was written yet, or not for a minute."""
        return self._monotonic() - self._written >= WRITE_SECONDS

    def keep(self, ended: Sequence[JobRecord], saved: Saved | None) -> None:
        """Write the records of ended owners and the saved state, if any. A failed write is repeated."""
        if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            self._unwritten = (*self._unwritten, *ended)[-MOST_UNWRITTEN:]
            return
        try:
            self._unwritten = (*self._unwritten, *ended)[-MOST_UNWRITTEN:]
            self._keep(saved)
        except OSError as error:
            if self._changes.changed("files", error.errno):
                facts = {"path": str(self._folder), "error": error}
                log.warning("the ledger cannot be saved", extra=facts)
        else:
            self._changes.changed("files", None)
        finally:
            self._turn.release()

    def _keep(self, saved: Saved | None) -> None:
        if not self._unwritten and saved is None:
            return
        with OwnFolder.made(self._folder) as folder:
            if self._unwritten:
                lines = "".join(f"{line(record)}\n" for record in self._unwritten)
                folder.append(JOBS, lines.encode(), LARGEST_JOBS_BYTES, OLDER)
                self._unwritten = ()
            if saved is not None:
                folder.replace(LEDGER, text_of(saved).encode())
                self._written = self._monotonic()


def _newest(folder: OwnFolder) -> bytes:
    try:
        return folder.read(JOBS, 2 * LARGEST_JOBS_BYTES)[-_TAIL_BYTES:]
    except FileNotFoundError:  # no records yet
        return b""
