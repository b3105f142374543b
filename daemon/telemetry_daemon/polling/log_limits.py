"""Limits how many problems and events of each source are logged per period."""

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
# Repartitioning a node's cards removes and adds up to this many devices.
MAX_DEVICE_EVENTS = 256
_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(slots=True)
class _LoggedLines:
    since: float
    line_count: int = 0
    patterns: set[str] = field(default_factory=set)


class _LineLimit:
    def __init__(self, clock: Callable[[], float], interval_seconds: float, limit: int) -> None:
        self._clock, self._interval_seconds, self._limit = clock, interval_seconds, limit
        self._lock = threading.Lock()
        self._logged_by_subject: dict[Hashable, _LoggedLines] = {}

    def count_line(self, subject: Hashable, pattern: str = "") -> int:
        """Return how many lines may still be logged, including this one. Return 0 if its pattern was logged before."""
        with self._lock:
            now = self._clock()
            logged = self._logged_by_subject.get(subject)
            if logged is None or now - logged.since >= self._interval_seconds:
                logged = self._logged_by_subject[subject] = _LoggedLines(now)
            remaining = self._limit - logged.line_count
            if remaining <= 0 or pattern in logged.patterns:
                return 0
            logged.line_count += 1
            if pattern:
                logged.patterns.add(pattern)
            return remaining


class LogLimits:
    """Decides which problems and events are logged, and with which message."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._problems = _LineLimit(clock, DAY_SECONDS, bounds.MAX_PROBLEMS)
        self._events = _LineLimit(clock, HOUR_SECONDS, MAX_DEVICE_EVENTS)

    def problem_log_message(self, source: Source, poll: Poll, problem: Problem) -> str:
        """Return the message for a problem, or "" to log nothing."""
        # A problem may quote a reading that changes at each poll.
        pattern = _DIGITS.sub("0", f"{problem.where}: {problem.text}")
        remaining = self._problems.count_line((source.name, poll.name), pattern)
        return {0: "", 1: "too many kinds of problems; no more are logged today"}.get(remaining, "problem")

    def event_log_message(self, source: Source, event: DeviceEvent) -> str:
        """Return the message for a new or lost device, or "" to log nothing."""
        remaining = self._events.count_line(source.name)
        messages = {0: "", 1: "too many device changes; no more are logged this hour"}
        return messages.get(remaining, f"device {event.kind}")
