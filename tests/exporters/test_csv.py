"""The CSV table: a row for each reading, also for each that could not be taken."""

from __future__ import annotations

import csv
import io

from hypothesis import given, settings

from kits import snapshots as kit
from telemetry_exporters.csv import COLUMNS, render
from telemetry_exporters.screen import screen
from telemetry_parsers.model import Absent, MergedReading

HEADING = "time,hostname,vendor,device,id,model,metric,label,value,reason,source"
STAMP = "2026-01-01T00:00:00.000Z,node17"


def test_the_table_in_full():
    snapshot = kit.snapshot(
        kit.device(
            0,
            kit.reading("power_watts", 80.0, source="hy-smi"),
            kit.reading("temperature_celsius", 41.5, "edge", source="hy-smi"),
            kit.reading("memory_used_ratio", 0.0000305, source="hy-smi"),
            kit.reading("fan_ratio", Absent.NOT_REPORTED, source="hy-smi"),
            vendor="hygon",
            model='K100, "AI"',
        ),
        kit.device(1, up=False),
        host=(MergedReading("telemetry_host_load1", "", 0.25, "host"),),
    )
    hygon = f'{STAMP},hygon,0,GPU-00000000,"K100, ""AI"""'
    assert render(snapshot).split("\r\n") == [
        HEADING,
        f"{STAMP},,,,,telemetry_host_load1,,0.25,,host",
        f"{hygon},up,,1,,",
        f"{hygon},power_watts,,80.0,,hy-smi",
        f"{hygon},temperature_celsius,edge,41.5,,hy-smi",
        f"{hygon},memory_used_ratio,,0.0000305,,hy-smi",
        f"{hygon},fan_ratio,,,not_reported,hy-smi",
        f"{STAMP},nvidia,1,GPU-00000001,NVIDIA H100 80GB HBM3,up,,0,,",
        "",
    ]


@given(kit.snapshots())
@settings(max_examples=60, deadline=None)
def test_every_reading_is_read_back(snapshot):
    shown = screen(snapshot).snapshot
    rows = list(csv.DictReader(io.StringIO(render(snapshot), newline="")))
    assert all(tuple(row) == COLUMNS for row in rows)
    readings = [*shown.host, *(reading for device in shown.devices for reading in device.readings)]
    told = [
        (row["metric"], row["label"], row["reason"] or float(row["value"]), row["source"])
        for row in rows
        if row["metric"] != "up"
    ]
    assert told == [
        (
            reading.metric,
            reading.label,
            reading.value.value if isinstance(reading.value, Absent) else reading.value,
            reading.source,
        )
        for reading in readings
    ]


def test_nothing_read_is_a_table_with_a_heading_only():
    assert render(kit.snapshot()) == HEADING + "\r\n"
