"""Many daemons, asked in turn by sixteen threads; one that hangs holds up nobody but itself."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Sequence

from telemetry_daemon.nodes.address import Address
from telemetry_daemon.nodes.client import Client, Credentials, NodeError
from telemetry_daemon.nodes.document import past_of, snapshot_of
from telemetry_daemon.nodes.plain import DocumentError
from telemetry_daemon.top.feed import PATIENCE_SECONDS, Known
from telemetry_exporters.frames.model import NodeState

THREADS = 16
INTERVAL_SECONDS = 2.0
# Of many nodes each is asked less often: so many requests a second are made in all.
REQUESTS_PER_SECOND = 32.0


class ManyNodes:
    """Asks each node for its snapshot again and again, and the one that is looked at for its history, too."""

    def __init__(self, addresses: Sequence[Address], credentials: Credentials) -> None:
        self.title = f"{len(addresses)} nodes"
        self._known = {address.name: Known(address.name, time.monotonic) for address in addresses}
        self._clients = {address.name: Client(address, credentials, PATIENCE_SECONDS) for address in addresses}
        self._interval = max(INTERVAL_SECONDS, len(addresses) / REQUESTS_PER_SECOND)
        self._due: queue.PriorityQueue[tuple[float, int, str]] = queue.PriorityQueue()
        self._turns = itertools.count()
        self._looked_at = ""
        self._wake: Callable[[], None] = lambda: None
        self._is_over = threading.Event()

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to ask."""
        self._wake = wake
        for name in self._known:
            self._due.put((time.monotonic(), next(self._turns), name))
        for _ in range(min(THREADS, len(self._known))):
            threading.Thread(target=self._run, name="ask nodes", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """What is known of each."""
        return tuple(known.state() for known in self._known.values())

    def look_at(self, node: str) -> None:
        """Ask this one for its past, too."""
        self._looked_at = node

    def close(self) -> None:
        """Stop; a thread that waits for a node ends with the process."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            due, _, name = self._due.get()
            if self._is_over.wait(max(0.0, due - time.monotonic())):
                return
            self._ask(name)
            self._wake()
            self._due.put((time.monotonic() + self._interval, next(self._turns), name))

    def _ask(self, name: str) -> None:
        client, known = self._clients[name], self._known[name]
        try:
            snapshot = snapshot_of(_document(client, "/api/v1/snapshot"))
            past = past_of(_document(client, "/api/v1/history")) if name == self._looked_at else None
            known.put(snapshot, past)
        except (NodeError, DocumentError) as error:
            known.fail(str(error))


def _document(client: Client, target: str) -> object:
    try:
        return json.loads(client.get(target).body)
    except (ValueError, RecursionError) as error:
        raise DocumentError("the answer", "JSON") from error
