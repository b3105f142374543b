"""Follows one daemon through its stream and its complete snapshots."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from telemetry_daemon.remote.foreign_documents import DocumentError, parse_document, read_as, to_history, to_snapshot
from telemetry_daemon.remote.http_client import Address, Client, Credentials, NodeError
from telemetry_daemon.top.feed import INVALID_RESPONSE, REQUEST_TIMEOUT_SECONDS, Feed, Focus, LatestState
from telemetry_exporters.documents.stream_json import ReadingsJson, StateJson
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value
from telemetry_parsers.past import KEPT, MAX_EVENTS, SLOT_SECONDS, SLOTS, Gap, Past, Series, kept_positions
from telemetry_parsers.readings import Readings

SNAPSHOT_PATH, _HISTORY_PATH = "/api/v1/snapshot", "/api/v1/history"
_EVENTS_PATH, _HEALTH_PATH = "/api/v1/events", "/healthz"
_HEARTBEAT_SECONDS = 15.0  # the daemon's maximum interval between events
NEVER = -math.inf
_POLL_SECONDS = 1.0
_RETRY_SECONDS = 2.0
_NOT_REPORTED = "not reported"
# The stream has no fans or processes, so complete snapshots are requested at these intervals, in seconds.
_DEFAULT_INTERVAL = 15.0
_INTERVAL_BY_VIEW = {View.PROCESSES: 10.0, View.SOURCES: 2.0}
_INTERVAL_WITHOUT_STREAM = 2.0
_NOT_FOUND = 404
# An older daemon has no stream (404), and a busy daemon refuses further clients (503).
_NO_STREAM_STATUSES = frozenset({_NOT_FOUND, 503})


class Follower(Feed):
    """Follows a daemon with one thread for its stream and one for requests."""

    def __init__(self, title: str, name: str, address: Address, credentials: Credentials) -> None:
        self.title = title
        self.latest = LatestState(name, time.monotonic)
        self._address = address
        self._credentials = credentials
        self._is_closed = False
        self._wake_requests = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._focus = Focus()
        self._snapshot: Snapshot | None = None
        self._complete_snapshot: Snapshot | None = None  # without later numbers from the stream
        self._past: Past | None = None
        self._fetched_at = self._past_fetched_at = NEVER
        self._has_stream = self._has_past = True

    def start(self, wake: Callable[[], None]) -> None:
        """Start both threads."""
        self._wake = wake
        for name, target in (("requests", self._poll_daemon), ("stream", self._read_stream)):
            threading.Thread(target=target, name=name, daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the state of the only node."""
        return (self.latest.state(),)

    def set_focus(self, focus: Focus) -> None:
        """Set what the screen shows. The visible data are requested at once, and a visible card every second."""
        if focus != self._focus:
            self._focus = focus
            if focus.view is View.CARD:
                self._show_all_sensors()
            self._wake_requests.set()

    def _show_all_sensors(self) -> None:
        with self._lock:
            if self._snapshot is not None and self._complete_snapshot is not None:
                device_id = self._visible_id(self._snapshot)
                self._snapshot = _replace_device(self._snapshot, self._complete_snapshot, device_id)
                self.latest.put_snapshot(self._snapshot)

    def close(self) -> None:
        """Stop without waiting for the threads, which end with the process."""
        self._is_closed = True
        self._wake_requests.set()

    def _read_stream(self) -> None:
        while self._has_stream and not self._is_closed:
            client = Client(self._address, self._credentials, _HEARTBEAT_SECONDS + REQUEST_TIMEOUT_SECONDS)
            with contextlib.closing(client), self._showing_errors():
                self._read_events(client)
            time.sleep(_RETRY_SECONDS)  # a daemon that is down must not be asked without a pause

    def _read_events(self, client: Client) -> None:
        columns, scales = KEPT, tuple[float, ...]()
        try:
            for name, data in client.events(_EVENTS_PATH):
                if self._is_closed:
                    return
                document = parse_document(data)
                if name == "state":
                    state = read_as(StateJson, document)
                    columns, scales = state.columns, state.scales
                if name == "readings":
                    self._apply_numbers(read_as(ReadingsJson, document), columns, scales)
                elif name in ("state", "device"):
                    self._fetched_at = NEVER
                    self._wake_requests.set()
        except NodeError as error:
            self._has_stream = error.status not in _NO_STREAM_STATUSES
            if self._has_stream:
                raise

    def _apply_numbers(self, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]) -> None:
        with self._lock:
            previous = self._snapshot
            if previous is not None:
                updated = with_readings(previous, reported, columns, scales)
                if self._focus.view is View.CARD:  # a separate request updates this card every second
                    updated = _replace_device(updated, previous, self._visible_id(previous))
                self._snapshot = updated
                self.latest.put_snapshot(updated)
        self._wake()

    def _poll_daemon(self) -> None:
        client = Client(self._address, self._credentials, REQUEST_TIMEOUT_SECONDS)
        while not self._is_closed:
            with self._showing_errors():
                self._send_due_requests(client)
            self._wake_requests.wait(_POLL_SECONDS)
            self._wake_requests.clear()
        client.close()

    @contextlib.contextmanager
    def _showing_errors(self) -> Iterator[None]:
        """Show errors in the `with` block on the screen instead of raising them."""
        try:
            yield
        except NodeError as error:
            self._fetched_at = NEVER  # request a complete snapshot next
            self.latest.put_trouble(str(error))
            self._wake()
        except DocumentError as error:
            self.latest.put_trouble(f"{INVALID_RESPONSE}: {error}")
            self._wake()

    def _send_due_requests(self, client: Client) -> None:
        now, focus = time.monotonic(), self._focus
        pause = _INTERVAL_BY_VIEW.get(focus.view, _DEFAULT_INTERVAL) if self._has_stream else _INTERVAL_WITHOUT_STREAM
        if now - self._fetched_at >= pause:
            self._fetched_at = now
            self._set_snapshot(self._fetch_snapshot(client, SNAPSHOT_PATH))
        elif focus.view is View.CARD and self._snapshot is not None:
            self._fetch_card(client, self._visible_id(self._snapshot))
        else:
            with self.latest.showing_delay():  # this request only serves to notice a hung daemon within two seconds
                client.get(_HEALTH_PATH)
        if self._has_past and now - self._past_fetched_at >= SLOT_SECONDS:
            self._past_fetched_at = now
            self._fetch_past(client)

    def _visible_id(self, snapshot: Snapshot) -> str:
        return self._focus.card or next((device.id for device in snapshot.devices), "")

    def _fetch_card(self, client: Client, device_id: str) -> None:
        try:
            received = self._fetch_snapshot(client, f"{SNAPSHOT_PATH}?device={quote(device_id)}") if device_id else None
        except NodeError as error:
            if error.status != _NOT_FOUND:
                raise
            self._fetched_at = NEVER  # the card is missing now, so request a complete snapshot next
            return
        with self._lock:
            current = self._snapshot
        if current is not None and received is not None:
            self._set_snapshot(_replace_device(current, received, device_id))

    def _fetch_past(self, client: Client) -> None:
        past = self._past
        since = "" if past is None else f"?since={past.start + past.slots * past.slot_seconds:.3f}"
        try:
            with self.latest.showing_delay():
                response = client.get(f"{_HISTORY_PATH}{since}")
        except NodeError as error:
            self._has_past = error.status != _NOT_FOUND  # an older daemon has no history
            if self._has_past:
                raise
            return
        self._past = join_histories(past, to_history(parse_document(response.body)))
        self.latest.put_past(self._past)

    def _fetch_snapshot(self, client: Client, target: str) -> Snapshot:
        with self.latest.showing_delay():
            response = client.get(target)
        return to_snapshot(parse_document(response.body))

    def _set_snapshot(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshot = self._complete_snapshot = snapshot
            self.latest.put_snapshot(snapshot)
        self._wake()


def _replace_device(snapshot: Snapshot, other: Snapshot, device_id: str) -> Snapshot:
    devices_by_id = {device.id: device for device in other.devices if device.id == device_id}
    return replace(snapshot, devices=tuple(devices_by_id.get(device.id, device) for device in snapshot.devices))


def with_readings(
    snapshot: Snapshot, reported: ReadingsJson, columns: Sequence[str], scales: Sequence[float]
) -> Snapshot:
    """Return the snapshot with the numbers of a stream event, or unchanged if the numbers do not match the snapshot."""
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
    """Return the device with the values of a row. A value that is missing in the row becomes absent."""
    readings = Readings.of(device.readings)
    row_values = (None,) * len(KEPT) if row is None else row
    values: list[Value] = list(readings.values)
    for positions, value, scale in zip(kept_positions(readings.shape), row_values, scales, strict=False):
        for position in positions:
            previous = values[position]
            values[position] = previous if isinstance(previous, Absent) else Absent.NOT_REPORTED
        if positions and value is not None:
            values[positions[0]] = value * scale
    return replace(device, readings=Readings(readings.shape, tuple(values), readings.origins))


def join_histories(earlier: Past | None, later: Past) -> Past:
    """Join two histories. If there is a gap between them, return only the later one."""
    if earlier is None or earlier.slot_seconds != later.slot_seconds:
        return later
    offset = round((later.start - earlier.start) / earlier.slot_seconds)
    if not 0 <= offset <= earlier.slots:
        return later
    first_slot = max(0, offset + later.slots - SLOTS)
    first_new_slot = max(0, first_slot - offset)
    ids = dict.fromkeys((*later.devices, *earlier.devices))
    devices = {
        key: _join_slices(_slice(earlier, key, first_slot, offset), _slice(later, key, first_new_slot, later.slots))
        for key in ids
    }
    events = [event for event in earlier.events if event not in later.events]
    return replace(
        later,
        start=earlier.start + first_slot * earlier.slot_seconds,
        slots=offset + later.slots - first_slot,
        devices=devices,
        events=(*events, *later.events)[-MAX_EVENTS:],
    )


_DeviceSlice = tuple[int, Mapping[str, Series]]


def _slice(past: Past, device: str, first: int, end: int) -> _DeviceSlice:
    """Return the number of slots from `first` to `end`, and the part of the device's series in these slots."""
    series = past.devices.get(device, {})
    return max(0, end - first), {key: _series_slice(item, first, max(first, end)) for key, item in series.items()}


def _series_slice(series: Series, first: int, end: int) -> Series:
    gaps = (
        Gap(max(gap.first, first) - first, min(gap.first + gap.slots, end) - max(gap.first, first), gap.reason)
        for gap in series.gaps
    )
    return Series(series.last[first:end], series.highest[first:end], tuple(gap for gap in gaps if gap.slots > 0))


def _join_slices(*parts: _DeviceSlice) -> Mapping[str, Series]:
    present = {metric for _, series in parts for metric in series}
    return {key: _concatenate([(slots, series.get(key)) for slots, series in parts]) for key in KEPT if key in present}


def _concatenate(parts: Sequence[tuple[int, Series | None]]) -> Series:
    last, highest, gaps = array("f"), array("f"), list[Gap]()
    for slots, series in parts:
        offset = len(last)
        last += series.last if series is not None else array("f", [math.nan]) * slots
        highest += series.highest if series is not None else array("f", [math.nan]) * slots
        part_gaps = series.gaps if series is not None else (Gap(0, slots, _NOT_REPORTED),) if slots else ()
        gaps += [replace(gap, first=gap.first + offset) for gap in part_gaps]
    return Series(last, highest, tuple(_merge_adjacent(gaps)))


def _merge_adjacent(gaps: Sequence[Gap]) -> Iterator[Gap]:
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
