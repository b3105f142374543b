"""The two clocks that the daemon reads, so that tests can give it others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds that only go forward, and the time of day in Unix seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
