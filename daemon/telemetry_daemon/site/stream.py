"""`/api/v1/events`: server-sent events, made once for all who follow; nothing is made while nobody does."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from urllib.parse import parse_qs

from telemetry_daemon.state.history import History
from telemetry_daemon.version import __version__
from telemetry_daemon.web.messages import Request, Response, status_page
from telemetry_exporters import history_json, stream_json
from telemetry_exporters.json import utc_time
from telemetry_exporters.past import KEPT
from telemetry_exporters.stream_json import Entry
from telemetry_exporters.verdict import judge
from telemetry_parsers.model import Snapshot

MOST_STREAMS = 32
MOST_UNREAD_BYTES = 64 << 10
HEARTBEAT_SECONDS = 15.0
SHORTEST_PAUSE_SECONDS = 1.0
_RETRY_AFTER_SECONDS = 5
_CONTENT_TYPE = "text/event-stream; charset=utf-8"
# The last is for nginx, which would hold events back.
_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("X-Accel-Buffering", "no"))
_HEARTBEAT = b":\n\n"


class Follower:
    """One stream: what it gets first, then what is told to all. Who does not read is dropped."""

    def __init__(self, first: Iterator[bytes], leave: Callable[[Follower], None]) -> None:
        self._first = first
        self._leave = leave
        self._waiting: deque[bytes] = deque()
        self._unread_bytes = 0
        self._more: Callable[[], None] = lambda: None
        self._drop: Callable[[], None] = lambda: None

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """Have it told when there is more."""
        self._more, self._drop = more, drop

    def next(self) -> bytes:
        """The next event; empty while there is none."""
        first = next(self._first, None)
        if first is not None:
            return first
        if not self._waiting:
            return b""
        event = self._waiting.popleft()
        self._unread_bytes -= len(event)
        return event

    def close(self) -> None:
        """It is gone."""
        self._leave(self)

    def tell(self, event: bytes) -> None:
        """An event for all."""
        if self._unread_bytes > MOST_UNREAD_BYTES:
            self._drop()
            return
        self._waiting.append(event)
        self._unread_bytes += len(event)
        self._more()


class Streams:
    """All who follow, on one event loop; `instance` tells this daemon from the one before a restart."""

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
        self._told: Entry = {}
        self._readings = b""
        self._next_look: asyncio.TimerHandle | None = None
        self._next_beat: asyncio.TimerHandle | None = None
        self._made_at = 0.0
        self._is_on_its_way = False

    def __len__(self) -> int:
        return len(self._followers)

    def follow(self, request: Request) -> Response:
        """A stream for this request; 503 when there are too many."""
        if len(self._followers) >= MOST_STREAMS:
            return status_page(503, (("Retry-After", str(_RETRY_AFTER_SECONDS)),))
        if request.method == "HEAD":
            return Response(200, (), _CONTENT_TYPE, _HEADERS)
        self._make()
        follower = Follower(self._first(_last_seen(request)), self._leave)
        self._followers[follower] = None
        self._look_again()
        if self._next_beat is None:
            self._next_beat = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)
        return Response(200, (), _CONTENT_TYPE, _HEADERS, follower)

    def snapshot_changed(self) -> None:
        """Tell what is new, once in a second at most; for any thread."""
        if self._followers and not self._is_on_its_way:
            self._is_on_its_way = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever followed
                self._loop.call_soon_threadsafe(self._look)

    def _leave(self, follower: Follower) -> None:
        self._followers.pop(follower, None)
        if not self._followers:
            for timer in (self._next_look, self._next_beat):
                if timer is not None:
                    timer.cancel()
            self._next_look = self._next_beat = None

    def _look(self) -> None:
        """Make what is new, unless that was done a moment ago: then later."""
        self._is_on_its_way = False
        if self._followers:
            if self._loop.time() - self._made_at >= SHORTEST_PAUSE_SECONDS:
                self._make()
            self._look_again()

    def _look_again(self) -> None:
        """Come back when the pause is over if there is something new, and when the newest numbers expire."""
        if self._next_look is not None:
            self._next_look.cancel()
        snapshot = self._snapshot
        expires = snapshot.valid_until if snapshot is not None and snapshot is self._newest() else 0.0
        self._next_look = self._loop.call_at(max(self._made_at + SHORTEST_PAUSE_SECONDS, expires), self._look)

    def _make(self) -> None:
        """The events of the newest snapshot, for all."""
        snapshot = self._newest()
        if snapshot is self._snapshot:
            return
        self._snapshot, self._made_at = snapshot, self._loop.time()
        found = judge(snapshot)
        devices = [stream_json.device(device, found[device.id]) for device in snapshot.devices]
        self._state = stream_json.state(snapshot, devices, __version__, self._instance)
        before, self._told = self._told, stream_json.without_ages(self._state)
        for name, data in _changes(before, self._told, self._state):
            self._tell(self._event(name, stream_json.text(data)))
        self._readings = self._event("readings", stream_json.readings(snapshot, snapshot.valid_until - self._made_at))
        self._tell(self._readings)

    def _tell(self, event: bytes) -> None:
        for follower in list(self._followers):
            follower.tell(event)

    def _beat(self) -> None:
        self._tell(_HEARTBEAT)
        self._next_beat = self._loop.call_later(HEARTBEAT_SECONDS, self._beat) if self._followers else None

    def _event(self, name: str, data: str) -> bytes:
        return f"id: {self._instance}.{self._history.newest()}\nevent: {name}\ndata: {data}\n\n".encode()

    def _first(self, last_seen: str) -> Iterator[bytes]:
        """What a new follower gets: the state, what it missed, the numbers."""
        state = self._event("state", stream_json.text(self._state))
        missed = self._missed(last_seen) if last_seen else iter(())
        return chain((state,), missed, (self._readings,))

    def _missed(self, last_seen: str) -> Iterator[bytes]:
        """The slots since the last event that it saw; all that are kept if another daemon told that."""
        instance, _, slot = last_seen.partition(".")
        # Slots of the daemon before are not kept here. The slot that was open then is told whole.
        first = int(slot) if instance == self._instance and slot.isdecimal() and slot.isascii() else 0
        window = self._history.past((), (), first)
        end = window.first + window.slots
        span = {"start": utc_time(window.start), "slot_seconds": window.slot_seconds, "slots": window.slots}
        for device_id in self._history.ids() if window.slots else ():
            past = self._history.past((device_id,), KEPT, window.first, end)
            yield self._event("history", _with(span, history_json.device_text(device_id, past)))
        events = [history_json.event(event) for event in window.events]
        yield self._event("history", stream_json.text({**span, "events": events}))


def _with(span: Entry, device: str) -> str:
    return f"{stream_json.text(span)[:-1]},{device[1:]}"


def _changes(before: Entry, now: Entry, state: Entry) -> Iterator[tuple[str, Entry]]:
    """What is to be told: devices that changed, or the whole state if anything else did."""
    if not before or {**before, "devices": None} != {**now, "devices": None}:
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


def _last_seen(request: Request) -> str:
    """The id of the last event that the client saw: as EventSource tells it, or in the query for one that was made anew."""
    asked = parse_qs(request.query).get("last_event_id", [""])[-1]
    return request.headers.get("last-event-id", asked)
