"""The polls whose tool, library or files are missing: one job looks for all of them at one interval."""

from __future__ import annotations

import threading
from collections.abc import Callable

from telemetry_daemon.polling.lane import Lane
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Poll

_JOB = "look"

# Looks for the tool, library or files of a source's poll.
Look = Callable[[str, Poll], None]


@dataclass(frozen=True, slots=True)
class _PutAway:
    """A suspended poll job, how often it is looked for, and when it was last."""

    poll: Poll
    interval: float
    looked: float


class MissingPolls:
    """Looks for the tools, libraries or files of suspended polls, in one job at the shortest of their intervals."""

    def __init__(self, lane: Lane, monotonic: Callable[[], float], look: Look) -> None:
        self._lane = lane
        self._monotonic = monotonic
        self._look = look
        self._lock = threading.Lock()
        self._away: dict[str, dict[str, _PutAway]] = {}
        self._beat: float | None = None

    def put_away(self, source: str, poll: Poll, interval: float) -> None:
        """Look for the tool, library or files of a suspended poll at this interval."""
        with self._lock:
            self._away.setdefault(source, {})[poll.name] = _PutAway(poll, interval, self._monotonic())
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
            self._lane.remove(_JOB)
        else:
            self._lane.add(_JOB, self._look_for_all, beat)

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
