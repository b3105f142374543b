"""The snapshot as CSV (RFC 4180), one row per reading; an absent reading is a row with its reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from telemetry_exporters.documents.json_values import moment_text, plain_number, utc_time
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, screen
from telemetry_exporters.text import clean
from telemetry_parsers.model import Absent, MergedReading, Snapshot

COLUMNS = ("time", "hostname", "vendor", "device", "id", "model", "metric", "label", "value", "reason", "source")

_OF_PROCESSES = (
    *("time", "hostname", "vendor", "device", "id", "pid", "name", "kind", "instance", "memory_used_bytes"),
    *("utilization_ratio", "started", "user", "command", "container", "owner_kind", "owner", "command_line"),
)

_Row = tuple[str, ...]
_HOST = ("", "", "", "")


def render(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS) -> str:
    """Return the table of readings with its heading."""
    shown = screen(snapshot, plugin_metrics)
    return _table(COLUMNS, shown, _rows(shown))


def processes(snapshot: Snapshot, command_lines: Mapping[int, str]) -> str:
    """Return the processes on the devices, a row each, with the known command lines by pid."""
    shown = screen(snapshot)
    return _table(_OF_PROCESSES, shown, _processes(shown, command_lines))


def _table(columns: _Row, shown: Snapshot, rows: Iterator[_Row]) -> str:
    moment = (utc_time(shown.wall_time), shown.hostname)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows((*moment, *row) for row in rows)
    return text.getvalue()


def _processes(shown: Snapshot, command_lines: Mapping[int, str]) -> Iterator[_Row]:
    for device in shown.devices:
        for item in device.processes:
            owner = ("", "") if item.owner is None else (item.owner.kind, item.owner.name)
            yield (
                *(device.vendor, device.device, device.id, str(item.pid), item.name, item.kind, item.instance),
                *(_number(item.memory_used_bytes), _number(item.utilization_ratio), moment_text(item.started) or ""),
                *(item.user, item.command, item.container, *owner, clean(command_lines.get(item.pid, ""))),
            )


def _number(value: float | None) -> str:
    return "" if value is None else plain_number(value + 0.0)


def _rows(snapshot: Snapshot) -> Iterator[_Row]:
    for reading in snapshot.host:
        yield (*_HOST, *_cells(reading))
    for device in snapshot.devices:
        identity = (device.vendor, device.device, device.id, device.current_model or device.model)
        if device.up is not None:
            yield (*identity, "up", "", str(int(device.up)), "", "")
        for reading in device.readings:
            yield (*identity, *_cells(reading))


def _cells(reading: MergedReading) -> _Row:
    if isinstance(reading.value, Absent):
        return (reading.metric, reading.label, "", reading.value.value, reading.source)
    return (reading.metric, reading.label, plain_number(reading.value + 0.0), "", reading.source)
