"""Clocks that tests can replace, and a parser for durations such as `90`, `10m` or `1h30m`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from telemetry_parsers.dataclass import dataclass

# The main thread waits in short steps, because a wait for a lock may delay its signal handlers.
MAX_WAIT_SECONDS = 0.2
MIN_SLEEP_SECONDS = 1.0  # a shorter suspension of the machine may be a measurement error
_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PLAIN_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?\Z", re.ASCII)
_UNIT_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WITH_UNITS = re.compile(r"(?:[0-9]{1,9}[dhms]){1,4}\Z")


def read_suspended_seconds() -> float:
    """Return how long the machine has been suspended since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """Functions that return the monotonic time, the wall time, and how long the machine has been suspended since boot."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    suspended_seconds: Callable[[], float] = read_suspended_seconds

    def boot_time(self) -> float:
        """Return the Unix time of the machine's boot, by the current wall clock."""
        return self.wall() - self.monotonic() - self.suspended_seconds()


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as `90` or `1h30m`, or None if the text is not a duration."""
    text = text.strip().lower()
    if _PLAIN_SECONDS.match(text):
        return float(text)
    if _WITH_UNITS.match(text):
        return float(sum(int(digits) * _UNIT_SECONDS[unit] for digits, unit in _UNIT_PART.findall(text)))
    return None
