"""The event stream at `/api/v1/events`."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs

from telemetry_daemon.state.history import History
from telemetry_daemon.version import __version__
from telemetry_daemon.web.messages import LOCAL_SOCKET, Request, Response, status_page
from telemetry_exporters.documents import history_json, stream_json
from telemetry_exporters.documents.json_values import to_json, utc_time
from telemetry_exporters.documents.stream_json import Entry
from telemetry_exporters.judgement.verdict import judge
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import KEPT

MAX_STREAMS = 32
# Clients of the Unix socket have a separate limit.
MAX_LOCAL_STREAMS = 8
# If all streams are in use, a stream of this age may be ended to admit a new client.
TURN_SECONDS = 60.0
MAX_UNREAD_BYTES = 64 << 10
HEARTBEAT_SECONDS = 15.0
MIN_PAUSE_SECONDS = 1.0
_RETRY_AFTER_SECONDS = 5
_CONTENT_TYPE = "text/event-stream; charset=utf-8"
# X-Accel-Buffering prevents nginx from buffering events.
_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("X-Accel-Buffering", "no"))
_HEARTBEAT = b":\n\n"
_READINGS = "readings"
_EVENT_ID = re.compile(r"[0-9a-f]{1,16}\.[0-9]{1,15}")
_UNKNOWN_ID = "0.0"


class StreamClient:
    """A client of the event stream, and the events that it has not read."""

    def __init__(
        self, events: Iterator[bytes], on_leave: Callable[[StreamClient], None], address: str = "", started: float = 0.0
    ) -> None:
        self.address = address
        self.started = started
        self._first_events = events
        self._on_leave = on_leave
        self._is_up_to_date = False
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._unread_bytes = 0
        self._notify: Callable[[], None] = lambda: None
        self._disconnect: Callable[[], None] = lambda: None

    def begin(self, notify: Callable[[], None], disconnect: Callable[[], None]) -> None:
        """Set the functions that announce new events (`notify`) and disconnect the client."""
        self._notify, self._disconnect = notify, disconnect

    def next(self) -> bytes:
        """Return the next event, or empty bytes if none is waiting."""
        first_event = next(self._first_events, None)
        if first_event is not None:
            return first_event
        self._is_up_to_date = True
        return self._dequeue(self._waiting.popleft) if self._waiting else b""

    def disconnect(self) -> None:
        """Disconnect the client."""
        self._on_leave(self)
        self._disconnect()

    def close(self) -> None:
        """Remove the client from the stream after it has disconnected."""
        self._on_leave(self)

    def queue(self, name: str, event: bytes) -> None:
        """Queue an event, or disconnect a client with too many unread bytes."""
        if not self._is_up_to_date and self._waiting and name == self._waiting[-1][0] == _READINGS:
            self._dequeue(self._waiting.pop)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self._disconnect()
            return
        self._waiting.append((name, event))
        self._unread_bytes += len(event)
        self._notify()

    def queue_heartbeat(self) -> None:
        """Queue a heartbeat unless an event is waiting."""
        if not self._waiting:
            self.queue("", _HEARTBEAT)

    def _dequeue(self, pop: Callable[[], tuple[str, bytes]]) -> bytes:
        _, event = pop()
        self._unread_bytes -= len(event)
        return event


class Streams:
    """Sends events to all clients of the event stream."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, get_snapshot: Callable[[], Snapshot], history: History, instance: str
    ) -> None:
        self._loop = loop
        self._get_snapshot = get_snapshot
        self._history = history
        self._instance = instance
        self._clients: dict[StreamClient, None] = {}
        self._snapshot: Snapshot | None = None
        self._latest_state: Entry = {}
        self._sent_state: Entry = {}
        self._readings_json = ""
        self._next_check: asyncio.TimerHandle | None = None
        self._next_heartbeat: asyncio.TimerHandle | None = None
        self._rendered_at = 0.0
        self._is_check_due = False

    def __len__(self) -> int:
        return len(self._clients)

    def follow(self, request: Request) -> Response:
        """Return a response that streams events, or status 503."""
        if request.method == "HEAD":
            return Response(200, (), _CONTENT_TYPE, _HEADERS, StreamClient(iter(()), self._on_leave))
        if not self._admit(request.client):
            return status_page(503, (("Retry-After", str(_RETRY_AFTER_SECONDS)),))
        first_events = self._first_events(self._send_if_due(), self._latest_state, _last_event_id(request))
        client = StreamClient(first_events, self._on_leave, request.client, self._loop.time())
        self._clients[client] = None
        self._schedule_check()
        if self._next_heartbeat is None:
            self._next_heartbeat = self._loop.call_later(HEARTBEAT_SECONDS, self._send_heartbeats)
        return Response(200, (), _CONTENT_TYPE, _HEADERS, client)

    def send_changes(self) -> None:
        """Send changes, at most once a second. Thread-safe."""
        if self._clients and not self._is_check_due:
            self._is_check_due = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and all clients are disconnected
                self._loop.call_soon_threadsafe(self._check_snapshot)

    def _admit(self, address: str) -> bool:
        """Return whether a new stream may begin. If necessary, end an older stream."""
        is_local = address == LOCAL_SOCKET
        streams = [stream for stream in self._clients if (stream.address == LOCAL_SOCKET) == is_local]
        if len(streams) < (MAX_LOCAL_STREAMS if is_local else MAX_STREAMS):
            return True
        stream_counts = Counter(stream.address for stream in streams)
        busiest_address = max(stream_counts, key=stream_counts.__getitem__)
        if stream_counts[busiest_address] > stream_counts[address] + 1:
            evicted = next(stream for stream in streams if stream.address == busiest_address)
        elif self._loop.time() - streams[0].started >= TURN_SECONDS:
            evicted = streams[0]
        else:
            return False
        evicted.disconnect()
        return True

    def _on_leave(self, client: StreamClient) -> None:
        self._clients.pop(client, None)
        if not self._clients:
            for timer in (self._next_check, self._next_heartbeat):
                if timer is not None:
                    timer.cancel()
            self._next_check = self._next_heartbeat = None

    def _check_snapshot(self) -> None:
        self._is_check_due = False
        if self._clients:
            self._send_if_due()
            self._schedule_check()

    def _schedule_check(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
        snapshot, due_time = self._get_snapshot(), self._rendered_at + MIN_PAUSE_SECONDS
        if snapshot is self._snapshot:
            due_time = max(snapshot.valid_until, self._loop.time() + MIN_PAUSE_SECONDS)
        self._next_check = self._loop.call_at(due_time, self._check_snapshot)

    def _send_if_due(self) -> Snapshot:
        """Send a new snapshot's events if they are due. Return the last sent snapshot."""
        snapshot, now = self._get_snapshot(), self._loop.time()
        is_due = snapshot is not self._snapshot and now - self._rendered_at >= MIN_PAUSE_SECONDS
        if self._snapshot is None or is_due:
            self._snapshot, self._rendered_at = snapshot, now
            self._send_snapshot(snapshot)
        return self._snapshot

    def _send_snapshot(self, snapshot: Snapshot) -> None:
        self._latest_state = stream_json.state(snapshot, judge(snapshot), __version__, self._instance)
        previous, self._sent_state = self._sent_state, stream_json.without_ages(self._latest_state)
        for name, data in _changed_entries(previous, self._sent_state, self._latest_state):
            self._queue_for_all(name, self._event(name, to_json(data)))
        self._readings_json = stream_json.numbers(snapshot)
        self._queue_for_all(_READINGS, self._readings_event(snapshot))

    def _readings_event(self, snapshot: Snapshot, last_id: str = "") -> bytes:
        return self._event(_READINGS, stream_json.readings(snapshot, self._readings_json, self._loop.time()), last_id)

    def _queue_for_all(self, name: str, event: bytes) -> None:
        for client in list(self._clients):
            client.queue(name, event)

    def _send_heartbeats(self) -> None:
        for client in list(self._clients):
            client.queue_heartbeat()
        call_later = self._loop.call_later
        self._next_heartbeat = call_later(HEARTBEAT_SECONDS, self._send_heartbeats) if self._clients else None

    def _event(self, name: str, data: str, last_id: str = "") -> bytes:
        # A client that reconnects with this id receives the history from the current slot on.
        event_id = last_id or f"{self._instance}.{self._history.open_slot()}"
        return f"id: {event_id}\nevent: {name}\ndata: {data}\n\n".encode()

    def _first_events(self, snapshot: Snapshot, state: Entry, last_id: str) -> Iterator[bytes]:
        yield self._event("state", to_json(state), last_id)
        yield self._readings_event(snapshot, last_id)
        if last_id:
            yield from self._missed_history(last_id)

    def _missed_history(self, last_id: str) -> Iterator[bytes]:
        instance, _, slot = last_id.partition(".")
        # The slots of an earlier daemon are unknown, so the whole history is sent.
        first_slot = min(int(slot), self._history.open_slot()) if instance == self._instance else None
        window = self._history.past((), (), first_slot)
        end = window.first + window.slots
        times = {"start": utc_time(window.start), "slot_seconds": window.slot_seconds, "slots": window.slots}
        for device_id in self._history.ids() if window.slots else ():
            past = self._history.past((device_id,), KEPT, window.first, end)
            yield self._event("history", _merge_objects(times, history_json.device_json(device_id, past)), last_id)
        events = [history_json.event(event) for event in window.events]
        yield self._event("history", to_json({**times, "events": events}))


def _merge_objects(times: Entry, device: str) -> str:
    return f"{to_json(times)[:-1]},{device[1:]}"


def _changed_entries(previous: Entry, current: Entry, state: Entry) -> Iterator[tuple[str, Entry]]:
    """Yield an event for each changed device and for changed troubles, or the whole state after other changes."""
    ignored = {"devices": None, "troubles": None}
    if not previous or {**previous, **ignored} != {**current, **ignored}:
        if previous:
            yield "state", state
        return
    previous_entries = {entry["id"]: entry for entry in previous["devices"]}
    if [*previous_entries] != [entry["id"] for entry in current["devices"]]:
        yield "state", state
        return
    for entry in current["devices"]:
        if entry != previous_entries[entry["id"]]:
            yield "device", entry
    if previous["troubles"] != current["troubles"]:
        yield "troubles", {"troubles": state["troubles"]}


def _last_event_id(request: Request) -> str:
    last_id = request.headers.get("last-event-id") or parse_qs(request.query).get("last_event_id", [""])[-1]
    return last_id if not last_id or _EVENT_ID.fullmatch(last_id) else _UNKNOWN_ID
