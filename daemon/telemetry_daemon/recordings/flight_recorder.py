"""Writes the captures of the last minutes to a file after an alarm."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from telemetry_daemon.processes import short_lived
from telemetry_daemon.processes.short_lived import NoAnswerError
from telemetry_daemon.recordings.alarms import REWRITE_SECONDS, Alarm, CountedFile, FlightFilePolicy
from telemetry_daemon.recordings.last_minutes import RecentCaptures
from telemetry_daemon.state import flights
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import Clock
from telemetry_parsers.dataclass import dataclass, replace

log = logging.getLogger(__name__)

# The wait for captures is short, because the node may go down.
SETTLE_SECONDS, MAX_SETTLE_SECONDS = 5.0, 20.0
# Writing may take this long, because all captures are masked and the disk may be slow.
_MAX_WRITE_SECONDS = 120.0
_WRITER = "telemetry_daemon.recordings.flight_writer"


@dataclass(frozen=True, slots=True)
class _PendingFile:
    """A file to be written at `due`. All times are monotonic."""

    name: str
    start: float
    due: float
    counted: CountedFile
    is_rewrite: bool = False


class FlightRecorder:
    """Writes recent captures to a file after an alarm. Alarms may come from any thread."""

    def __init__(
        self,
        recent_captures: RecentCaptures,
        policy: FlightFilePolicy,
        write: Callable[[str, Iterable[bytes], float], str],
        clock: Clock,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self._recent_captures = recent_captures
        self._policy = policy
        self._write = write
        self._clock = clock
        self._create_timer = timer
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pending: _PendingFile | None = None
        self._written: _PendingFile | None = None
        self._timer: threading.Timer | None = None
        self._wake_time = math.inf
        self._changes = ChangeLog()
        self._is_closed = False

    def on_alarm(self, alarm: Alarm) -> None:
        """Schedule a file if this alarm needs one."""
        with self._lock:
            if not self._is_closed:
                self._schedule_file(alarm, self._clock.monotonic())

    def end(self, timeout_seconds: float) -> None:
        """Ignore later alarms, and write the pending file within the timeout."""
        with self._lock:
            self._is_closed = True
            pending, self._pending = self._pending, None
            if self._timer is not None:
                self._timer.cancel()
        deadline = self._clock.monotonic() + timeout_seconds
        if self._write_lock.acquire(timeout=timeout_seconds):  # also wait for a file that is being written
            self._write_lock.release()
            if pending is not None:
                self._write_file(pending, max(0.0, deadline - self._clock.monotonic()))
        elif pending is not None:
            log.warning("the flight recorder had no time to write", extra={"file": pending.name})

    def _schedule_file(self, alarm: Alarm, now: float) -> None:
        pending = self._pending if self._pending is not None and not self._pending.is_rewrite else None
        counted = self._policy.start_burst(alarm, None if pending is None else pending.counted)
        name = flights.file_name(self._clock.wall(), alarm.cause)
        if pending is not None:
            due = min(now + SETTLE_SECONDS, pending.start + MAX_SETTLE_SECONDS)
            # The file is named after the most severe alarm.
            file = replace(pending, due=due) if counted is None else _PendingFile(name, pending.start, due, counted)
            self._set_pending(file)
        elif counted is not None:
            self._set_pending(_PendingFile(name, now, now + SETTLE_SECONDS, counted))
        elif self._pending is None and self._written is not None and now < self._written.start + REWRITE_SECONDS:
            due = max(self._written.start + REWRITE_SECONDS, now + SETTLE_SECONDS)
            self._set_pending(replace(self._written, due=due, is_rewrite=True))

    def _set_pending(self, pending: _PendingFile) -> None:
        if pending.due < self._wake_time and not self._schedule_wake(pending.due) and self._timer is None:
            self._pending = None
            if not pending.is_rewrite:
                self._policy.remove(pending.counted)
        else:
            self._pending = pending

    def _schedule_wake(self, wake_time: float) -> bool:
        """Replace the timer. Return False if no thread could be started for the new timer."""
        timer = self._create_timer(max(0.0, wake_time - self._clock.monotonic()), partial(self._wake, wake_time))
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:
            if self._changes.changed("thread", str(error)):
                log.warning("the flight recorder could not start a thread", extra={"error": error})
            return False
        self._changes.changed("thread", None)
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wake_time = timer, wake_time
        return True

    def _wake(self, wake_time: float) -> None:
        with self._lock:
            if wake_time != self._wake_time:  # another timer replaced this one
                return
            self._timer, self._wake_time = None, math.inf
            pending = self._pending
            # Later alarms may have postponed the file. Write it now if no timer can be started.
            if pending is None or (pending.due > self._clock.monotonic() and self._schedule_wake(pending.due)):
                return
            self._pending = None
            self._written = None if pending.is_rewrite else pending
        self._write_file(pending, _MAX_WRITE_SECONDS)

    def _write_file(self, pending: _PendingFile, timeout_seconds: float) -> None:
        with self._write_lock:  # only one file is written at a time
            error = self._write(pending.name, self._recent_captures.packed(), timeout_seconds)
        with self._lock:
            if not error:
                self._policy.add(pending.counted)  # counts the file, even if its first write failed
            elif not pending.is_rewrite:
                self._policy.remove(pending.counted)
        if error:
            log.warning("the flight recorder could not write", extra={"file": pending.name, "error": error})
        else:
            log.info("the last minutes were recorded", extra={"file": pending.name})


class FlightFileWriter:
    """Writes each file in a child process."""

    def __init__(self, state_directory: str, parser_paths: tuple[str, ...]) -> None:
        self._folder = str(flights.folder_in(state_directory))
        self._parser_paths = parser_paths

    def write(self, name: str, packed: Iterable[bytes], timeout_seconds: float = _MAX_WRITE_SECONDS) -> str:
        """Write a file. Return an error text, or "" on success."""
        request: dict[str, Any] = {"folder": self._folder, "name": name, "parser_paths": self._parser_paths}
        try:
            with os.fdopen(os.memfd_create("captures"), "wb") as file:
                sizes = [file.write(capture) for capture in packed]
                file.seek(0)
                return self._run_writer(
                    {**request, "seconds": timeout_seconds, "descriptor": file.fileno(), "sizes": sizes}
                )
        except OSError as error:
            return f"no memory for the captures: {error.strerror}"

    def _run_writer(self, request: dict[str, Any]) -> str:
        command = short_lived.command_for(_WRITER)
        try:
            process = short_lived.ShortLivedProcess(command, json.dumps(request), (request["descriptor"],))
            result = process.complete(request["seconds"], hint="")
        except NoAnswerError as error:
            return str(error)
        last_line = (result.errors.strip().splitlines() or ["the writer printed no error"])[-1]
        return "" if result.status == 0 else f"{self._folder}: {last_line}"
