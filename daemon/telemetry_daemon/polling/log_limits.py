"""Limits of the log: a source gets a fixed number of lines per period, whatever it reports."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable

from telemetry_daemon.polling.source import Source
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Poll, Problem

DAY_SECONDS = 24 * 3600.0
HOUR_SECONDS = 3600.0
# When every card of a node is repartitioned, this many devices disappear and appear.
MOST_DEVICE_EVENTS = 256
_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(slots=True)
class _Spent:
    since: float
    lines: int = 0
    shapes: set[str] = field(default_factory=set)


class _Ration:
    """Limits the lines about each subject in a period."""

    def __init__(self, clock: Callable[[], float], seconds: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._lock = threading.Lock()
        self._used: dict[Hashable, _Spent] = {}

    def remaining(self, subject: Hashable, shape: str = "") -> int:
        """Return the number of lines left, including this line; 0 without any, or if the shape was logged already."""
        with self._lock:
            now = self._clock()
            used = self._used.get(subject)
            if used is None or now - used.since >= self._seconds:
                used = self._used[subject] = _Spent(now)
            left = self._most - used.lines
            if left <= 0 or shape in used.shapes:
                return 0
            used.lines += 1
            if shape:
                used.shapes.add(shape)
            return left


class News:
    """Decides which problems and events are logged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._problems = _Ration(clock, DAY_SECONDS, bounds.MOST_PROBLEMS)
        self._events = _Ration(clock, HOUR_SECONDS, MOST_DEVICE_EVENTS)

    def problem(self, source: Source, poll: Poll, problem: Problem) -> str:
        """Return the log line for a problem, or an empty text if it was logged today or there were too many."""
        # Numbers are replaced, because an unknown line may contain a reading that changes at each poll.
        shape = _DIGITS.sub("0", f"{problem.where}: {problem.text}")
        left = self._problems.remaining((source.name, poll.name), shape)
        return {0: "", 1: "more kinds of problems than are logged in a day"}.get(left, "problem")

    def event(self, source: Source, event: DeviceEvent) -> str:
        """Return the log line for a device that appeared or disappeared, or an empty text after too many."""
        left = self._events.remaining(source.name)
        return {0: "", 1: "more devices come and go than are logged in an hour"}.get(left, f"device {event.what}")
