"""Keeps the last minutes, and has them written to a file after an alarm."""

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
from telemetry_daemon.recordings.alarms import MORE_SECONDS, Alarm, Bursts, Entry
from telemetry_daemon.recordings.last_minutes import Ring
from telemetry_daemon.state import flights
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import Clock
from telemetry_parsers.dataclass import dataclass, replace

log = logging.getLogger(__name__)

# Captures that follow an alarm belong in its file. The wait is short, because the node may go down.
SETTLE_SECONDS, LONGEST_SETTLE_SECONDS = 5.0, 20.0
# The process masks the content of the whole ring, and the disk may be slow.
_LONGEST_WRITE_SECONDS = 120.0
_WRITER = "telemetry_daemon.recordings.flight_writer"


@dataclass(frozen=True, slots=True)
class _Due:
    """A file that will be written or rewritten: its name, the begin of its burst, when it is due, and its entry."""

    name: str
    begun: float
    at: float
    entry: Entry
    is_anew: bool = False


class FlightRecorder:
    """Accepts alarms from any thread. `write` writes packed captures to the named file within a time limit, and returns what went wrong."""

    def __init__(
        self,
        ring: Ring,
        bursts: Bursts,
        write: Callable[[str, Iterable[bytes], float], str],
        clock: Clock,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self._ring = ring
        self._bursts = bursts
        self._write = write
        self._clock = clock
        self._new_timer = timer
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._due: _Due | None = None
        self._written: _Due | None = None
        self._timer: threading.Timer | None = None
        self._wakes_at = math.inf
        self._changes = ChangeLog()
        self._is_over = False

    def alarm(self, alarm: Alarm) -> None:
        """Schedule a file if this alarm begins a burst. Returns at once."""
        with self._lock:
            if not self._is_over:
                self._take(alarm, self._clock.monotonic())

    def end(self, seconds: float) -> None:
        """Write pending files within this time and accept no more alarms: the node may go down with its card."""
        with self._lock:
            self._is_over = True
            due, self._due = self._due, None
            if self._timer is not None:
                self._timer.cancel()
        until = self._clock.monotonic() + seconds
        if self._writing.acquire(timeout=seconds):  # a file that is being written is valuable, too
            self._writing.release()
            if due is not None:
                self._record(due, max(0.0, until - self._clock.monotonic()))
        elif due is not None:
            log.warning("the flight recorder had no time to write", extra={"file": due.name})

    def _take(self, alarm: Alarm, now: float) -> None:
        waits = self._due if self._due is not None and not self._due.is_anew else None
        entry = self._bursts.begins(alarm, None if waits is None else waits.entry)
        name = flights.name_of(self._clock.wall(), alarm.cause)
        if waits is not None:
            at = min(now + SETTLE_SECONDS, waits.begun + LONGEST_SETTLE_SECONDS)
            # The most severe alarm names the file.
            self._set(replace(waits, at=at) if entry is None else _Due(name, waits.begun, at, entry))
        elif entry is not None:
            self._set(_Due(name, now, now + SETTLE_SECONDS, entry))
        elif self._due is None and self._written is not None and now < self._written.begun + MORE_SECONDS:
            at = max(self._written.begun + MORE_SECONDS, now + SETTLE_SECONDS)
            self._set(replace(self._written, at=at, is_anew=True))

    def _set(self, due: _Due) -> None:
        if due.at < self._wakes_at and not self._schedule_wake(due.at) and self._timer is None:
            self._due = None
            if not due.is_anew:
                self._bursts.take_back(due.entry)
        else:
            self._due = due

    def _schedule_wake(self, at: float) -> bool:
        """Start a timer that wakes then, and cancel the previous timer. Return whether the timer could start."""
        timer = self._new_timer(max(0.0, at - self._clock.monotonic()), partial(self._woken, at))
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
        self._timer, self._wakes_at = timer, at
        return True

    def _woken(self, at: float) -> None:
        with self._lock:
            if at != self._wakes_at:  # another thread replaced this one while it woke
                return
            self._timer, self._wakes_at = None, math.inf
            due = self._due
            # Wait while more alarms arrive. If that is impossible, write at once.
            if due is None or (due.at > self._clock.monotonic() and self._schedule_wake(due.at)):
                return
            self._due = None
            self._written = None if due.is_anew else due
        self._record(due, _LONGEST_WRITE_SECONDS)

    def _record(self, due: _Due, seconds: float) -> None:
        with self._writing:  # one file at a time
            trouble = self._write(due.name, self._ring.packed(), seconds)
        with self._lock:
            if not trouble:
                self._bursts.count(due.entry)  # also after a rewrite: the first write may have failed
            elif not due.is_anew:
                self._bursts.take_back(due.entry)
        if trouble:
            log.warning("the flight recorder could not write", extra={"file": due.name, "error": trouble})
        else:
            log.info("the last minutes were recorded", extra={"file": due.name})


class Writer:
    """Writes each file in a child process."""

    def __init__(self, state_directory: str, parser_paths: tuple[str, ...]) -> None:
        self._folder = str(flights.folder_in(state_directory))
        self._parser_paths = parser_paths

    def write(self, name: str, packed: Iterable[bytes], seconds: float = _LONGEST_WRITE_SECONDS) -> str:
        """Write a file. Return what went wrong, or an empty text."""
        order: dict[str, Any] = {"folder": self._folder, "name": name, "parser_paths": self._parser_paths}
        try:
            with os.fdopen(os.memfd_create("captures"), "wb") as file:
                sizes = [file.write(capture) for capture in packed]
                file.seek(0)
                return self._ordered({**order, "seconds": seconds, "descriptor": file.fileno(), "sizes": sizes})
        except OSError as error:
            return f"no memory for the captures: {error.strerror}"

    def _ordered(self, order: dict[str, Any]) -> str:
        command = short_lived.command_for(_WRITER)
        try:
            asked = short_lived.ShortLivedProcess(command, json.dumps(order), (order["descriptor"],))
            ended = asked.answer(order["seconds"], hint="")
        except NoAnswerError as error:
            return str(error)
        last = (ended.errors.strip().splitlines() or ["it printed nothing"])[-1]
        return "" if ended.status == 0 else f"{self._folder}: {last}"
