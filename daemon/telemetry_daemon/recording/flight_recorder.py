"""Keeps the last minutes, and has them written to a file when something happens to a card."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from telemetry_daemon.processes import short_lived
from telemetry_daemon.processes.short_lived import NoAnswerError
from telemetry_daemon.recording import flights
from telemetry_daemon.recording.alarms import Alarm
from telemetry_daemon.recording.bursts import Bursts
from telemetry_daemon.recording.ring import Ring
from telemetry_daemon.times import Clock

log = logging.getLogger(__name__)

# What follows an alarm at once belongs to it, and so does what the tools say next; but a node may not live long.
SETTLE_SECONDS, LONGEST_SETTLE_SECONDS = 5.0, 20.0
# A card may be lost half a minute after its first error: what comes so soon after that is put into the file, too, once.
MORE_SECONDS = 60.0
# The process masks all that the ring holds, and a disk may be slow.
_LONGEST_WRITE_SECONDS = 120.0
_WRITER = "telemetry_daemon.recording.flight_writer"


class Timer(Protocol):
    """What calls a function later."""

    daemon: bool

    def start(self) -> None:
        """Begin to wait."""
        ...

    def cancel(self) -> None:
        """Do not call it any more."""
        ...


@dataclass(frozen=True, slots=True)
class _Due:
    """A file that is about to be written, or written anew: its name, when its burst began, and the timer for it."""

    name: str
    begun: float
    timer: Timer
    is_anew: bool = False


class FlightRecorder:
    """Takes alarms from any thread; `write` puts packed captures into the file of that name, within so many seconds, and says what went wrong."""

    def __init__(
        self,
        ring: Ring,
        bursts: Bursts,
        write: Callable[[str, Iterable[bytes], float], str],
        clock: Clock,
        timer: Callable[[float, Callable[[], None]], Timer] = threading.Timer,
    ) -> None:
        self._ring = ring
        self._bursts = bursts
        self._write = write
        self._clock = clock
        self._timer = timer
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._due: _Due | None = None
        self._written: _Due | None = None
        self._is_over = False

    def alarm(self, alarm: Alarm) -> None:
        """Have a file written if a burst begins with this alarm; returns at once."""
        with self._lock:
            begins, now, due = self._bursts.begins(alarm), self._clock.monotonic(), self._due
            if self._is_over:
                return
            name = flights.name_of(self._clock.wall(), alarm.cause)
            if due is not None and not due.is_anew:
                # What is worse than what the file was about gives it its name.
                latest = due.begun + LONGEST_SETTLE_SECONDS
                self._set(name if begins else due.name, due.begun, max(0.0, min(SETTLE_SECONDS, latest - now)))
            elif begins:
                self._set(name, now, SETTLE_SECONDS)
            elif due is None and self._written is not None and now < self._written.begun + MORE_SECONDS:
                left = self._written.begun + MORE_SECONDS - now
                self._set(self._written.name, self._written.begun, left, is_anew=True)

    def close(self) -> None:
        """Write nothing any more."""
        self._last_due()

    def end(self, seconds: float) -> None:
        """Write at once what is still due, within so many seconds, and nothing any more: a node may go down with its card."""
        due = self._last_due()
        if due is not None:
            self._record(due.name, seconds)
        elif self._writing.acquire(timeout=seconds):  # what is being written is of value, too
            self._writing.release()

    def _last_due(self) -> _Due | None:
        with self._lock:
            self._is_over = True
            due, self._due = self._due, None
            if due is not None:
                due.timer.cancel()
            return due

    def _set(self, name: str, begun: float, seconds: float, *, is_anew: bool = False) -> None:
        if self._due is not None:
            self._due.timer.cancel()
        timer = self._timer(seconds, self._settled)
        timer.daemon = True
        self._due = _Due(name, begun, timer, is_anew)
        timer.start()

    def _settled(self) -> None:
        with self._lock:
            due, self._due = self._due, None
            self._written = None if due is None or due.is_anew else due
        if due is not None:
            self._record(due.name, _LONGEST_WRITE_SECONDS)

    def _record(self, name: str, seconds: float) -> None:
        with self._writing:  # one after the other
            trouble = self._write(name, self._ring.packed(), seconds)
        if trouble:
            log.warning("the flight recorder could not write", extra={"file": name, "error": trouble})
        else:
            log.info("the last minutes were recorded", extra={"file": name})


class Writer:
    """Has a process of its own write each file."""

    def __init__(self, state_directory: str, parser_paths: tuple[str, ...]) -> None:
        self._folder = str(flights.folder_in(state_directory))
        self._parser_paths = parser_paths

    def write(self, name: str, packed: Iterable[bytes], seconds: float = _LONGEST_WRITE_SECONDS) -> str:
        """Empty if all went well, else what went wrong."""
        try:
            descriptor = os.memfd_create("captures")
        except OSError as error:
            return f"no memory for the captures: {error.strerror}"
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.writelines(packed)
            os.lseek(descriptor, 0, os.SEEK_SET)
            return self._ordered(name, descriptor, seconds)
        except OSError as error:
            return f"no memory for the captures: {error.strerror}"
        finally:
            os.close(descriptor)

    def _ordered(self, name: str, descriptor: int, seconds: float) -> str:
        order = {"folder": self._folder, "name": name, "descriptor": descriptor, "parser_paths": self._parser_paths}
        command = short_lived.running(_WRITER)
        try:
            ended = short_lived.Asked(command, json.dumps(order), (descriptor,)).answer(seconds)
        except NoAnswerError as error:
            return str(error)
        last = (ended.errors.strip().splitlines() or ["it said nothing"])[-1]
        return "" if ended.status == 0 else f"{self._folder}: {last}"
