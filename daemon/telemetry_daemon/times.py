"""The clocks that the daemon reads, so that tests can give it others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# The longest single wait of the main thread, so that it still handles signals. Only it runs their handlers, and its wait
# for a lock goes on if the kernel gave the signal to another thread, which was just starting a process.
LONGEST_WAIT_SECONDS = 0.2


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
