"""The CSV table: a row for each reading, including absent readings."""

import csv
import io

from hypothesis import given, settings

from kits import snapshots as kit
from telemetry_exporters.documents.snapshot_csv import COLUMNS, processes, render
from telemetry_exporters.snapshot_filter import clean_snapshot
from telemetry_exporters.text import clean
from telemetry_parsers.model import Absent


@given(kit.snapshots())
@settings(max_examples=20)
def test_every_reading_is_read_back(snapshot):
    shown = clean_snapshot(snapshot)
    rows = list(csv.DictReader(io.StringIO(render(snapshot), newline="")))
    assert all(tuple(row) == COLUMNS for row in rows)
    readings = [*shown.host, *(reading for device in shown.devices for reading in device.readings)]
    cells = [
        (row["metric"], row["label"], row["reason"] or float(row["value"]), row["source"])
        for row in rows
        if row["metric"] != "up"
    ]
    assert cells == [
        (
            reading.metric,
            reading.label,
            reading.value.value if isinstance(reading.value, Absent) else reading.value,
            reading.source,
        )
        for reading in readings
    ]


@given(snapshot=kit.snapshots())
@settings(max_examples=15)
def test_each_process_is_a_whole_row_for_any_snapshot(snapshot):
    lines = {process.pid: "\x1b[2J\r\n" for device in snapshot.devices for process in device.processes}
    heading, *rows = csv.reader(io.StringIO(processes(snapshot, lines)))
    assert len(rows) == sum(len(device.processes) for device in clean_snapshot(snapshot).devices)
    assert all(len(row) == len(heading) and clean("".join(row)) == "".join(row) for row in rows)
