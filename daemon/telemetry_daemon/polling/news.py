"""What is worth a line in the log: of one source no more lines than these in a period, however much it makes up."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from telemetry_daemon.polling.source import Source
from telemetry_parsers import bounds
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Poll, Problem

DAY_SECONDS = 24 * 3600.0
HOUR_SECONDS = 3600.0
# A node of which each card is divided anew has so many devices that go, and as many that come.
MOST_DEVICE_EVENTS = 256
_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(slots=True)
class _Told:
    since: float
    lines: int = 0
    shapes: set[str] = field(default_factory=set)


class _Ration:
    """So many lines for each subject in a period."""

    def __init__(self, clock: Callable[[], float], seconds: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._lock = threading.Lock()
        self._told: dict[Hashable, _Told] = {}

    def take(self, subject: Hashable, shape: str = "") -> int:
        """How many lines are left, this one included; 0 for none, and where a line of that shape was told."""
        with self._lock:
            now = self._clock()
            told = self._told.get(subject)
            if told is None or now - told.since >= self._seconds:
                told = self._told[subject] = _Told(now)
            left = self._most - told.lines
            if left <= 0 or shape in told.shapes:
                return 0
            told.lines += 1
            if shape:
                told.shapes.add(shape)
            return left


class News:
    """The problems and events that are logged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._problems = _Ration(clock, DAY_SECONDS, bounds.MOST_PROBLEMS)
        self._events = _Ration(clock, HOUR_SECONDS, MOST_DEVICE_EVENTS)

    def problem(self, source: Source, poll: Poll, problem: Problem) -> str:
        """What to log of a problem: nothing of one that was told today, and after too many nothing at all."""
        # Not by its numbers: a line that nobody understands may hold a reading that is another at each poll.
        shape = _DIGITS.sub("0", f"{problem.where}: {problem.text}")
        left = self._problems.take((source.name, poll.name), shape)
        return {0: "", 1: "more kinds of problems than are logged in a day"}.get(left, "problem")

    def event(self, source: Source, event: DeviceEvent) -> str:
        """What to log of a device that came or went."""
        left = self._events.take(source.name)
        return {0: "", 1: "more devices come and go than are logged in an hour"}.get(left, f"device {event.what}")
