"""The open connections: how many there are in each phase, and which one is closed when there are too many."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from telemetry_daemon.web.clients import Caller

MOST_CONNECTIONS = 512
# Of those who have not asked yet, and of those who do not take their answer: what a client in earnest does takes
# milliseconds, so the oldest of these are not in earnest.
MOST_AT_WORK = 256
LARGEST_SHARE = 0.25  # of these, for one client while there are too many


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
        self._most = most
        self._most_at_work = min(MOST_AT_WORK, max(1, most // 2))
        self.evicted = 0

    def __len__(self) -> int:
        return sum(len(members) for members in self._members.values())

    def count(self, standing: Standing) -> int:
        """How many connections stand so."""
        return len(self._members[standing])

    def admit(self, member: Member) -> None:
        """Take in a new connection, at the cost of the oldest unfinished one if there are too many."""
        self._members[Standing.UNFINISHED][member] = None
        self._make_room(member.caller.client)

    def move(self, member: Member, old: Standing, new: Standing) -> None:
        """Note a connection's new standing; one that was evicted stays out, and one too many goes."""
        if member in self._members[old]:
            del self._members[old][member]
            self._members[new][member] = None
            self._make_room(member.caller.client)

    def leave(self, member: Member) -> None:
        """Forget a connection."""
        for members in self._members.values():
            members.pop(member, None)

    def evict_one(self) -> bool:
        """Drop the connection that is missed least; False if there is none."""
        for standing in _EVICTION_ORDER:
            if self._members[standing]:
                self._evict(standing, next(iter(self._members[standing])))
                return True
        return False

    def everyone(self) -> list[Member]:
        """All connections."""
        return [member for members in self._members.values() for member in members]

    def _make_room(self, client: str) -> None:
        """Close what is too much now that one of this client's connections came."""
        for standing in _AT_WORK:
            while self.count(standing) > self._most_at_work:
                self._evict(standing, self._oldest(standing, client))
        while len(self) > self._most:
            self.evict_one()

    def _oldest(self, standing: Standing, client: str) -> Member:
        """The oldest connection of all, or of the client that has brought too many and shall not cost others theirs."""
        members = self._members[standing]
        own = [member for member in members if member.caller.client == client]
        return own[0] if len(own) > len(members) * LARGEST_SHARE else next(iter(members))

    def _evict(self, standing: Standing, member: Member) -> None:
        del self._members[standing][member]
        self.evicted += 1
        member.abort()
