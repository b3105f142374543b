"""Extensions of APScheduler: a steady interval on the monotonic clock, and one thread for the jobs of one source."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.base import BaseTrigger

# A run this much of an interval before a tick belongs to that tick.
_EARLY = 0.25


class SteadyTrigger(BaseTrigger):  # type: ignore[misc]  # apscheduler ships no types
    """Fires at `phase_seconds` plus any number of intervals on the monotonic clock. Missed ticks are skipped."""

    __slots__ = ("_interval", "_monotonic", "_phase")

    def __init__(
        self, interval_seconds: float, phase_seconds: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if not (math.isfinite(interval_seconds) and interval_seconds > 0.0 and math.isfinite(phase_seconds)):
            raise ValueError(f"an interval must be more than 0 s, not {interval_seconds!r} (phase {phase_seconds!r})")
        self._interval = interval_seconds
        self._phase = phase_seconds
        self._monotonic = monotonic

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the next tick, always after `now`: the first if nothing was fired, else the tick after the run's."""
        beats = (self._monotonic() - self._phase) / self._interval
        early = 0.0 if previous_fire_time is None else _EARLY
        wait = (math.floor(beats + early) + 1 - beats) * self._interval
        return now + timedelta(seconds=max(wait, 1e-6))

    def __str__(self) -> str:
        return f"every {self._interval:g} s"


def spread(source: str, poll: str, interval_seconds: float) -> float:
    """Return the phase of a poll within its interval: constant across runs, different from poll to poll."""
    of_this_poll = Random(f"{source}\0{poll}")  # noqa: S311  # spreads work; hashlib would load OpenSSL
    return of_this_poll.random() * interval_seconds


def respread(scheduler: BaseScheduler) -> None:
    """Realign every job after the wall clock was set; paused jobs stay paused."""
    for job in scheduler.get_jobs():
        if getattr(job, "next_run_time", None) is not None:
            with suppress(JobLookupError):  # removed since the list was made
                job.reschedule(job.trigger)


class OneThread(BasePoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """An executor with one thread, started at once: later, a tool may have used up the service's tasks (TasksMax=)."""

    def __init__(self) -> None:
        pool = ThreadPoolExecutor(1)
        with suppress(RuntimeError):  # if there is no room even now, the first job tries again
            pool.submit(int)
        super().__init__(pool)
