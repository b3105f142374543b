"""The open connections: how many there are in each phase, and which one is closed when there are too many."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Protocol

from telemetry_daemon.web.clients import Caller

MOST_CONNECTIONS = 512
# Of those who have not asked yet, and of those who do not take their answer: what a client in earnest does takes
# milliseconds, so the oldest of these are not in earnest.
MOST_AT_WORK = 256
LARGEST_SHARE = 0.25  # of these; while there are too many, whoever has more gives up its own oldest


class Standing(Enum):
    """How far a connection has come."""

    UNFINISHED = "no whole request head yet"
    WAITING = "answered before, no new request yet"
    ANSWERING = "an answer is being made or sent"
    LEAVING = "everything is sent, the client has not hung up yet"


_AT_WORK = (Standing.UNFINISHED, Standing.ANSWERING)
# Who goes first when there are too many of all kinds.
_EVICTION_ORDER = (Standing.LEAVING, Standing.WAITING, Standing.UNFINISHED, Standing.ANSWERING)


class Member(Protocol):
    """A connection, as far as the crowd is concerned."""

    @property
    def caller(self) -> Caller:
        """Who is at the other end."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...

    def finish(self) -> None:
        """Drop the connection once the answer under way is sent."""
        ...


class Crowd:
    """The connections by standing, each standing in order of arrival; it never holds more than its limits."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._members: dict[Standing, dict[Member, None]] = {standing: {} for standing in Standing}
        self._clients: dict[Standing, Counter[str]] = {standing: Counter() for standing in Standing}
        self._most = most
        self._most_at_work = min(MOST_AT_WORK, max(1, most // 2))
        self.evicted = 0

    def __len__(self) -> int:
        return sum(len(members) for members in self._members.values())

    def count(self, standing: Standing) -> int:
        """How many connections stand so."""
        return len(self._members[standing])

    def admit(self, member: Member) -> None:
        """Take in a new connection, at the cost of an old unfinished one if there are too many."""
        self._put(member, Standing.UNFINISHED)

    def move(self, member: Member, old: Standing, new: Standing) -> None:
        """Note a connection's new standing; one that was evicted stays out, and one too many goes."""
        if member in self._members[old]:
            self._take(member, old)
            self._put(member, new)

    def leave(self, member: Member) -> None:
        """Forget a connection."""
        for standing, members in self._members.items():
            if member in members:
                self._take(member, standing)

    def evict_one(self) -> bool:
        """Drop the connection that is missed least; False if there is none."""
        for standing in _EVICTION_ORDER:
            if self._members[standing]:
                self._evict(next(iter(self._members[standing])), standing)
                return True
        return False

    def everyone(self) -> list[Member]:
        """All connections."""
        return [member for members in self._members.values() for member in members]

    def _put(self, member: Member, standing: Standing) -> None:
        self._members[standing][member] = None
        self._clients[standing][member.caller.client] += 1
        for crowded in _AT_WORK:
            while self.count(crowded) > self._most_at_work:
                self._evict(self._least_in_earnest(crowded), crowded)
        while len(self) > self._most:
            self.evict_one()

    def _take(self, member: Member, standing: Standing) -> None:
        clients, client = self._clients[standing], member.caller.client
        del self._members[standing][member]
        clients[client] -= 1
        if not clients[client]:
            del clients[client]

    def _least_in_earnest(self, standing: Standing) -> Member:
        """The oldest connection of the client that has more than its share, else the oldest of all."""
        members, clients = self._members[standing], self._clients[standing]
        most = max(clients, key=clients.__getitem__)
        if clients[most] <= len(members) * LARGEST_SHARE:
            return next(iter(members))
        return next(member for member in members if member.caller.client == most)

    def _evict(self, member: Member, standing: Standing) -> None:
        self._take(member, standing)
        self.evicted += 1
        member.abort()
