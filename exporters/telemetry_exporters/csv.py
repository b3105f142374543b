"""One row per reading, for spreadsheets and scripts (RFC 4180); an absent reading is a row with its reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from telemetry_exporters.json import plain_number, utc_time
from telemetry_exporters.screen import NO_METRICS, screen
from telemetry_parsers.model import Absent, MergedReading, Metric, Snapshot

COLUMNS = ("time", "hostname", "vendor", "device", "id", "model", "metric", "label", "value", "reason", "source")

_Row = tuple[str, ...]
_HOST = ("", "", "", "")


def render(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS) -> str:
    """The whole table with its heading; lines end as RFC 4180 wants them."""
    shown = screen(snapshot, extra).snapshot
    moment = (utc_time(shown.wall_time), shown.hostname)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows((*moment, *row) for row in _rows(shown))
    return text.getvalue()


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
