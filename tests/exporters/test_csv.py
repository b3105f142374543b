"""The CSV table: a row for each reading, also for each that could not be taken."""

from __future__ import annotations

import csv
import io

from hypothesis import given, settings

from kits import snapshots as kit
from telemetry_exporters.csv import COLUMNS, processes, render
from telemetry_exporters.screen import screen
from telemetry_exporters.text import clean
from telemetry_parsers.model import Absent, MergedReading

HEADING = "time,hostname,vendor,device,id,model,metric,label,value,reason,source"
PROCESS_HEADING = (
    "time,hostname,vendor,device,id,pid,name,kind,instance,memory_used_bytes,"
    "utilization_ratio,started,user,command,container,owner_kind,owner,command_line"
)
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


def test_processes_in_full():
    table = processes(kit.snapshot(kit.shared_device()), {4711: 'python3 -c "print(1)"\n\x1b[2J'})
    device, line = f"{STAMP},nvidia,0,GPU-00000000", '"python3 -c ""print(1)"" \ufffd[2J"'
    assert table.split("\r\n") == [
        PROCESS_HEADING,
        f"{device},4711,python3,compute,,1073741824.0,0.25,2025-12-31T23:30:00.000Z,alice,python3,0123456789ab,job,1234,{line}",
        f"{device},4712,serve,compute,,1048576.0,0.25,2025-12-31T23:30:00.000Z,root,serve,ba9876543210,pod,ml/train-0/main,",
        f"{device},4713,other,,,,,,,,,,,",
        "",
    ]


@given(snapshot=kit.snapshots())
@settings(max_examples=40, deadline=None)
def test_of_any_snapshot_each_process_is_a_whole_row(snapshot):
    lines = {process.pid: "\x1b[2J\r\n" for device in snapshot.devices for process in device.processes}
    heading, *rows = csv.reader(io.StringIO(processes(snapshot, lines)))
    assert len(rows) == sum(len(device.processes) for device in screen(snapshot).snapshot.devices)
    assert all(len(row) == len(heading) and clean("".join(row)) == "".join(row) for row in rows)
