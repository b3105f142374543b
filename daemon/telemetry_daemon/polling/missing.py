"""The polls whose tool, library or files are missing: one job looks for all of them at one interval."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler

from telemetry_daemon.polling.trigger import OneThread, SteadyTrigger
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Poll

_JOB = "what is missing (chore)"  # no poll's job can have this name

# Looks for the tool, library or files of a source's poll.
Look = Callable[[str, Poll], None]


@dataclass(frozen=True, slots=True)
class _Suspended:
    """A suspended poll, the interval of looking for its tool, library or files, and the time of the last suspension."""

    poll: Poll
    interval: float
    looked: float


class MissingPolls:
    """Suspends the jobs of polls whose tool, library or files are missing, and looks for these in a single job."""

    def __init__(self, scheduler: BaseScheduler, monotonic: Callable[[], float], look: Look) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._look = look
        self._lock = threading.Lock()
        self._suspended: dict[str, dict[str, _Suspended]] = {}
        self._interval: float | None = None
        scheduler.add_executor(OneThread(), alias=_JOB)

    def suspend(self, source: str, poll: Poll, job_id: str, interval: float) -> None:
        """Suspend a poll's job, and look for its tool, library or files at this interval."""
        with self._lock:
            of_source = self._suspended.setdefault(source, {})
            is_suspended = poll.name in of_source
            of_source[poll.name] = _Suspended(poll, interval, self._monotonic())
            if not is_suspended:
                with suppress(JobLookupError):  # the scheduler has ended
                    self._scheduler.pause_job(job_id)
            self._update_job()

    def is_suspended(self, source: str, poll: Poll) -> bool:
        """Return whether a poll's job is suspended."""
        return poll.name in self._suspended.get(source, {})

    def forget(self, source: str, poll: Poll) -> None:
        """Stop looking for a poll; the caller resumes or removes its job."""
        with self._lock:
            of_source = self._suspended.get(source, {})
            of_source.pop(poll.name, None)
            if not of_source:
                self._suspended.pop(source, None)
            self._update_job()

    def _update_job(self) -> None:
        """Look at the shortest interval of all suspended polls. Without suspended polls, remove the job."""
        shortest = min((poll.interval for polls in self._suspended.values() for poll in polls.values()), default=None)
        if shortest == self._interval:
            return
        self._interval = shortest
        if shortest is None:
            with suppress(JobLookupError):  # the scheduler has ended
                self._scheduler.remove_job(_JOB)
            return
        self._scheduler.add_job(
            self._look_for_all,
            trigger=SteadyTrigger(shortest, 0.0, self._monotonic),
            id=_JOB,
            executor=_JOB,
            replace_existing=True,
        )

    def _look_for_all(self) -> None:
        now = self._monotonic()
        with self._lock:
            shortest = self._interval or 0.0
            due = [
                (source, suspended.poll)
                for source, of_source in self._suspended.items()
                for suspended in of_source.values()
                # Up to half an interval early, so that all polls share the same ticks.
                if suspended.interval <= shortest or now - suspended.looked >= suspended.interval - shortest / 2
            ]
        for source, poll in due:
            self._look(source, poll)
