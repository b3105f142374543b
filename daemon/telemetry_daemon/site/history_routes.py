"""The responses for `/api/v1/history` and for `/api/v1/snapshot?device=ID`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from urllib.parse import parse_qs

from telemetry_daemon.site.negotiation import BadQueryError, quoted
from telemetry_daemon.state.history import History
from telemetry_exporters.documents import history_json, snapshot_json
from telemetry_parsers.model import Metric, Snapshot
from telemetry_parsers.past import KEPT

_PARAMETERS = ("device", "metric", "since")


def history_pieces(history: History, snapshot: Snapshot, query: str) -> Iterator[bytes]:
    """Return the pieces of the history document, one for each device. Raise BadQueryError if the query is invalid."""
    parameters = _parse_parameters(query)
    ids = _select_device_ids(parameters.get("device"), snapshot, history.ids())
    metrics = _select_metrics(parameters.get("metric"))
    window = history.past((), (), _first_slot(parameters.get("since"), history))
    if "device" in parameters:
        window = replace(window, events=tuple(event for event in window.events if event.id in ids))
    end = window.first + window.slots
    devices = ((device_id, history.past((device_id,), metrics, window.first, end)) for device_id in ids)
    texts = history_json.json_pieces(snapshot.hostname, snapshot.wall_time, window, devices)
    return (text.encode() for text in texts)


def selected_snapshot(snapshot: Snapshot, query: str, plugin_metrics: Mapping[str, Metric]) -> bytes:
    """Return the snapshot document of the requested devices. Raise BadQueryError if a device is unknown."""
    requested = parse_qs(query, keep_blank_values=True).get("device")
    ids = None if requested is None else frozenset(_select_device_ids(requested, snapshot, ()))
    return snapshot_json.render(snapshot, plugin_metrics, ids).encode()


def _parse_parameters(query: str) -> Mapping[str, list[str]]:
    parameters = parse_qs(query, keep_blank_values=True)
    for name in parameters:
        if name not in _PARAMETERS:
            raise BadQueryError(400, f"unknown parameter {quoted(name)}; valid parameters: {', '.join(_PARAMETERS)}")
    return parameters


def _select_device_ids(requested: Sequence[str] | None, snapshot: Snapshot, history_ids: Iterable[str]) -> list[str]:
    ids = dict.fromkeys((*(device.id for device in snapshot.devices), *history_ids))
    if requested is None:
        return list(ids)
    ids_by_name: dict[str, list[str]] = {device_id: [device_id] for device_id in ids}
    for device in snapshot.devices:
        ids_by_name.setdefault(device.device, []).append(device.id)
    for name in requested:
        if name not in ids_by_name:
            raise BadQueryError(404, f"unknown device {quoted(name)}; use an id or a `device` label of /metrics")
    return list(dict.fromkeys(device_id for name in requested for device_id in ids_by_name[name]))


def _select_metrics(requested: Sequence[str] | None) -> Sequence[str]:
    for name in requested or ():
        if name not in KEPT:
            raise BadQueryError(400, f"{quoted(name)} has no history; metrics with a history: {', '.join(KEPT)}")
    return KEPT if requested is None else requested


def _first_slot(since: Sequence[str] | None, history: History) -> int | None:
    if since is None:
        return None
    time = _parse_unix_seconds(since[-1])
    if time is None:
        raise BadQueryError(
            400, f"invalid `since` {quoted(since[-1])}; use Unix seconds, or a time such as 2026-01-01T00:00:00Z"
        )
    return history.slot_number_at(time)


def _parse_unix_seconds(text: str) -> float | None:
    try:
        return number if math.isfinite(number := float(text)) else None
    except ValueError:  # the text may be a date
        pass
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    except ValueError:  # the text is not a date either
        return None
    return time.timestamp() if time.tzinfo is not None else None
