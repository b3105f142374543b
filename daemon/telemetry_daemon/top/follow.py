"""Follows one daemon: the newest numbers each second from its stream, and complete snapshots less often."""

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
from telemetry_daemon.top.feed import LONGEST_SILENCE_SECONDS, NOT_UNDERSTOOD, PATIENCE_SECONDS, Feed, Focus, Latest
from telemetry_exporters.documents.stream_json import ReadingsJson, StateJson
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value
from telemetry_parsers.past import KEPT, MOST_EVENTS, SLOT_SECONDS, SLOTS, Gap, Past, Series, kept_positions
from telemetry_parsers.readings import Readings

SNAPSHOT, HISTORY, _EVENTS, HEALTH = "/api/v1/snapshot", "/api/v1/history", "/api/v1/events", "/healthz"
NEVER = -math.inf
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 2.0
# The stream has no fans and no processes: complete snapshots are requested at this interval, or more often while visible.
_SELDOM_SECONDS = 15.0
_WHOLE_SECONDS = {View.PROCESSES: 10.0, View.SOURCES: 2.0}
_WITHOUT_STREAM_SECONDS = 2.0
_NOT_FOUND = 404
# An older daemon has no stream, and a busy daemon (503) accepts no more clients of its stream.
_WITHOUT_STREAM = frozenset({_NOT_FOUND, 503})


class Follower(Feed):
    """Follows a daemon: one thread reads its stream, another thread requests the readings that the stream omits."""

    def __init__(self, title: str, name: str, address: Address, credentials: Credentials) -> None:
        self.title = title
        self.latest = Latest(name, time.monotonic)
        self._address = address
        self._credentials = credentials
        self._is_over = False
        self._request_now = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._focus = Focus()
        self._snapshot: Snapshot | None = None
        # The last complete snapshot, without the later numbers of the stream.
        self._complete: Snapshot | None = None
        self._past: Past | None = None
        self._fetched = self._past_fetched = NEVER
        self._has_stream = self._has_past = True

    def start(self, wake: Callable[[], None]) -> None:
        """Start both threads."""
        self._wake = wake
        for name, target in (("requests", self._request), ("stream", self._read_stream)):
            threading.Thread(target=target, name=name, daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the state of the node."""
        return (self.latest.state(),)

    def look_at(self, focus: Focus) -> None:
        """Request the visible part of the state at once, and then each second."""
        if focus != self._focus:
            self._focus = focus
            if focus.view is View.CARD:
                self._show_all_sensors()
            self._request_now.set()

    def _show_all_sensors(self) -> None:
        """Show all sensors of the card from the last complete snapshot: the stream reports only the highest of several."""
        with self._lock:
            if self._snapshot is not None and self._complete is not None:
                self._snapshot = _with_device_of(self._snapshot, self._complete, self._card_in(self._snapshot))
                self.latest.put(self._snapshot)

    def close(self) -> None:
        """Stop without waiting for the threads, which end with the process."""
        self._is_over = True
        self._request_now.set()

    def _read_stream(self) -> None:
        while self._has_stream and not self._is_over:
            client = Client(self._address, self._credentials, LONGEST_SILENCE_SECONDS + PATIENCE_SECONDS)
            with contextlib.closing(client), self._errors_shown():
                self._listen(client)
            time.sleep(_RETRY_SECONDS)

    def _listen(self, client: Client) -> None:
        """Read the stream until it ends. Raises NodeError and DocumentError."""
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
                    self._use_numbers(document_as(ReadingsJson, document), columns, scales)
                elif name in ("state", "device"):
                    self._fetched = NEVER
                    self._request_now.set()
        except NodeError as error:
            self._has_stream = error.status not in _WITHOUT_STREAM
            if self._has_stream:
                raise

    def _use_numbers(self, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]) -> None:
        with self._lock:
            before = self._snapshot
            if before is not None:
                newest = with_readings(before, reported, columns, scales)
                if self._focus.view is View.CARD:  # requested each second with all sensors
                    newest = _with_device_of(newest, before, self._card_in(before))
                self._snapshot = newest
                self.latest.put(newest)
        self._wake()

    def _request(self) -> None:
        client = Client(self._address, self._credentials, PATIENCE_SECONDS)
        while not self._is_over:
            with self._errors_shown():
                self._fetch(client)
            self._request_now.wait(_LOOK_SECONDS)
            self._request_now.clear()
        client.close()

    @contextlib.contextmanager
    def _errors_shown(self) -> Iterator[None]:
        """Show errors on the screen."""
        try:
            yield
        except NodeError as error:
            self._fetched = NEVER  # the next answer is complete
            self.latest.fail(str(error))
            self._wake()
        except DocumentError as error:
            self.latest.fail(f"{NOT_UNDERSTOOD}: {error}")
            self._wake()

    def _fetch(self, client: Client) -> None:
        """Request what is due: the complete snapshot, the visible card, or a sign of life, and the completed history slots."""
        now, focus = time.monotonic(), self._focus
        pause = _WHOLE_SECONDS.get(focus.view, _SELDOM_SECONDS) if self._has_stream else _WITHOUT_STREAM_SECONDS
        if now - self._fetched >= pause:
            self._fetched = now
            self._put(self._snapshot_at(client, SNAPSHOT))
        elif focus.view is View.CARD and self._snapshot is not None:
            self._fetch_card(client, self._card_in(self._snapshot))
        else:
            with self.latest.waiting():  # so that the screen shows a hanging daemon within two seconds
                client.get(HEALTH)
        if self._has_past and now - self._past_fetched >= SLOT_SECONDS:
            self._past_fetched = now
            self._fetch_past(client)

    def _card_in(self, snapshot: Snapshot) -> str:
        """Return the id of the visible card: the chosen card, else the first."""
        return self._focus.card or next((device.id for device in snapshot.devices), "")

    def _fetch_card(self, client: Client, card: str) -> None:
        try:
            found = self._snapshot_at(client, f"{SNAPSHOT}?device={quote(card)}") if card else None
        except NodeError as error:
            if error.status != _NOT_FOUND:
                raise
            self._fetched = NEVER  # the card is gone, so request a complete snapshot
            return
        with self._lock:
            shown = self._snapshot
        if shown is not None and found is not None:
            self._put(_with_device_of(shown, found, card))

    def _fetch_past(self, client: Client) -> None:
        past = self._past
        since = "" if past is None else f"?since={past.start + past.slots * past.slot_seconds:.3f}"
        try:
            with self.latest.waiting():
                answer = client.get(f"{HISTORY}{since}")
        except NodeError as error:
            self._has_past = error.status != _NOT_FOUND  # an older daemon keeps no history
            if self._has_past:
                raise
            return
        self._past = joined(past, past_of(document_in(answer.body)))
        self.latest.put_past(self._past)

    def _snapshot_at(self, client: Client, target: str) -> Snapshot:
        with self.latest.waiting():
            answer = client.get(target)
        return snapshot_of(document_in(answer.body))

    def _put(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshot = self._complete = snapshot
            self.latest.put(snapshot)
        self._wake()


def _with_device_of(snapshot: Snapshot, other: Snapshot, card: str) -> Snapshot:
    """Return `snapshot` with this card as in `other`."""
    kept = {device.id: device for device in other.devices if device.id == card}
    return replace(snapshot, devices=tuple(kept.get(device.id, device) for device in snapshot.devices))


def with_readings(
    snapshot: Snapshot, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]
) -> Snapshot:
    """Return the snapshot with the newest numbers, or unchanged if the stream reports other devices."""
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
    for positions, value, scale in zip(kept_positions(readings.shape), given, scales, strict=False):
        for position in positions:
            before = values[position]
            values[position] = before if isinstance(before, Absent) else Absent.NOT_REPORTED
        if positions and value is not None:
            values[positions[0]] = value * scale
    return replace(device, readings=Readings(readings.shape, tuple(values), readings.origins))


_UNKNOWN = "not reported"


def joined(before: Past | None, after: Past) -> Past:
    """Return the newest slots of both histories, or only the later history if there is a gap between the two."""
    if before is None or before.slot_seconds != after.slot_seconds:
        return after
    offset = round((after.start - before.start) / before.slot_seconds)
    if not 0 <= offset <= before.slots:
        return after
    kept_from = max(0, offset + after.slots - SLOTS)
    ids = dict.fromkeys((*after.devices, *before.devices))
    devices = {
        key: _device(_cut(before, key, kept_from, offset), _cut(after, key, max(0, kept_from - offset), after.slots))
        for key in ids
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
    """Return the number of slots from `first` up to `end`, and the device's series cut to them."""
    series = past.devices.get(device, {})
    return max(0, end - first), {metric: _slice(kept, first, max(first, end)) for metric, kept in series.items()}


def _slice(series: Series, first: int, end: int) -> Series:
    gaps = (
        Gap(max(gap.first, first) - first, min(gap.first + gap.slots, end) - max(gap.first, first), gap.reason)
        for gap in series.gaps
    )
    return Series(series.last[first:end], series.highest[first:end], tuple(gap for gap in gaps if gap.slots > 0))


def _device(*parts: _Part) -> Mapping[str, Series]:
    """Return the series of each metric, concatenated from the parts."""
    present = {metric for _, series in parts for metric in series}
    return {
        metric: _join([(slots, series.get(metric)) for slots, series in parts]) for metric in KEPT if metric in present
    }


def _join(parts: Sequence[tuple[int, Series | None]]) -> Series:
    last, highest, gaps = array("f"), array("f"), list[Gap]()
    for slots, series in parts:
        begin = len(last)
        last += series.last if series is not None else array("f", [math.nan]) * slots
        highest += series.highest if series is not None else array("f", [math.nan]) * slots
        found = series.gaps if series is not None else (Gap(0, slots, _UNKNOWN),) if slots else ()
        gaps += [replace(gap, first=gap.first + begin) for gap in found]
    return Series(last, highest, tuple(_merged(gaps)))


def _merged(gaps: Sequence[Gap]) -> Iterator[Gap]:
    """Yield the gaps. Adjacent gaps with the same reason are merged."""
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
