"""Polls many daemons with several threads, so that hanging daemons do not delay the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from telemetry_daemon.remote.foreign_documents import DocumentError, parse_document, to_snapshot
from telemetry_daemon.remote.http_client import Address, Client, Credentials, NodeError
from telemetry_daemon.top.feed import INVALID_RESPONSE, REQUEST_TIMEOUT_SECONDS, Feed, Focus, LatestState
from telemetry_daemon.top.follow import SNAPSHOT_PATH, Follower
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.dataclass import dataclass

MAX_THREADS = 16
# At most this many threads wait for nodes that did not answer their last requests.
_SILENT_NODE_THREADS = 4
_SILENT_NODE_INTERVAL_SECONDS = 15.0
INTERVAL_SECONDS = 2.0
# The maximum rate of requests to all nodes together.
REQUESTS_PER_SECOND = 32.0


@dataclass(frozen=True, slots=True)
class _ScheduledRequest:
    due_time: float
    name: str
    was_silent: bool = False


class ManyNodesFeed(Feed):
    """Polls all nodes, and follows the stream of the visible node."""

    def __init__(self, addresses: Sequence[Address], credentials: Credentials) -> None:
        self.title = "polled over the network"
        self._addresses_by_name = {address.name: address for address in addresses}
        self._credentials = credentials
        self._latest_by_name = {name: LatestState(name, time.monotonic) for name in self._addresses_by_name}
        self._clients_by_name = {
            address.name: Client(address, credentials, REQUEST_TIMEOUT_SECONDS) for address in addresses
        }
        self._interval = max(INTERVAL_SECONDS, len(addresses) / REQUESTS_PER_SECOND)
        self._schedule = [_ScheduledRequest(time.monotonic(), name) for name in self._addresses_by_name]
        self._schedule_changed = threading.Condition()
        self._silent_requests = 0
        self._follower: Follower | None = None
        self._wake: Callable[[], None] = lambda: None
        self._is_closed = False

    def start(self, wake: Callable[[], None]) -> None:
        """Start the threads that request snapshots."""
        self._wake = wake
        for _ in range(min(MAX_THREADS, len(self._latest_by_name))):
            threading.Thread(target=self._request_repeatedly, name="request snapshots", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the state of each node."""
        follower = self._follower
        states = {name: latest.state() for name, latest in self._latest_by_name.items()}
        if follower is not None and (state := follower.latest.state()).snapshot is not None:
            states[state.name] = state
        return tuple(states.values())

    def set_focus(self, focus: Focus) -> None:
        """Follow the node that the screen shows."""
        name = "" if focus.view is View.NODES else focus.node
        previous = self._follower
        if previous is not None and previous.latest.state().name != name:
            previous.close()
            self._follower = None
        if self._follower is None and name in self._addresses_by_name:
            self._follower = Follower(self.title, name, self._addresses_by_name[name], self._credentials)
            self._follower.start(self._wake)
        if self._follower is not None:
            self._follower.set_focus(focus)

    def close(self) -> None:
        """Stop, without waiting for requests that are not answered yet."""
        with self._schedule_changed:
            self._is_closed = True
            self._schedule_changed.notify_all()
        if self._follower is not None:
            self._follower.close()

    def _request_repeatedly(self) -> None:
        while (request := self._next_request()) is not None:
            is_silent = not self._request_snapshot(request.name)
            self._wake()
            pause = max(self._interval, _SILENT_NODE_INTERVAL_SECONDS) if is_silent else self._interval
            with self._schedule_changed:
                self._silent_requests -= request.was_silent
                self._schedule.append(_ScheduledRequest(time.monotonic() + pause, request.name, is_silent))
                self._schedule_changed.notify()

    def _next_request(self) -> _ScheduledRequest | None:
        """Wait until a request is due. Return None if the feed is closed."""
        with self._schedule_changed:
            while not self._is_closed:
                may_request_silent = self._silent_requests < _SILENT_NODE_THREADS
                candidates = [request for request in self._schedule if may_request_silent or not request.was_silent]
                earliest = min(candidates, key=lambda request: request.due_time, default=None)
                wait_seconds = None if earliest is None else earliest.due_time - time.monotonic()
                if earliest is not None and wait_seconds is not None and wait_seconds <= 0:
                    self._schedule.remove(earliest)
                    self._silent_requests += earliest.was_silent
                    return earliest
                self._schedule_changed.wait(wait_seconds)
            return None

    def _request_snapshot(self, name: str) -> bool:
        """Request a node's snapshot, and return whether the node answered."""
        latest = self._latest_by_name[name]
        try:
            with latest.showing_delay():
                response = self._clients_by_name[name].get(SNAPSHOT_PATH)
            latest.put_snapshot(to_snapshot(parse_document(response.body)))
        except NodeError as error:
            latest.put_trouble(str(error))
        except DocumentError as error:
            latest.put_trouble(f"{INVALID_RESPONSE}: {error}")
        else:
            return True
        return False
