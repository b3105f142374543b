"""The clocks that the daemon reads, so that tests can give it others, and durations as people write them: `90`, `10m`, `1h30m`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from telemetry_parsers.dataclass import dataclass

# The longest single wait of the main thread, so that it still handles signals. Only it runs their handlers, and its wait
# for a lock goes on if the kernel gave the signal to another thread, which was just starting a process.
LONGEST_WAIT_SECONDS = 0.2
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?\Z", re.ASCII)
_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WHOLE = re.compile(r"(?:[0-9]{1,9}[dhms]){1,4}\Z")


def seconds_slept() -> float:
    """How long the machine has been suspended since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """Three clocks: seconds that only go forward, Unix time, and the seconds for which the machine was suspended."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    slept: Callable[[], float] = seconds_slept

    def wall_ahead(self) -> float:
        """By how much the time of day is ahead of the time since the machine's start."""
        return self.wall() - self.monotonic() - self.slept()


def seconds_of(text: str) -> float | None:
    """The seconds that a text names; None if it names none."""
    text = text.strip().lower()
    if _NUMBER.match(text):
        return float(text)
    if _WHOLE.match(text):
        return float(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
    return None
