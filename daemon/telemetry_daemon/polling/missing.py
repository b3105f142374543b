"""The polls that have nothing to ask, since their tool, library or files are not there: all are looked for on one beat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler

from telemetry_daemon.polling.trigger import OneThread, SteadyTrigger
from telemetry_parsers.model import Poll

_JOB = "what is missing (chore)"  # no poll's job can have this name

# Looks for what the poll of this source needs.
Look = Callable[[str, Poll], None]


@dataclass(frozen=True, slots=True)
class _PutAway:
    """A poll whose job rests, how often it is looked for, and when it was last."""

    poll: Poll
    interval: float
    looked: float


class MissingPolls:
    """Lets the jobs of such polls rest, and has one job, on one thread, that looks for all of them.

    Its beat is the shortest interval of theirs. So a node without any tool is woken up a few times a minute, and what is installed
    is found within the interval of its poll.
    """

    def __init__(self, scheduler: BaseScheduler, monotonic: Callable[[], float], look: Look) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._look = look
        self._lock = threading.Lock()
        self._away: dict[str, dict[str, _PutAway]] = {}
        self._beat: float | None = None
        scheduler.add_executor(OneThread(), alias=_JOB)

    def put_away(self, source: str, poll: Poll, job_id: str, interval: float) -> None:
        """Let a poll's job rest, and look for what it needs at this interval."""
        with self._lock:
            of_source = self._away.setdefault(source, {})
            rests = poll.name in of_source
            of_source[poll.name] = _PutAway(poll, interval, self._monotonic())
            if not rests:
                with suppress(JobLookupError):  # the scheduler has ended
                    self._scheduler.pause_job(job_id)
            self._keep_beat()

    def is_away(self, source: str, poll: Poll) -> bool:
        """Whether a poll's job rests."""
        return poll.name in self._away.get(source, {})

    def take_back(self, source: str, poll: Poll) -> None:
        """Look for a poll no longer; whoever calls lets its job go on, or removes it."""
        with self._lock:
            of_source = self._away.get(source, {})
            of_source.pop(poll.name, None)
            if not of_source:
                self._away.pop(source, None)
            self._keep_beat()

    def _keep_beat(self) -> None:
        """Look as often as the poll with the shortest interval wants; never when no poll is away."""
        beat = min((one.interval for of_source in self._away.values() for one in of_source.values()), default=None)
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
                (source, one.poll)
                for source, of_source in self._away.items()
                for one in of_source.values()
                # Half a beat early rather than half a beat late, so that all keep to the same beats.
                if one.interval <= beat or now - one.looked >= one.interval - beat / 2
            ]
        for source, poll in due:
            self._look(source, poll)
