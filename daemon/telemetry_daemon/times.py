"""The clocks that the daemon reads, so that tests can give it others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# How long the main thread may wait at a time and still hear of signals. Their handlers run on it alone, and a wait
# for a lock is not interrupted where the kernel gave the signal to a thread that was just starting a process.
LONGEST_WAIT_SECONDS = 0.2


def seconds_slept() -> float:
    """How long the machine has been suspended since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds that only go forward, the time of day in Unix seconds, and what the former leaves out."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    slept: Callable[[], float] = seconds_slept
