"""The maintenance that an operator announced, stored in `maintenance.json` across restarts."""

from __future__ import annotations

import errno
import logging
import math
import threading
from pathlib import Path
from typing import Literal

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.maintenance import Maintenance

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.maintenance/1"]
SCHEMA: _Schema = "telemetry.maintenance/1"
MAX_SECONDS = 30 * 86_400.0
MAX_REASON_LENGTH = 200
# The end is exposed for a day, because alert rules ignore events during a maintenance that ended recently.
_EXPOSED_AFTER_END_SECONDS = 86_400.0
_MAX_FILE_BYTES = 1 << 16
# If the stored end differs by more, the wall clock was set or the end was changed.
_TOLERANCE_SECONDS = 1.0
_LOCK_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Document:
    """The content of `maintenance.json`. `until` is Unix time."""

    schema: _Schema
    until: float
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class _Announcement:
    """A maintenance window. It ends at `uptime_end` or `wall_end`, whichever comes first."""

    uptime_end: float
    reason: str
    wall_end: float = math.inf


class MaintenanceState:
    """The end and the reason of the announced maintenance. Thread-safe."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        # Only writers hold this lock, so that a scrape never waits for a disk.
        self._write_lock = threading.Lock()
        self._written: _Document | None = None
        self._announced: _Announcement | None = None
        self._was_on = False
        if path is not None:
            self._load(path)

    def announce(self, duration_seconds: float, reason: str | None) -> None:
        """Replace the maintenance window. If `reason` is None, keep the current reason."""
        with self._lock:
            current_reason = self._announced.reason if self._announced is not None and self._current().is_on else ""
            new_reason = current_reason if reason is None else clean(reason)[:MAX_REASON_LENGTH]
            self._announced = _Announcement(self._uptime() + duration_seconds, new_reason)

    def end(self) -> None:
        """End the maintenance now."""
        with self._lock:
            if self._announced is None or self._current().is_on:
                reason = self._announced.reason if self._announced is not None else ""
                self._announced = _Announcement(self._uptime(), reason)
                self._was_on = False

    def current(self) -> Maintenance:
        """Return the current maintenance. `ends_in` is None if there is none."""
        with self._lock:
            return self._current()

    def save(self) -> None:
        """Write the maintenance file if its content changed. Raise OSError if it cannot be written."""
        if not self._write_lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            raise TimeoutError(errno.ETIMEDOUT, "the disk does not answer")
        try:
            self._write(self._update())
        finally:
            self._write_lock.release()

    def _update(self) -> Maintenance:
        """Log the end of the maintenance once, and forget it a day later. Return the current maintenance."""
        with self._lock:
            current = self._current()
            if self._was_on and not current.is_on:
                log.info("maintenance has ended", extra={"reason": current.reason})
            self._was_on = current.is_on
            if current.ends_in is not None and current.ends_in < -_EXPOSED_AFTER_END_SECONDS:
                self._announced, current = None, Maintenance()
            return current

    def _current(self) -> Maintenance:
        announced = self._announced
        if announced is None:
            return Maintenance()
        ends_in = min(announced.uptime_end - self._uptime(), announced.wall_end - self._clock.wall())
        return Maintenance(ends_in, announced.reason)

    def _uptime(self) -> float:
        """Return the seconds since boot, including the time during which the machine was suspended."""
        return self._clock.monotonic() + self._clock.suspended_seconds()

    def _load(self, path: Path) -> None:
        try:
            with OwnFolder.at(path.parent) as folder:
                document = from_plain(_Document, decode_line(folder.read(path.name, _MAX_FILE_BYTES)))
        except FileNotFoundError:  # no maintenance was announced
            return
        except (OSError, CodecError) as error:
            log.warning("the maintenance file cannot be used", extra={"path": str(path), "error": error})
            return
        seconds_left = min(document.seconds, MAX_SECONDS)
        reason = clean(document.reason)[:MAX_REASON_LENGTH]
        self._announced = _Announcement(self._uptime() + seconds_left, reason, document.until)
        self._written = document
        current = self._current()
        self._was_on = current.is_on
        if current.is_on:
            log.info("maintenance continues", extra={"seconds": current.ends_in, "reason": current.reason})

    def _write(self, current: Maintenance) -> None:
        if self.path is None or self._is_written(current):
            return
        with OwnFolder.create_at(self.path.parent) as folder:
            if current.ends_in is None:
                folder.remove(self.path.name)
                self._written = None
                return
            end_time = self._clock.wall() + current.ends_in
            document = _Document(SCHEMA, end_time, current.ends_in, current.reason)
            folder.replace(self.path.name, encode_line(to_plain(_Document, document)).encode() + b"\n")
            self._written = document

    def _is_written(self, current: Maintenance) -> bool:
        if current.ends_in is None or self._written is None:
            return current.ends_in is None and self._written is None
        difference = abs(self._clock.wall() + current.ends_in - self._written.until)
        return difference < _TOLERANCE_SECONDS and current.reason == self._written.reason


def path_in(directory: str) -> Path:
    """Return the path of `maintenance.json` in a state directory."""
    return Path(directory) / "maintenance.json"


def is_announceable(duration_seconds: float) -> bool:
    """Return whether a maintenance window may last this long."""
    return math.isfinite(duration_seconds) and 0 < duration_seconds <= MAX_SECONDS
