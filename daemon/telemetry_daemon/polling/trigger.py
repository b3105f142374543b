"""Extensions of APScheduler: a trigger on the monotonic clock, and an executor with one thread."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta

from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.base import BaseTrigger

# A run that precedes a tick by less than this share of the interval replaces the tick's run.
_EARLY_SHARE = 0.25


class MonotonicTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Runs a job at each multiple of the interval, delayed by `phase_seconds`."""

    __slots__ = ("_interval", "_monotonic", "_phase")

    def __init__(
        self, interval_seconds: float, phase_seconds: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if not (math.isfinite(interval_seconds) and interval_seconds > 0.0 and math.isfinite(phase_seconds)):
            raise ValueError(f"invalid interval or phase: {interval_seconds!r} s, {phase_seconds!r} s")
        self._interval = interval_seconds
        self._phase = phase_seconds
        self._monotonic = monotonic

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the time of the next tick."""
        elapsed_intervals = (self._monotonic() - self._phase) / self._interval
        early_share = 0.0 if previous_fire_time is None else _EARLY_SHARE
        wait_seconds = (math.floor(elapsed_intervals + early_share) + 1 - elapsed_intervals) * self._interval
        return now + timedelta(seconds=max(wait_seconds, 1e-6))

    def __str__(self) -> str:
        return f"every {self._interval:g} s"


def phase_of(source: str, poll: str, interval_seconds: float) -> float:
    """Return a pseudo-random phase within the interval, the same after each restart."""
    return zlib.crc32(f"{source}\0{poll}".encode()) / 2**32 * interval_seconds


def realign_jobs(scheduler: BaseScheduler) -> None:
    """Reschedule all jobs, except paused jobs, after the wall clock was set."""
    for job in scheduler.get_jobs():
        if getattr(job, "next_run_time", None) is not None:
            with suppress(JobLookupError):  # the job was removed in the meantime
                job.reschedule(job.trigger)


class SingleThreadExecutor(BasePoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """An executor with one thread, which starts at once."""

    def __init__(self) -> None:
        pool = ThreadPoolExecutor(1)
        with suppress(RuntimeError):  # if TasksMax= forbids a thread now, the first job starts the thread
            pool.submit(int)
        super().__init__(pool)
