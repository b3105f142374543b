"""Who asks for a page at regular times, and when next: from the times of requests alone. Pure: the clock is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

# A scraper that stopped is expected so many times more.
MISSED_TURNS = 3
# Oftener than that, a page is ready anyhow; more seldom, it is not worth it.
SHORTEST_SECONDS = 0.4
LONGEST_SECONDS = 300.0
_MOST_ARRIVALS = 24
_MOST_CLIENTS = 4
# How far from its time a request may come, as a part of the interval, at least and at most.
_TOLERANCE = 0.05
_LEAST_TOLERANCE_SECONDS = 0.05
_MOST_TOLERANCE_SECONDS = 1.0
# The page is ready so long before: time enough to make it, and so little that few polls fall in between.
_AHEAD = 0.1
_LONGEST_AHEAD_SECONDS = 0.25
# How much of its delay a single request moves the next expected time, and the interval.
_MOVES_TIME = 0.5
_MOVES_INTERVAL = 0.125


@dataclass(slots=True)
class _Client:
    """One that asks each `interval` seconds; `due` is when it asks next."""

    interval: float
    due: float
    missed: int = 0

    @property
    def opens(self) -> float:
        """From when on a page should be ready for it."""
        return self.due - min(self.interval * _AHEAD, _LONGEST_AHEAD_SECONDS)

    @property
    def closes(self) -> float:
        """Until when it is waited for."""
        return self.due + _tolerance(self.interval)

    def is_due(self, now: float) -> bool:
        """Whether a request at this time is the expected one."""
        return abs(now - self.due) <= _tolerance(self.interval)

    def came(self, now: float) -> None:
        """Expect it an interval later."""
        late = now - self.due
        self.interval += late * _MOVES_INTERVAL
        self.due += late * _MOVES_TIME + self.interval
        self.missed = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """The times between which a regular client is expected next; it has missed its turn at the second."""

    opens: float
    closes: float


class Regulars:
    """The regular clients of one page. Those that ask in turns look like several, and each is expected at its own time."""

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque(maxlen=_MOST_ARRIVALS)
        self._clients: list[_Client] = []

    def came(self, now: float) -> None:
        """Note a request."""
        self._pass_by(now)
        due = [client for client in self._clients if client.is_due(now)]
        if due:
            min(due, key=lambda client: abs(now - client.due)).came(now)
        elif len(self._clients) < _MOST_CLIENTS:
            interval = _interval(now, self._arrivals)
            if interval is not None:
                self._clients.append(_Client(interval, now + interval))
        self._arrivals.append(now)

    def next_turn(self, now: float) -> Turn | None:
        """When the next regular client is expected, the one that is due now among them; None where there is none."""
        self._pass_by(now)
        client = min(self._clients, key=lambda client: client.opens, default=None)
        return None if client is None else Turn(client.opens, client.closes)

    def _pass_by(self, now: float) -> None:
        """Count the turns that were missed; who misses too many is no regular client."""
        for client in self._clients:
            while client.closes <= now and client.missed < MISSED_TURNS:
                client.due += client.interval
                client.missed += 1
        self._clients = [client for client in self._clients if client.missed < MISSED_TURNS]


def _interval(now: float, arrivals: Iterable[float]) -> float | None:
    """The shortest interval at which now is the third of three requests."""
    before = sorted((at for at in arrivals if SHORTEST_SECONDS <= now - at <= LONGEST_SECONDS), reverse=True)
    for at in before:
        interval = now - at
        if any(abs(at - interval - first) <= _tolerance(interval) for first in before):
            return interval
    return None


def _tolerance(interval: float) -> float:
    return min(max(interval * _TOLERANCE, _LEAST_TOLERANCE_SECONDS), _MOST_TOLERANCE_SECONDS)
