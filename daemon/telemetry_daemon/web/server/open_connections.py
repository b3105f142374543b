"""Limits the number of open connections, and holds the state that all connections share."""

from __future__ import annotations

import logging
import resource
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Protocol

from telemetry_daemon.web.access.access_control import AccessControl
from telemetry_daemon.web.clients import Caller, RateLimitedLogger
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.turns import TurnQueue
from telemetry_parsers.dataclass import dataclass, field

READ_BYTES = 16384
WRITE_BYTES = 65536
LINGER_BYTES = 1024 * 1024
MAX_CONNECTIONS = 512
# Connections are in progress for milliseconds, so the oldest ones probably belong to attackers.
MAX_IN_PROGRESS = 256
MAX_SHARE = 0.25  # above the limits, clients with more than this share of the connections lose theirs first
MIN_CONNECTIONS = 8
# The send buffer of a waiting stream, the smallest in Linux, fills soon if the client does not read.
STREAM_BYTES = 4608
DESCRIPTORS_FOR_READERS = 64
# Some vendor tools close every descriptor below the limit, which takes minutes for a limit of 2^30.
MAX_DESCRIPTORS = 65536

logger = logging.getLogger(__name__)


class Phase(Enum):
    """The state of a connection."""

    UNFINISHED = "the request head is incomplete"
    WAITING = "answered; waiting for the next request"
    RESPONDING = "a response is being produced or sent"
    STREAMING = "the stream waits for its next piece"
    CLOSING = "all data is sent; the client has not closed yet"


_IN_PROGRESS = (Phase.UNFINISHED, Phase.RESPONDING)
# Beyond the limit, connections are closed in this order.
_EVICTION_ORDER = (Phase.CLOSING, Phase.WAITING, Phase.UNFINISHED, Phase.STREAMING, Phase.RESPONDING)


class OpenConnection(Protocol):
    """The methods of a connection that this module uses."""

    @property
    def caller(self) -> Caller:
        """Return the client, with the local address of the connection."""

    def abort(self) -> None:
        """Close the connection immediately."""

    def finish(self) -> None:
        """Close the connection after the current response."""


class OpenConnections:
    """The open connections by phase, oldest first, up to a limit."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._connections: dict[Phase, dict[OpenConnection, None]] = {phase: {} for phase in Phase}
        self._connection_counts: dict[Phase, Counter[str]] = {phase: Counter() for phase in Phase}
        self._limit = limit
        self._max_in_progress = min(MAX_IN_PROGRESS, max(1, limit // 2))

    def __len__(self) -> int:
        return sum(map(len, self._connections.values()))

    def count(self, phase: Phase) -> int:
        """Return the number of connections in this phase."""
        return len(self._connections[phase])

    def add(self, connection: OpenConnection) -> None:
        """Add a connection. If there are too many, close an old one."""
        self._insert(connection, Phase.UNFINISHED)

    def move(self, connection: OpenConnection, old: Phase, new: Phase) -> None:
        """Record the new phase of a connection, unless it was evicted."""
        if connection in self._connections[old]:
            self._delete(connection, old)
            self._insert(connection, new)

    def remove(self, connection: OpenConnection) -> None:
        """Remove a closed connection."""
        for phase, connections in self._connections.items():
            if connection in connections:
                self._delete(connection, phase)

    def evict_oldest(self) -> bool:
        """Close the oldest connection of the least active phase. Return False if no connection is open."""
        for phase in _EVICTION_ORDER:
            if self._connections[phase]:
                self._evict(next(iter(self._connections[phase])), phase)
                return True
        return False

    def all(self) -> list[OpenConnection]:
        """Return all connections."""
        return [connection for connections in self._connections.values() for connection in connections]

    def _insert(self, connection: OpenConnection, phase: Phase) -> None:
        self._connections[phase][connection] = None
        self._connection_counts[phase][connection.caller.client] += 1
        for limited_phase in _IN_PROGRESS:
            while self.count(limited_phase) > self._max_in_progress:
                self._evict(self._connection_to_evict(limited_phase), limited_phase)
        while len(self) > self._limit:
            self.evict_oldest()

    def _delete(self, connection: OpenConnection, phase: Phase) -> None:
        connection_counts, client = self._connection_counts[phase], connection.caller.client
        del self._connections[phase][connection]
        connection_counts[client] -= 1
        if not connection_counts[client]:
            del connection_counts[client]

    def _connection_to_evict(self, phase: Phase) -> OpenConnection:
        connections, connection_counts = self._connections[phase], self._connection_counts[phase]
        busiest_client = max(connection_counts, key=connection_counts.__getitem__)
        if connection_counts[busiest_client] <= len(connections) * MAX_SHARE:
            return next(iter(connections))
        return next(connection for connection in connections if connection.caller.client == busiest_client)

    def _evict(self, connection: OpenConnection, phase: Phase) -> None:
        self._delete(connection, phase)
        connection.abort()


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY:
        return MAX_DESCRIPTORS
    if soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        return highest
    return soft


def connection_limit(max_descriptors: int, upper_limit: int) -> int:
    """Return how many connections fit into the limit on open files. Some descriptors are reserved for readers."""
    open_descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return max(MIN_CONNECTIONS, min(upper_limit, max_descriptors - open_descriptors - DESCRIPTORS_FOR_READERS))


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds that each step of a connection may take."""

    head: float = 5.0  # to receive the head of a request
    idle: float = 60.0  # between requests
    answer: float = 30.0  # until the kernel has the last byte of a response or piece
    linger: float = 1.0  # until the client closes after the response


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state that all connections of a server share."""

    handler: Handler
    access: AccessControl
    open_connections: OpenConnections
    deadlines: Deadlines
    turn_queue: TurnQueue = field(default_factory=TurnQueue)
    # All connections share one buffer, because the event loop reads from one connection at a time.
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    handshake_log: RateLimitedLogger = field(default_factory=lambda: RateLimitedLogger(logger))
