"""Suspends polls whose tool, library or files are missing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler

from telemetry_daemon.polling.trigger import MonotonicTrigger, SingleThreadExecutor
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Poll

_CHECK_JOB = "missing sources (background task)"  # no poll's job can have this name

# Checks whether the tool, library or files that a poll needs exist.
CheckPoll = Callable[[str, Poll], None]


@dataclass(frozen=True, slots=True)
class _SuspendedPoll:
    poll: Poll
    interval: float
    checked_at: float


class SuspendedPolls:
    """The suspended polls. One job checks whether their tools, libraries and files exist."""

    def __init__(self, scheduler: BaseScheduler, monotonic: Callable[[], float], check: CheckPoll) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._check = check
        self._lock = threading.Lock()
        self._suspended: dict[str, dict[str, _SuspendedPoll]] = {}
        self._check_interval: float | None = None
        scheduler.add_executor(SingleThreadExecutor(), alias=_CHECK_JOB)

    def suspend(self, source: str, poll: Poll, job_id: str, interval: float) -> None:
        """Suspend a poll's job. Check at this interval whether its tool, library or files exist."""
        with self._lock:
            suspended_by_poll = self._suspended.setdefault(source, {})
            is_suspended = poll.name in suspended_by_poll
            suspended_by_poll[poll.name] = _SuspendedPoll(poll, interval, self._monotonic())
            if not is_suspended:
                with suppress(JobLookupError):  # the scheduler was shut down
                    self._scheduler.pause_job(job_id)
            self._update_job()

    def is_suspended(self, source: str, poll: Poll) -> bool:
        """Return whether a poll's job is suspended."""
        return poll.name in self._suspended.get(source, {})

    def forget(self, source: str, poll: Poll) -> None:
        """Stop checking a poll. The caller resumes or removes the poll's job."""
        with self._lock:
            suspended_by_poll = self._suspended.get(source, {})
            suspended_by_poll.pop(poll.name, None)
            if not suspended_by_poll:
                self._suspended.pop(source, None)
            self._update_job()

    def _update_job(self) -> None:
        """Schedule the check at the shortest interval of the suspended polls."""
        shortest = min((poll.interval for polls in self._suspended.values() for poll in polls.values()), default=None)
        if shortest == self._check_interval:
            return
        self._check_interval = shortest
        if shortest is None:
            with suppress(JobLookupError):  # the scheduler was shut down
                self._scheduler.remove_job(_CHECK_JOB)
            return
        self._scheduler.add_job(
            self._check_due_polls,
            trigger=MonotonicTrigger(shortest, 0.0, self._monotonic),
            id=_CHECK_JOB,
            executor=_CHECK_JOB,
            replace_existing=True,
        )

    def _check_due_polls(self) -> None:
        now = self._monotonic()
        with self._lock:
            interval = self._check_interval or 0.0
            due_polls = [
                (source, suspended.poll)
                for source, suspended_by_poll in self._suspended.items()
                for suspended in suspended_by_poll.values()
                # Include checks that are nearly due, so that one run of the job covers them.
                if suspended.interval <= interval or now - suspended.checked_at >= suspended.interval - interval / 2
            ]
        for source, poll in due_polls:
            self._check(source, poll)
