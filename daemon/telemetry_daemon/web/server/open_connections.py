"""The open connections by phase, of which one is dropped when there are too many, and what all of them share."""

from __future__ import annotations

import logging
import resource
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Protocol

from telemetry_daemon.web.access.access_control import AccessControl
from telemetry_daemon.web.clients import Caller, SeldomLogger
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.turns import Turns
from telemetry_parsers.dataclass import dataclass, field

READ_BYTES = 16384
WRITE_BYTES = 65536
LINGER_BYTES = 1024 * 1024
MOST_CONNECTIONS = 512
# Of those who have not asked yet, and of those who do not take their answer. An honest client needs milliseconds for
# either, so the oldest of these are not honest.
MOST_IN_PROGRESS = 256
LARGEST_SHARE = 0.25  # of these; while there are too many, a client that has more gives up its own oldest
FEWEST_CONNECTIONS = 8
# The smallest that Linux gives: a client that follows and does not read is noticed when the kernel's buffers are full.
FOLLOWER_BYTES = 4608
DESCRIPTORS_KEPT_FREE_FOR_READERS = 64
# Children inherit the limit, and some vendor tools close every number up to it before they start:
# with the 2^30 of some container runtimes that takes minutes.
HIGHEST_USEFUL_LIMIT = 65536

logger = logging.getLogger(__name__)


class Phase(Enum):
    """How far a connection has come."""

    UNFINISHED = "no whole request head yet"
    WAITING = "answered before, no new request yet"
    ANSWERING = "an answer is being made or sent"
    FOLLOWING = "an answer waits for more to send"
    LEAVING = "everything is sent, the client has not hung up yet"


_IN_PROGRESS = (Phase.UNFINISHED, Phase.ANSWERING)
# Which connection goes first when there are too many in all.
_EVICTION_ORDER = (Phase.LEAVING, Phase.WAITING, Phase.UNFINISHED, Phase.FOLLOWING, Phase.ANSWERING)


class OpenConnection(Protocol):
    """A connection, as seen from here."""

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


class OpenConnections:
    """The connections by phase, the oldest of each phase first; there are never more than the limits allow."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._connections: dict[Phase, dict[OpenConnection, None]] = {phase: {} for phase in Phase}
        self._clients: dict[Phase, Counter[str]] = {phase: Counter() for phase in Phase}
        self._most = most
        self._most_in_progress = min(MOST_IN_PROGRESS, max(1, most // 2))

    def __len__(self) -> int:
        return sum(map(len, self._connections.values()))

    def count(self, phase: Phase) -> int:
        """How many connections are in this phase."""
        return len(self._connections[phase])

    def add(self, connection: OpenConnection) -> None:
        """Take in a new connection; if there are too many, an old one is dropped."""
        self._put(connection, Phase.UNFINISHED)

    def move(self, connection: OpenConnection, old: Phase, new: Phase) -> None:
        """Note a connection's new phase. One that was evicted before stays out."""
        if connection in self._connections[old]:
            self._take(connection, old)
            self._put(connection, new)

    def remove(self, connection: OpenConnection) -> None:
        """Forget a connection that has ended."""
        for phase, connections in self._connections.items():
            if connection in connections:
                self._take(connection, phase)

    def evict_one(self) -> bool:
        """Drop the connection that does least at the moment; False if there is none."""
        for phase in _EVICTION_ORDER:
            if self._connections[phase]:
                self._evict(next(iter(self._connections[phase])), phase)
                return True
        return False

    def all(self) -> list[OpenConnection]:
        """All connections."""
        return [connection for connections in self._connections.values() for connection in connections]

    def _put(self, connection: OpenConnection, phase: Phase) -> None:
        self._connections[phase][connection] = None
        self._clients[phase][connection.caller.client] += 1
        for limited in _IN_PROGRESS:
            while self.count(limited) > self._most_in_progress:
                self._evict(self._first_to_go(limited), limited)
        while len(self) > self._most:
            self.evict_one()

    def _take(self, connection: OpenConnection, phase: Phase) -> None:
        clients, client = self._clients[phase], connection.caller.client
        del self._connections[phase][connection]
        clients[client] -= 1
        if not clients[client]:
            del clients[client]

    def _first_to_go(self, phase: Phase) -> OpenConnection:
        """The oldest connection of the client that has more than its share, else the oldest of all."""
        connections, clients = self._connections[phase], self._clients[phase]
        most = max(clients, key=clients.__getitem__)
        if clients[most] <= len(connections) * LARGEST_SHARE:
            return next(iter(connections))
        return next(connection for connection in connections if connection.caller.client == most)

    def _evict(self, connection: OpenConnection, phase: Phase) -> None:
        self._take(connection, phase)
        connection.abort()


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = HIGHEST_USEFUL_LIMIT if hard == resource.RLIM_INFINITY else min(hard, HIGHEST_USEFUL_LIMIT)
    if soft == resource.RLIM_INFINITY:
        return HIGHEST_USEFUL_LIMIT
    if soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        return highest
    return soft


def connections_within(limit: int, most: int) -> int:
    """How many connections fit into a limit of descriptors, besides the files that are open now and the readers' share."""
    open_now = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return max(FEWEST_CONNECTIONS, min(most, limit - open_now - DESCRIPTORS_KEPT_FREE_FOR_READERS))


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each step of a connection may take.

    `head` runs from accept, or from the first byte of a later request, whatever else arrives; `idle` between
    requests; `answer` until the last byte is with the kernel, of an answer in pieces of each of them; `linger` until the
    client hangs up after it.
    """

    head: float = 5.0
    idle: float = 60.0
    answer: float = 30.0
    linger: float = 1.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a server share."""

    handler: Handler
    access: AccessControl
    open_connections: OpenConnections
    deadlines: Deadlines
    turns: Turns = field(default_factory=Turns)
    # The event loop reads for one connection at a time, so one buffer is enough.
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    handshake_log: SeldomLogger = field(default_factory=lambda: SeldomLogger(logger))
