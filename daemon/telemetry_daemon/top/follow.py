"""One daemon that is followed: its whole snapshot now and then, its newest numbers each second as its stream tells them."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from telemetry_daemon.remote.foreign_documents import DocumentError, document_as, document_in, past_of, snapshot_of
from telemetry_daemon.remote.http_client import Address, Client, Credentials, NodeError
from telemetry_daemon.top.feed import LONGEST_SILENCE_SECONDS, NOT_UNDERSTOOD, PATIENCE_SECONDS, Feed, Focus, Known
from telemetry_exporters.documents.stream_json import ReadingsJson, StateJson
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value
from telemetry_parsers.past import KEPT, MOST_EVENTS, SLOT_SECONDS, SLOTS, Gap, Past, Series, kept_places
from telemetry_parsers.readings import Readings

SNAPSHOT, HISTORY, _EVENTS, HEALTH = "/api/v1/snapshot", "/api/v1/history", "/api/v1/events", "/healthz"
NEVER = -math.inf
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 2.0
# What the stream does not tell, such as fans and processes, is asked for again after so long, sooner where it is looked at.
_SELDOM_SECONDS = 15.0
_WHOLE_SECONDS = {View.PROCESSES: 10.0, View.SOURCES: 2.0}
_WITHOUT_STREAM_SECONDS = 2.0
_NOT_FOUND = 404
# An older daemon has no stream; one that has too many listeners has none for us.
_WITHOUT_STREAM = frozenset({_NOT_FOUND, 503})


class Follower(Feed):
    """Follows a daemon: one thread hears its stream, another one asks for what that does not tell."""

    def __init__(self, title: str, name: str, address: Address, credentials: Credentials) -> None:
        self.title = title
        self.known = Known(name, time.monotonic)
        self._address = address
        self._credentials = credentials
        self._is_over = False
        self._ask_now = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._focus = Focus()
        self._snapshot: Snapshot | None = None
        # As it was answered last, before the stream's numbers.
        self._answered: Snapshot | None = None
        self._past: Past | None = None
        self._fetched = self._past_fetched = NEVER
        self._has_stream = self._has_past = True

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to follow."""
        self._wake = wake
        for name, target in (("ask", self._ask), ("hear", self._hear)):
            threading.Thread(target=target, name=name, daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """The one node."""
        return (self.known.state(),)

    def look_at(self, focus: Focus) -> None:
        """What is looked at is asked for at once, and then each second."""
        if focus != self._focus:
            self._focus = focus
            if focus.view is View.CARD:
                self._show_all_sensors()
            self._ask_now.set()

    def _show_all_sensors(self) -> None:
        """Show the card with the sensors that were answered last: the stream has one of several."""
        with self._lock:
            if self._snapshot is not None and self._answered is not None:
                self._snapshot = _with_device_of(self._snapshot, self._answered, self._card_in(self._snapshot))
                self.known.put(self._snapshot)

    def close(self) -> None:
        """Stop; the threads end with the process, so nothing waits for them."""
        self._is_over = True
        self._ask_now.set()

    def _hear(self) -> None:
        while self._has_stream and not self._is_over:
            client = Client(self._address, self._credentials, LONGEST_SILENCE_SECONDS + PATIENCE_SECONDS)
            with contextlib.closing(client), self._told():
                self._listen(client)
            time.sleep(_RETRY_SECONDS)

    def _listen(self, client: Client) -> None:
        """Hear the stream until it ends. Raises NodeError and DocumentError."""
        columns, scales = KEPT, tuple[float, ...]()
        try:
            for name, data in client.events(_EVENTS):
                if self._is_over:
                    return
                document = document_in(data)
                if name == "state":
                    state = document_as(StateJson, document)
                    columns, scales = state.columns, state.scales
                if name == "readings":
                    self._take_numbers(document_as(ReadingsJson, document), columns, scales)
                elif name in ("state", "device"):
                    self._fetched = NEVER
                    self._ask_now.set()
        except NodeError as error:
            self._has_stream = error.status not in _WITHOUT_STREAM
            if self._has_stream:
                raise

    def _take_numbers(self, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]) -> None:
        with self._lock:
            before = self._snapshot
            if before is not None:
                newest = with_readings(before, reported, columns, scales)
                if (
                    self._focus.view is View.CARD
                ):  # it is asked for whole each second: the stream tells one sensor of several
                    newest = _with_device_of(newest, before, self._card_in(before))
                self._snapshot = newest
                self.known.put(newest)
        self._wake()

    def _ask(self) -> None:
        client = Client(self._address, self._credentials, PATIENCE_SECONDS)
        while not self._is_over:
            with self._told():
                self._fetch(client)
            self._ask_now.wait(_LOOK_SECONDS)
            self._ask_now.clear()
        client.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Show errors on the screen."""
        try:
            yield
        except NodeError as error:
            self._fetched = NEVER  # the next answer is complete
            self.known.fail(str(error))
            self._wake()
        except DocumentError as error:
            self.known.fail(f"{NOT_UNDERSTOOD}: {error}")
            self._wake()

    def _fetch(self, client: Client) -> None:
        """What is due: the whole snapshot, the card that is looked at, the slots that have ended."""
        now, focus = time.monotonic(), self._focus
        pause = _WHOLE_SECONDS.get(focus.view, _SELDOM_SECONDS) if self._has_stream else _WITHOUT_STREAM_SECONDS
        if now - self._fetched >= pause:
            self._fetched = now
            self._put(self._snapshot_at(client, SNAPSHOT))
        elif focus.view is View.CARD and self._snapshot is not None:
            self._fetch_card(client, self._card_in(self._snapshot))
        else:
            with self.known.asking():  # so that a daemon that hangs is named within a second or two
                client.get(HEALTH)
        if self._has_past and now - self._past_fetched >= SLOT_SECONDS:
            self._past_fetched = now
            self._fetch_past(client)

    def _card_in(self, snapshot: Snapshot) -> str:
        """The card that is looked at; the first where none was chosen."""
        return self._focus.card or next((one.id for one in snapshot.devices), "")

    def _fetch_card(self, client: Client, card: str) -> None:
        try:
            found = self._snapshot_at(client, f"{SNAPSHOT}?device={quote(card)}") if card else None
        except NodeError as error:
            if error.status != _NOT_FOUND:
                raise
            self._fetched = NEVER  # it is gone: ask for all
            return
        with self._lock:
            shown = self._snapshot
        if shown is not None and found is not None:
            self._put(_with_device_of(shown, found, card))

    def _fetch_past(self, client: Client) -> None:
        past = self._past
        since = "" if past is None else f"?since={past.start + past.slots * past.slot_seconds:.3f}"
        try:
            with self.known.asking():
                answer = client.get(f"{HISTORY}{since}")
        except NodeError as error:
            self._has_past = error.status != _NOT_FOUND  # an older daemon keeps none
            if self._has_past:
                raise
            return
        self._past = joined(past, past_of(document_in(answer.body)))
        self.known.put_past(self._past)

    def _snapshot_at(self, client: Client, target: str) -> Snapshot:
        with self.known.asking():
            answer = client.get(target)
        return snapshot_of(document_in(answer.body))

    def _put(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshot = self._answered = snapshot
            self.known.put(snapshot)
        self._wake()


def _with_device_of(snapshot: Snapshot, other: Snapshot, card: str) -> Snapshot:
    """The snapshot with that card as it is in the other one."""
    kept = {device.id: device for device in other.devices if device.id == card}
    return replace(snapshot, devices=tuple(kept.get(device.id, device) for device in snapshot.devices))


def with_readings(
    snapshot: Snapshot, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]
) -> Snapshot:
    """The snapshot with the newest numbers; as it was if the stream tells of other devices."""
    if len(reported.values) != len(snapshot.devices) or tuple(columns) != KEPT or len(scales) != len(KEPT):
        return snapshot
    devices = tuple(
        _with_row(device, row, scales) for device, row in zip(snapshot.devices, reported.values, strict=True)
    )
    now = snapshot.monotonic_time + reported.time - snapshot.wall_time
    return replace(
        snapshot,
        devices=devices,
        wall_time=reported.time,
        monotonic_time=now,
        valid_until=math.inf if reported.valid_seconds is None else now + reported.valid_seconds,
    )


def _with_row(device: MergedDevice, row: Sequence[float | None] | None, scales: Sequence[float]) -> MergedDevice:
    """Return the device with these numbers. Of several sensors that count as one, only the highest is reported."""
    readings = Readings.of(device.readings)
    given = (None,) * len(KEPT) if row is None else row
    values: list[Value] = list(readings.values)
    for places, value, scale in zip(kept_places(readings.shape), given, scales, strict=False):
        for place in places:
            before = values[place]
            values[place] = before if isinstance(before, Absent) else Absent.NOT_REPORTED
        if places and value is not None:
            values[places[0]] = value * scale
    return replace(device, readings=Readings(readings.shape, tuple(values), readings.origins))


_UNKNOWN = "not reported"


def joined(before: Past | None, after: Past) -> Past:
    """Both as one, the newest slots of them; the later one alone if they do not meet."""
    if before is None or before.slot_seconds != after.slot_seconds:
        return after
    offset = round((after.start - before.start) / before.slot_seconds)
    if not 0 <= offset <= before.slots:
        return after
    kept_from = max(0, offset + after.slots - SLOTS)
    ids = dict.fromkeys((*after.devices, *before.devices))
    devices = {
        one: _device(_cut(before, one, kept_from, offset), _cut(after, one, max(0, kept_from - offset), after.slots))
        for one in ids
    }
    events = [event for event in before.events if event not in after.events]
    return replace(
        after,
        start=before.start + kept_from * before.slot_seconds,
        slots=offset + after.slots - kept_from,
        devices=devices,
        events=(*events, *after.events)[-MOST_EVENTS:],
    )


_Part = tuple[int, Mapping[str, Series]]


def _cut(past: Past, device: str, first: int, end: int) -> _Part:
    """A device's slots from `first` up to `end`, and how many these are."""
    series = past.devices.get(device, {})
    return max(0, end - first), {metric: _slice(one, first, max(first, end)) for metric, one in series.items()}


def _slice(series: Series, first: int, end: int) -> Series:
    gaps = (
        Gap(max(gap.first, first) - first, min(gap.first + gap.slots, end) - max(gap.first, first), gap.reason)
        for gap in series.gaps
    )
    return Series(series.last[first:end], series.highest[first:end], tuple(gap for gap in gaps if gap.slots > 0))


def _device(*parts: _Part) -> Mapping[str, Series]:
    """The parts of each metric, one after the other."""
    reported = {metric for _, series in parts for metric in series}
    return {
        metric: _one([(slots, series.get(metric)) for slots, series in parts]) for metric in KEPT if metric in reported
    }


def _one(parts: Sequence[tuple[int, Series | None]]) -> Series:
    last, highest, gaps = array("f"), array("f"), list[Gap]()
    for slots, series in parts:
        begin = len(last)
        last += series.last if series is not None else array("f", [math.nan]) * slots
        highest += series.highest if series is not None else array("f", [math.nan]) * slots
        found = series.gaps if series is not None else (Gap(0, slots, _UNKNOWN),) if slots else ()
        gaps += [replace(gap, first=gap.first + begin) for gap in found]
    return Series(last, highest, tuple(_merged(gaps)))


def _merged(gaps: Sequence[Gap]) -> Iterator[Gap]:
    """Gaps that follow each other for the same reason as one."""
    open_gap: Gap | None = None
    for gap in gaps:
        if open_gap is not None and (open_gap.first + open_gap.slots, open_gap.reason) == (gap.first, gap.reason):
            open_gap = replace(open_gap, slots=open_gap.slots + gap.slots)
            continue
        if open_gap is not None:
            yield open_gap
        open_gap = gap
    if open_gap is not None:
        yield open_gap
