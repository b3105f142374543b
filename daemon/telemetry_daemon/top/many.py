"""Many daemons, polled by sixteen threads; a daemon that hangs delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from telemetry_daemon.remote.foreign_documents import DocumentError, document_in, snapshot_of
from telemetry_daemon.remote.http_client import Address, Client, Credentials, NodeError
from telemetry_daemon.top.feed import NOT_UNDERSTOOD, PATIENCE_SECONDS, Feed, Focus, Known
from telemetry_daemon.top.follow import SNAPSHOT, Follower
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.dataclass import dataclass

THREADS = 16
# Of these, so many may wait for nodes that did not answer the last time, each of which is asked again after so long.
_THREADS_FOR_SILENT = 4
_SILENT_SECONDS = 15.0
INTERVAL_SECONDS = 2.0
# Of many nodes each is asked less often: so many requests a second are made in all.
REQUESTS_PER_SECOND = 32.0


@dataclass(frozen=True, slots=True)
class _Turn:
    due: float
    name: str
    was_silent: bool = False


class ManyNodes(Feed):
    """Asks each node for its snapshot again and again; the one that is looked at is followed besides."""

    def __init__(self, addresses: Sequence[Address], credentials: Credentials) -> None:
        self.title = "asked over the network"
        self._addresses = {address.name: address for address in addresses}
        self._credentials = credentials
        self._known = {name: Known(name, time.monotonic) for name in self._addresses}
        self._clients = {
            name: Client(address, credentials, PATIENCE_SECONDS) for name, address in self._addresses.items()
        }
        self._interval = max(INTERVAL_SECONDS, len(addresses) / REQUESTS_PER_SECOND)
        self._turns = [_Turn(time.monotonic(), name) for name in self._addresses]
        self._changed = threading.Condition()
        self._for_silent = 0
        self._followed: Follower | None = None
        self._wake: Callable[[], None] = lambda: None
        self._is_over = False

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to ask."""
        self._wake = wake
        for _ in range(min(THREADS, len(self._known))):
            threading.Thread(target=self._run, name="ask nodes", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """What is known of each."""
        followed = self._followed
        states = {name: known.state() for name, known in self._known.items()}
        if followed is not None and (state := followed.known.state()).snapshot is not None:
            states[state.name] = state
        return tuple(states.values())

    def look_at(self, focus: Focus) -> None:
        """Follow the node whose cards are looked at."""
        name = "" if focus.view is View.NODES else focus.node
        before = self._followed
        if before is not None and before.known.state().name != name:
            before.close()
            self._followed = None
        if self._followed is None and name in self._addresses:
            self._followed = Follower(self.title, name, self._addresses[name], self._credentials)
            self._followed.start(self._wake)
        if self._followed is not None:
            self._followed.look_at(focus)

    def close(self) -> None:
        """Stop; a thread that waits for a node ends with the process."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._followed is not None:
            self._followed.close()

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            is_silent = not self._ask(turn.name)
            self._wake()
            pause = max(self._interval, _SILENT_SECONDS) if is_silent else self._interval
            with self._changed:
                self._for_silent -= turn.was_silent
                self._turns.append(_Turn(time.monotonic() + pause, turn.name, is_silent))
                self._changed.notify()

    def _next(self) -> _Turn | None:
        """The node whose turn it is, waited for; None at the end."""
        with self._changed:
            while not self._is_over:
                may = [turn for turn in self._turns if not turn.was_silent or self._for_silent < _THREADS_FOR_SILENT]
                first = min(may, key=lambda turn: turn.due, default=None)
                left = None if first is None else first.due - time.monotonic()
                if first is not None and left is not None and left <= 0:
                    self._turns.remove(first)
                    self._for_silent += first.was_silent
                    return first
                self._changed.wait(left)
            return None

    def _ask(self, name: str) -> bool:
        """Whether the node answered."""
        known = self._known[name]
        try:
            with known.asking():
                answer = self._clients[name].get(SNAPSHOT)
            known.put(snapshot_of(document_in(answer.body)))
        except NodeError as error:
            known.fail(str(error))
        except DocumentError as error:
            known.fail(f"{NOT_UNDERSTOOD}: {error}")
        else:
            return True
        return False
