"""Runs jobs at steady ticks of the monotonic clock: the jobs of one source in one thread, one after the other."""

from __future__ import annotations

import logging
import math
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress

from telemetry_parsers.dataclass import dataclass

log = logging.getLogger(__name__)

# A run this much of an interval before a tick belongs to that tick.
_EARLY = 0.25


def next_tick(now: float, interval: float, phase: float = 0.0, *, has_run: bool = True) -> float:
    """Return the next tick after `now`; ticks are at `phase` plus any number of intervals.

    A late run does not shift the ticks, and missed ticks are skipped. A run shortly before a tick counts as that tick's.
    """
    early = _EARLY if has_run else 0.0
    return max(phase + (math.floor((now - phase) / interval + early) + 1) * interval, now + 1e-6)


def spread(source: str, poll: str, interval: float) -> float:
    """Return the phase of a poll within its interval: constant across runs, different from poll to poll."""
    return zlib.crc32(f"{source}\0{poll}".encode()) / 2**32 * interval


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[], None]
    interval: float
    phase: float
    # The monotonic time of the next run; infinite while the job is paused.
    due: float


class Lane:
    """A thread and its jobs. A job that is due while another runs waits; `on_overrun` is called for ticks that it missed itself."""

    def __init__(
        self,
        name: str,
        monotonic: Callable[[], float] = time.monotonic,
        on_overrun: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._monotonic = monotonic
        self._on_overrun = on_overrun
        self._jobs: dict[str, _Job] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.keep_running()

    def keep_running(self) -> bool:
        """Return whether the thread runs. Start it if it could not be started, as when the tools use up TasksMax=."""
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                with suppress(RuntimeError):  # there is no room for a thread; the next call tries again
                    thread.start()
                    self._thread = thread
            return self._thread is not None and self._thread.is_alive()

    def add(
        self, name: str, run: Callable[[], None], interval: float, phase: float = 0.0, delay: float | None = None
    ) -> None:
        """Add or replace a job. It runs first after `delay` seconds, by default at its next tick."""
        if not (math.isfinite(interval) and interval > 0.0):
            raise ValueError(f"an interval must be more than 0 s, not {interval!r}")
        now = self._monotonic()
        due = next_tick(now, interval, phase, has_run=False) if delay is None else now + delay
        with self._changed:
            self._jobs[name] = _Job(run, interval, phase, due)
            self._changed.notify()

    def remove(self, name: str) -> None:
        """Remove a job; a run that has begun ends."""
        with self._changed:
            self._jobs.pop(name, None)

    def hurry(self, name: str, delay: float = 0.0) -> None:
        """Run a job after `delay` seconds, also if it is paused, or once more if it runs now."""
        with self._changed:
            if name in self._jobs:
                self._jobs[name].due = self._monotonic() + delay
                self._changed.notify()

    def pause(self, name: str) -> None:
        """Run a job no more until `resume` or `hurry`."""
        with self._changed:
            if name in self._jobs:
                self._jobs[name].due = math.inf

    def resume(self, name: str) -> None:
        """Run a paused job again from its next tick on."""
        with self._changed:
            job = self._jobs.get(name)
            if job is not None and job.due == math.inf:
                job.due = next_tick(self._monotonic(), job.interval, job.phase, has_run=False)
                self._changed.notify()

    def wake(self) -> None:
        """Have the thread look at the clock again: before Python 3.11 a wait gets longer if the wall clock is set back."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """Run no further job; the thread ends after the present one."""
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            self._changed.notify()

    def _work(self) -> None:
        while (due := self._next()) is not None:
            name, job, tick = due
            try:
                job.run()
            except Exception:  # the boundary of the thread: the other jobs of the source go on
                log.exception("a poll raised an exception", extra={"source": self._name, "poll": name})
            self._skip_missed(name, job, tick)

    def _next(self) -> tuple[str, _Job, float] | None:
        """Wait for the first job to be due. Return the job with its next tick, or None once the lane is closed."""
        with self._changed:
            while not self._is_closed:
                now = self._monotonic()
                name = min(self._jobs, key=lambda name: self._jobs[name].due, default=None)
                due = math.inf if name is None else self._jobs[name].due
                if name is not None and due <= now:
                    job = self._jobs[name]
                    # Planned before the run, so that a `hurry` or `pause` during the run has the last word.
                    job.due = next_tick(now, job.interval, job.phase)
                    return name, job, job.due
                self._changed.wait(None if due == math.inf else due - now)
            return None

    def _skip_missed(self, name: str, job: _Job, tick: float) -> None:
        """Count the ticks during a run that took longer than the interval, and plan the tick after them."""
        now = self._monotonic()
        with self._changed:
            missed = 0 if job.due != tick or tick > now else 1 + int((now - tick) // job.interval)
            if missed:
                job.due = next_tick(now, job.interval, job.phase, has_run=False)
        for _ in range(missed):
            self._on_overrun(name)
