"""One daemon that is followed: its whole snapshot now and then, its newest numbers each second as its stream tells them."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from telemetry_daemon.nodes.address import Address
from telemetry_daemon.nodes.client import Client, Credentials, NodeError
from telemetry_daemon.nodes.document import past_of, snapshot_of
from telemetry_daemon.nodes.plain import DocumentError, number, rows, table
from telemetry_daemon.top.feed import (
    LONGEST_BACKOFF_SECONDS,
    LONGEST_SILENCE_SECONDS,
    PATIENCE_SECONDS,
    SHORTEST_BACKOFF_SECONDS,
    Known,
)
from telemetry_daemon.top.pasts import joined
from telemetry_exporters.frames.model import NodeState
from telemetry_exporters.past import KEPT, SLOT_SECONDS, Past, kept_places
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value
from telemetry_parsers.readings import Readings

_MOST_ROWS = 4096


class Follower:
    """Follows a daemon on a thread of its own; a second connection fetches what the stream does not tell."""

    def __init__(self, title: str, name: str, address: Address, credentials: Credentials) -> None:
        self.title = title
        self._address = address
        self._credentials = credentials
        self._known = Known(name, time.monotonic)
        self._is_over = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._snapshot: Snapshot | None = None
        self._past: Past | None = None
        self._fetched = -math.inf
        self._columns: Sequence[str] = KEPT
        self._scales: Sequence[float] = ()

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to follow."""
        self._wake = wake
        threading.Thread(target=self._run, name="follow", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """The one node."""
        return (self._known.state(),)

    def look_at(self, node: str) -> None:
        """There is no other node."""

    def close(self) -> None:
        """Stop; the thread ends with the process, so nothing waits for it."""
        self._is_over.set()

    def _run(self) -> None:
        pause = SHORTEST_BACKOFF_SECONDS
        while not self._is_over.is_set():
            begun = time.monotonic()
            try:
                self._follow()
            except (NodeError, DocumentError) as error:
                self._known.fail(str(error))
            self._wake()
            pause = SHORTEST_BACKOFF_SECONDS if time.monotonic() - begun > LONGEST_BACKOFF_SECONDS else pause * 2
            self._is_over.wait(min(pause, LONGEST_BACKOFF_SECONDS))

    def _follow(self) -> None:
        """Follow until something fails. Raises NodeError and DocumentError."""
        asking = Client(self._address, self._credentials, PATIENCE_SECONDS)
        listening = Client(self._address, self._credentials, LONGEST_SILENCE_SECONDS + PATIENCE_SECONDS)
        try:
            self._fetch(asking)
            for name, data in listening.events("/api/v1/events"):
                if self._is_over.is_set():
                    return
                self._hear(name, _parsed(data), asking)
                self._wake()
        finally:
            asking.close()
            listening.close()

    def _hear(self, name: str, told: Mapping[str, Any], asking: Client) -> None:
        if name == "state":
            self._columns = [str(column) for column in rows(told.get("columns"), "columns", _MOST_ROWS)]
            self._scales = [number(scale, "scales") for scale in rows(told.get("scales"), "scales", _MOST_ROWS)]
        if name != "readings" or self._snapshot is None or time.monotonic() - self._fetched >= SLOT_SECONDS:
            self._fetch(asking)
        if name == "readings" and self._snapshot is not None:
            self._snapshot = with_readings(self._snapshot, told, self._columns, self._scales)
            self._known.put(self._snapshot, self._past)

    def _fetch(self, asking: Client) -> None:
        """The whole snapshot, and the slots that have ended since."""
        self._snapshot = snapshot_of(_parsed(asking.get("/api/v1/snapshot").body))
        since = (
            "" if self._past is None else f"?since={self._past.start + self._past.slots * self._past.slot_seconds:.3f}"
        )
        try:
            self._past = joined(self._past, past_of(_parsed(asking.get(f"/api/v1/history{since}").body)))
        except NodeError:  # an older daemon keeps none
            self._past = None
        self._fetched = time.monotonic()
        self._known.put(self._snapshot, self._past)


def with_readings(
    snapshot: Snapshot, told: Mapping[str, Any], columns: Sequence[str], scales: Sequence[float]
) -> Snapshot:
    """The snapshot with the newest numbers; as it was if the stream tells of other devices."""
    values = rows(told.get("values"), "values", _MOST_ROWS)
    if len(values) != len(snapshot.devices) or list(columns) != list(KEPT) or len(scales) != len(KEPT):
        return snapshot
    devices = tuple(_with_row(device, row, scales) for device, row in zip(snapshot.devices, values, strict=True))
    return replace(snapshot, devices=devices, wall_time=number(told.get("time"), "time"))


def _with_row(device: MergedDevice, row: object, scales: Sequence[float]) -> MergedDevice:
    """The device with these numbers in place of its own; where several readings count as one, theirs stay."""
    readings = Readings.of(device.readings)
    given = [None] * len(KEPT) if row is None else rows(row, "a row of values", len(KEPT))
    values: list[Value] = list(readings.values)
    for places, value, scale in zip(kept_places(readings.shape), given, scales, strict=False):
        if len(places) == 1:
            before = values[places[0]]
            absent = before if isinstance(before, Absent) else Absent.NOT_REPORTED
            values[places[0]] = absent if value is None else number(value, "a value") * scale
    return replace(device, readings=Readings(readings.shape, tuple(values), readings.origins))


def _parsed(data: str | bytes) -> Mapping[str, Any]:
    try:
        return table(json.loads(data), "the answer")
    except (ValueError, RecursionError) as error:
        raise DocumentError("the answer", "JSON") from error
