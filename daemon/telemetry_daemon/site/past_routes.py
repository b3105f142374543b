"""`/api/v1/history`, and `/api/v1/snapshot?device=ID` for some devices only."""

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
    """Return the document of history in pieces, one for each device, made on demand. Raises BadQueryError at once."""
    parameters = _parameters(query)
    ids = _ids(parameters.get("device"), snapshot, history.ids())
    metrics = _metrics(parameters.get("metric"))
    window = history.past((), (), _first(parameters.get("since"), history))
    if "device" in parameters:
        window = replace(window, events=tuple(event for event in window.events if event.id in ids))
    end = window.first + window.slots
    devices = ((device_id, history.past((device_id,), metrics, window.first, end)) for device_id in ids)
    texts = history_json.pieces(snapshot.hostname, snapshot.wall_time, window, devices)
    return (text.encode() for text in texts)


def snapshot_of_devices(snapshot: Snapshot, query: str, extra: Mapping[str, Metric]) -> bytes:
    """Return the document with the query's devices. Other parameters are ignored, as before. Raises BadQueryError."""
    named = parse_qs(query, keep_blank_values=True).get("device")
    return snapshot_json.render(
        snapshot, extra, None if named is None else frozenset(_ids(named, snapshot, ()))
    ).encode()


def _parameters(query: str) -> Mapping[str, list[str]]:
    parameters = parse_qs(query, keep_blank_values=True)
    for name in parameters:
        if name not in _PARAMETERS:
            raise BadQueryError(400, f"unknown parameter {quoted(name)}; the parameters are {', '.join(_PARAMETERS)}")
    return parameters


def _ids(wanted: Sequence[str] | None, snapshot: Snapshot, kept: Iterable[str]) -> list[str]:
    """Return the ids of the devices with these ids or `device` labels, or of all devices for None."""
    ids = dict.fromkeys((*(device.id for device in snapshot.devices), *kept))
    if wanted is None:
        return list(ids)
    named: dict[str, list[str]] = {device_id: [device_id] for device_id in ids}
    for device in snapshot.devices:
        named.setdefault(device.device, []).append(device.id)
    for name in wanted:
        if name not in named:
            raise BadQueryError(404, f"no device is called {quoted(name)}; give an id or a `device` label of /metrics")
    return list(dict.fromkeys(device_id for name in wanted for device_id in named[name]))


def _metrics(wanted: Sequence[str] | None) -> Sequence[str]:
    for name in wanted or ():
        if name not in KEPT:
            raise BadQueryError(400, f"no history is kept of {quoted(name)}; it is kept of {', '.join(KEPT)}")
    return KEPT if wanted is None else wanted


def _first(since: Sequence[str] | None, history: History) -> int:
    """Return the first requested slot; 0 for all."""
    if since is None:
        return 0
    moment = _unix_seconds(since[-1])
    if moment is None:
        raise BadQueryError(
            400, f"`since` is {quoted(since[-1])}; give Unix seconds, or a time as 2026-01-01T00:00:00Z"
        )
    return history.slot_of_time(moment)


def _unix_seconds(text: str) -> float | None:
    try:
        return number if math.isfinite(number := float(text)) else None
    except ValueError:  # not a number, perhaps a date
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    except ValueError:  # neither
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
