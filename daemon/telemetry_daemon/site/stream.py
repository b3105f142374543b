"""`/api/v1/events`: server-sent events, built once for all clients, and only while there are any."""

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
from telemetry_exporters.documents.json_values import encoded, utc_time
from telemetry_exporters.documents.stream_json import Entry
from telemetry_exporters.judgement.verdict import judge
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import KEPT

MOST_STREAMS = 32
# Clients of the local socket have a limit of their own.
MOST_LOCAL_STREAMS = 8
# A stream that has lasted this long may be dropped for a new client; its client may reconnect.
TURN_SECONDS = 60.0
MOST_UNREAD_BYTES = 64 << 10
HEARTBEAT_SECONDS = 15.0
SHORTEST_PAUSE_SECONDS = 1.0
_RETRY_AFTER_SECONDS = 5
_CONTENT_TYPE = "text/event-stream; charset=utf-8"
# The last header stops nginx from buffering events.
_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("X-Accel-Buffering", "no"))
_HEARTBEAT = b":\n\n"
_READINGS = "readings"
_ID = re.compile(r"[0-9a-f]{1,16}\.[0-9]{1,15}")
_NO_ID = "0.0"


class Follower:
    """One client of the stream. Only the newest numbers are queued for a slow client. A stalled client is dropped."""

    def __init__(
        self, first: Iterator[bytes], leave: Callable[[Follower], None], client: str = "", begun: float = 0.0
    ) -> None:
        self.client = client
        self.begun = begun
        self._first = first
        self._leave = leave
        self._is_up_to_date = False
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._unread_bytes = 0
        self._more: Callable[[], None] = lambda: None
        self._drop: Callable[[], None] = lambda: None

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """Set the functions that announce more events and drop the client."""
        self._more, self._drop = more, drop

    def next(self) -> bytes:
        """Return the next event; empty while there is none."""
        first = next(self._first, None)
        if first is not None:
            return first
        self._is_up_to_date = True
        return self._pop(self._waiting.popleft) if self._waiting else b""

    def drop(self) -> None:
        """Disconnect the client."""
        self._leave(self)
        self._drop()

    def close(self) -> None:
        """Remove the client, which has disconnected."""
        self._leave(self)

    def queue(self, name: str, event: bytes) -> None:
        """Queue an event."""
        if not self._is_up_to_date and self._waiting and name == self._waiting[-1][0] == _READINGS:
            self._pop(self._waiting.pop)
        if self._unread_bytes > MOST_UNREAD_BYTES:
            self._drop()
            return
        self._waiting.append((name, event))
        self._unread_bytes += len(event)
        self._more()

    def beat(self) -> None:
        """Queue a heartbeat if nothing else is waiting."""
        if not self._waiting:
            self.queue("", _HEARTBEAT)

    def _pop(self, pop: Callable[[], tuple[str, bytes]]) -> bytes:
        _, event = pop()
        self._unread_bytes -= len(event)
        return event


class Streams:
    """All clients of the stream, on one event loop. `instance` distinguishes this daemon from the one before a restart."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, newest: Callable[[], Snapshot], history: History, instance: str
    ) -> None:
        self._loop = loop
        self._newest = newest
        self._history = history
        self._instance = instance
        self._followers: dict[Follower, None] = {}
        self._snapshot: Snapshot | None = None
        self._state: Entry = {}
        self._sent: Entry = {}
        self._numbers = ""
        self._next_check: asyncio.TimerHandle | None = None
        self._next_beat: asyncio.TimerHandle | None = None
        self._made_at = 0.0
        self._is_check_due = False

    def __len__(self) -> int:
        return len(self._followers)

    def follow(self, request: Request) -> Response:
        """Return a stream for this request, or 503 if there are too many."""
        if request.method == "HEAD":
            return Response(200, (), _CONTENT_TYPE, _HEADERS, Follower(iter(()), self._leave))
        if not self._has_room_for(request.client):
            return status_page(503, (("Retry-After", str(_RETRY_AFTER_SECONDS)),))
        first = self._first(self._make_in_turn(), self._state, _last_seen(request))
        follower = Follower(first, self._leave, request.client, self._loop.time())
        self._followers[follower] = None
        self._schedule_check()
        if self._next_beat is None:
            self._next_beat = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)
        return Response(200, (), _CONTENT_TYPE, _HEADERS, follower)

    def snapshot_changed(self) -> None:
        """Send changes, at most once a second; any thread may call this."""
        if self._followers and not self._is_check_due:
            self._is_check_due = True
            with contextlib.suppress(RuntimeError):  # the loop has ended with all clients
                self._loop.call_soon_threadsafe(self._check)

    def _has_room_for(self, client: str) -> bool:
        """Return whether a stream may begin. If there are too many, drop the oldest of the busiest client, or an old stream."""
        is_local = client == LOCAL_SOCKET
        streams = [follower for follower in self._followers if (follower.client == LOCAL_SOCKET) == is_local]
        if len(streams) < (MOST_LOCAL_STREAMS if is_local else MOST_STREAMS):
            return True
        clients = Counter(follower.client for follower in streams)
        greediest = max(clients, key=clients.__getitem__)
        if clients[greediest] > clients[client] + 1:
            leaving = next(follower for follower in streams if follower.client == greediest)
        elif self._loop.time() - streams[0].begun >= TURN_SECONDS:
            leaving = streams[0]
        else:
            return False
        leaving.drop()
        return True

    def _leave(self, follower: Follower) -> None:
        self._followers.pop(follower, None)
        if not self._followers:
            for timer in (self._next_check, self._next_beat):
                if timer is not None:
                    timer.cancel()
            self._next_check = self._next_beat = None

    def _check(self) -> None:
        """Send what is new, and schedule the next check."""
        self._is_check_due = False
        if self._followers:
            self._make_in_turn()
            self._schedule_check()

    def _schedule_check(self) -> None:
        """Schedule the next check: after the pause if there is a new snapshot, and when the newest numbers expire."""
        if self._next_check is not None:
            self._next_check.cancel()
        newest, due = self._newest(), self._made_at + SHORTEST_PAUSE_SECONDS
        if newest is self._snapshot:
            due = max(newest.valid_until, self._loop.time() + SHORTEST_PAUSE_SECONDS)
        self._next_check = self._loop.call_at(due, self._check)

    def _make_in_turn(self) -> Snapshot:
        """Make the events of a new snapshot, unless the last events are recent. Return the snapshot of the current events."""
        newest, now = self._newest(), self._loop.time()
        is_its_turn = newest is not self._snapshot and now - self._made_at >= SHORTEST_PAUSE_SECONDS
        if self._snapshot is None or is_its_turn:
            self._snapshot, self._made_at = newest, now
            self._make(newest)
        return self._snapshot

    def _make(self, snapshot: Snapshot) -> None:
        """Make the events of a snapshot and queue them for all clients."""
        self._state = stream_json.state(snapshot, judge(snapshot), __version__, self._instance)
        before, self._sent = self._sent, stream_json.without_ages(self._state)
        for name, data in _changes(before, self._sent, self._state):
            self._queue(name, self._event(name, encoded(data)))
        self._numbers = stream_json.numbers(snapshot)
        self._queue(_READINGS, self._readings(snapshot))

    def _readings(self, snapshot: Snapshot, seen: str = "") -> bytes:
        """Return the event with the numbers and their validity."""
        return self._event(_READINGS, stream_json.readings(snapshot, self._numbers, self._loop.time()), seen)

    def _queue(self, name: str, event: bytes) -> None:
        for follower in list(self._followers):
            follower.queue(name, event)

    def _beat(self) -> None:
        for follower in list(self._followers):
            follower.beat()
        self._next_beat = self._loop.call_later(HEARTBEAT_SECONDS, self._beat) if self._followers else None

    def _event(self, name: str, data: str, seen: str = "") -> bytes:
        # A client that reconnects with this id needs the past from the current slot on.
        event_id = seen or f"{self._instance}.{self._history.open_slot()}"
        return f"id: {event_id}\nevent: {name}\ndata: {data}\n\n".encode()

    def _first(self, snapshot: Snapshot, state: Entry, seen: str) -> Iterator[bytes]:
        """Yield the first events of a new client: state, numbers, missed slots. The last event has the current id."""
        yield self._event("state", encoded(state), seen)
        yield self._readings(snapshot, seen)
        if seen:
            yield from self._missed(seen)

    def _missed(self, seen: str) -> Iterator[bytes]:
        """Yield the slots since the client's last event, or all if it came from another daemon."""
        instance, _, slot = seen.partition(".")
        # The slots of an earlier daemon are not kept. The slot that was open at the last event is sent again.
        first = min(int(slot), self._history.open_slot()) if instance == self._instance else 0
        window = self._history.past((), (), first)
        end = window.first + window.slots
        span = {"start": utc_time(window.start), "slot_seconds": window.slot_seconds, "slots": window.slots}
        for device_id in self._history.ids() if window.slots else ():
            past = self._history.past((device_id,), KEPT, window.first, end)
            yield self._event("history", _with(span, history_json.device_text(device_id, past)), seen)
        events = [history_json.event(event) for event in window.events]
        yield self._event("history", encoded({**span, "events": events}))


def _with(span: Entry, device: str) -> str:
    return f"{encoded(span)[:-1]},{device[1:]}"


def _changes(before: Entry, now: Entry, state: Entry) -> Iterator[tuple[str, Entry]]:
    """Yield the events of changes in devices and the list of troubles, or the whole state after other changes."""
    others = {"devices": None, "troubles": None}
    if not before or {**before, **others} != {**now, **others}:
        if before:
            yield "state", state
        return
    was = {entry["id"]: entry for entry in before["devices"]}
    if [*was] != [entry["id"] for entry in now["devices"]]:
        yield "state", state
        return
    for entry in now["devices"]:
        if entry != was[entry["id"]]:
            yield "device", entry
    if before["troubles"] != now["troubles"]:
        yield "troubles", {"troubles": state["troubles"]}


def _last_seen(request: Request) -> str:
    """Return the id of the last event that the client saw, from EventSource's header or from the query of a new EventSource."""
    last_id = request.headers.get("last-event-id") or parse_qs(request.query).get("last_event_id", [""])[-1]
    return last_id if not last_id or _ID.fullmatch(last_id) else _NO_ID
