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
class _PutAway:
    """A suspended poll job, how often it is looked for, and when it was last."""

    poll: Poll
    interval: float
    looked: float


class MissingPolls:
    """Suspends the jobs of such polls, and looks for all of them in one job at the shortest of their intervals."""

    def __init__(self, scheduler: BaseScheduler, monotonic: Callable[[], float], look: Look) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._look = look
        self._lock = threading.Lock()
        self._away: dict[str, dict[str, _PutAway]] = {}
        self._beat: float | None = None
        scheduler.add_executor(OneThread(), alias=_JOB)

    def put_away(self, source: str, poll: Poll, job_id: str, interval: float) -> None:
        """Suspend a poll's job, and look for its tool, library or files at this interval."""
        with self._lock:
            of_source = self._away.setdefault(source, {})
            rests = poll.name in of_source
            of_source[poll.name] = _PutAway(poll, interval, self._monotonic())
            if not rests:
                with suppress(JobLookupError):  # the scheduler has ended
                    self._scheduler.pause_job(job_id)
            self._keep_beat()

    def is_away(self, source: str, poll: Poll) -> bool:
        """Return whether a poll's job is suspended."""
        return poll.name in self._away.get(source, {})

    def take_back(self, source: str, poll: Poll) -> None:
        """Stop looking for a poll; the caller resumes or removes its job."""
        with self._lock:
            of_source = self._away.get(source, {})
            of_source.pop(poll.name, None)
            if not of_source:
                self._away.pop(source, None)
            self._keep_beat()

    def _keep_beat(self) -> None:
        """Look at the shortest interval of all suspended polls, or never without any."""
        beat = min((poll.interval for polls in self._away.values() for poll in polls.values()), default=None)
        if beat == self._beat:
            return
        self._beat = beat
        if beat is None:
            with suppress(JobLookupError):  # the scheduler has ended
                self._scheduler.remove_job(_JOB)
            return
        self._scheduler.add_job(
            self._look_for_all,
            trigger=SteadyTrigger(beat, 0.0, self._monotonic),
            id=_JOB,
            executor=_JOB,
            replace_existing=True,
        )

    def _look_for_all(self) -> None:
        now = self._monotonic()
        with self._lock:
            beat = self._beat or 0.0
            due = [
                (source, away.poll)
                for source, of_source in self._away.items()
                for away in of_source.values()
                # Half an interval early rather than half an interval late, so that all share the same ticks.
                if away.interval <= beat or now - away.looked >= away.interval - beat / 2
            ]
        for source, poll in due:
            self._look(source, poll)
