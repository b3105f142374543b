"""The snapshot as CSV (RFC 4180), with a row for each reading."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from telemetry_exporters.documents.json_values import plain_number, utc_time, utc_time_or_none
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, clean_snapshot
from telemetry_exporters.text import clean
from telemetry_parsers.model import Absent, MergedReading, Snapshot

COLUMNS = ("time", "hostname", "vendor", "device", "id", "model", "metric", "label", "value", "reason", "source")

_PROCESS_COLUMNS = (
    *("time", "hostname", "vendor", "device", "id", "pid", "name", "kind", "instance", "memory_used_bytes"),
    *("utilization_ratio", "started", "user", "command", "container", "owner_kind", "owner", "command_line"),
)

_Row = tuple[str, ...]
_HOST_IDENTITY = ("", "", "", "")


def render(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS) -> str:
    """Return the snapshot's readings as CSV with a header row."""
    snapshot = clean_snapshot(snapshot, plugin_metrics)
    return _csv_text(COLUMNS, snapshot, _reading_rows(snapshot))


def processes(snapshot: Snapshot, command_lines: Mapping[int, str]) -> str:
    """Return the processes on devices as CSV with a header row."""
    snapshot = clean_snapshot(snapshot)
    return _csv_text(_PROCESS_COLUMNS, snapshot, _process_rows(snapshot, command_lines))


def _csv_text(columns: _Row, snapshot: Snapshot, rows: Iterator[_Row]) -> str:
    time_and_host = (utc_time(snapshot.wall_time), snapshot.hostname)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows((*time_and_host, *row) for row in rows)
    return text.getvalue()


def _process_rows(snapshot: Snapshot, command_lines: Mapping[int, str]) -> Iterator[_Row]:
    for device in snapshot.devices:
        for process in device.processes:
            owner = ("", "") if process.owner is None else (process.owner.kind, process.owner.name)
            yield (
                *(device.vendor, device.device, device.id),
                *(str(process.pid), process.name, process.kind, process.instance),
                *(_number_text(process.memory_used_bytes), _number_text(process.utilization_ratio)),
                *(utc_time_or_none(process.started) or "", process.user, process.command, process.container),
                *(*owner, clean(command_lines.get(process.pid, ""))),
            )


def _number_text(value: float | None) -> str:
    return "" if value is None else plain_number(value + 0.0)


def _reading_rows(snapshot: Snapshot) -> Iterator[_Row]:
    for reading in snapshot.host:
        yield (*_HOST_IDENTITY, *_reading_cells(reading))
    for device in snapshot.devices:
        identity = (device.vendor, device.device, device.id, device.current_model or device.model)
        if device.up is not None:
            yield (*identity, "up", "", str(int(device.up)), "", "")
        for reading in device.readings:
            yield (*identity, *_reading_cells(reading))


def _reading_cells(reading: MergedReading) -> _Row:
    if isinstance(reading.value, Absent):
        return (reading.metric, reading.label, "", reading.value.value, reading.source)
    return (reading.metric, reading.label, plain_number(reading.value + 0.0), "", reading.source)
