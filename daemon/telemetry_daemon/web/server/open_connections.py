"""The open connections by phase, with a limit, and the state that all connections share."""

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
# The limit of clients that have not sent a request yet, and of clients that do not read their response. An honest client
# needs milliseconds for either, so the oldest of them are not honest.
MOST_IN_PROGRESS = 256
LARGEST_SHARE = 0.25  # of the connections: above the limits, a client with a larger share loses its oldest connection
FEWEST_CONNECTIONS = 8
# The smallest buffer in Linux: a following client that does not read is noticed when the kernel's buffer is full.
FOLLOWER_BYTES = 4608
DESCRIPTORS_KEPT_FREE_FOR_READERS = 64
# Children inherit the limit, and some vendor tools close every descriptor up to it before they start. With the 2^30 of
# some container runtimes this takes minutes.
HIGHEST_USEFUL_LIMIT = 65536

logger = logging.getLogger(__name__)


class Phase(Enum):
    """The state of a connection."""

    UNFINISHED = "no whole request head yet"
    WAITING = "answered before, no new request yet"
    ANSWERING = "an answer is being made or sent"
    FOLLOWING = "an answer waits for more to send"
    LEAVING = "everything is sent, the client has not hung up yet"


_IN_PROGRESS = (Phase.UNFINISHED, Phase.ANSWERING)
# The order in which connections are dropped when there are too many in total.
_EVICTION_ORDER = (Phase.LEAVING, Phase.WAITING, Phase.UNFINISHED, Phase.FOLLOWING, Phase.ANSWERING)


class OpenConnection(Protocol):
    """A connection as this module uses it."""

    @property
    def caller(self) -> Caller:
        """Return the client of the connection."""

    def abort(self) -> None:
        """Drop the connection at once."""

    def finish(self) -> None:
        """Drop the connection after the response that is being sent."""


class OpenConnections:
    """The connections by phase, the oldest of each phase first, within the limits."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._connections: dict[Phase, dict[OpenConnection, None]] = {phase: {} for phase in Phase}
        self._clients: dict[Phase, Counter[str]] = {phase: Counter() for phase in Phase}
        self._most = most
        self._most_in_progress = min(MOST_IN_PROGRESS, max(1, most // 2))

    def __len__(self) -> int:
        return sum(map(len, self._connections.values()))

    def count(self, phase: Phase) -> int:
        """Return how many connections are in this phase."""
        return len(self._connections[phase])

    def add(self, connection: OpenConnection) -> None:
        """Add a new connection; if there are too many, an old one is dropped."""
        self._put(connection, Phase.UNFINISHED)

    def move(self, connection: OpenConnection, old: Phase, new: Phase) -> None:
        """Record a connection's new phase, unless it was evicted before."""
        if connection in self._connections[old]:
            self._take(connection, old)
            self._put(connection, new)

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that has ended."""
        for phase, connections in self._connections.items():
            if connection in connections:
                self._take(connection, phase)

    def evict_one(self) -> bool:
        """Drop the least active connection, or return False if there is none."""
        for phase in _EVICTION_ORDER:
            if self._connections[phase]:
                self._evict(next(iter(self._connections[phase])), phase)
                return True
        return False

    def all(self) -> list[OpenConnection]:
        """Return all connections."""
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
        """Return the oldest connection of the client with more than its share, else the oldest of all."""
        connections, clients = self._connections[phase], self._clients[phase]
        most = max(clients, key=clients.__getitem__)
        if clients[most] <= len(connections) * LARGEST_SHARE:
            return next(iter(connections))
        return next(connection for connection in connections if connection.caller.client == most)

    def _evict(self, connection: OpenConnection, phase: Phase) -> None:
        self._take(connection, phase)
        connection.abort()


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = HIGHEST_USEFUL_LIMIT if hard == resource.RLIM_INFINITY else min(hard, HIGHEST_USEFUL_LIMIT)
    if soft == resource.RLIM_INFINITY:
        return HIGHEST_USEFUL_LIMIT
    if soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        return highest
    return soft


def connections_within(limit: int, most: int) -> int:
    """Return how many connections fit into a limit of descriptors, besides the open files and the readers' share."""
    open_now = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return max(FEWEST_CONNECTIONS, min(most, limit - open_now - DESCRIPTORS_KEPT_FREE_FOR_READERS))


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each step of a connection may take."""

    head: float = 5.0  # from accept, or from the first byte of a later request, to the end of the head
    idle: float = 60.0  # between requests
    answer: float = 30.0  # until the kernel has the last byte of a response, or of a piece
    linger: float = 1.0  # until the client closes after the response


@dataclass(frozen=True, slots=True)
class Shared:
    """The state that all connections of a server share."""

    handler: Handler
    access: AccessControl
    open_connections: OpenConnections
    deadlines: Deadlines
    turns: Turns = field(default_factory=Turns)
    # The event loop reads for one connection at a time, so one buffer is enough.
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    handshake_log: SeldomLogger = field(default_factory=lambda: SeldomLogger(logger))
