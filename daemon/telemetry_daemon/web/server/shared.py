"""What all connections of a server share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from telemetry_daemon.web.access.access_control import AccessControl
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.seldom_logger import SeldomLogger
from telemetry_daemon.web.server.open_connections import OpenConnections

READ_BYTES = 16384

logger = logging.getLogger(__name__)


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
    # The event loop reads for one connection at a time, so one buffer is enough.
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    handshake_log: SeldomLogger = field(default_factory=lambda: SeldomLogger(logger))
