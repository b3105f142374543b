"""nvprof's csv: sums with their units in the cells or in a row below the headings, or a row for each run on the card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.csv_tables import Row, Table, columns_of, kernel, left_out, tables
from telemetry_profile.facts.file_facts import Call, Card, Device, Facts, Kernel
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.timeline import Timeline

_SUMS, _RUNS = ("name", "calls", "total"), ("name", "begin", "length")
_LARGEST_SEARCH_LINES = 200
# `[Tesla V100-SXM2 (0)]`, `Tesla K40c (0)`: the model, and the card's number.
_DEVICE = re.compile(r'"?(?P<model>.*?)\s*\((?P<number>\d{1,3})\)"?\Z')
_RUN_NUMBER = re.compile(r"\s+\[\d+\]\Z")  # behind the name of each run
_HOST_TYPE = "API calls"
# Without a column for the type: the runtime's and the driver's functions.
_HOST = re.compile(r"(cuda|cu)[A-Z]\w*\Z|(OpenACC|NVTX|clEnqueue|Gpu page fault)")


def _headings(clue: Clue) -> Iterator[frozenset[str]]:
    for line in clue.text.splitlines()[:_LARGEST_SEARCH_LINES]:
        if "," in line and not line.startswith("=="):
            yield Table(columns_of(line), ()).headings()


def _recognises(clue: Clue) -> bool:
    """Both have the name last; nsys has its units in the headings, and rocprof other words."""
    return any(
        {"time(%)", "time", "calls", "avg", "min", "max", "name"} <= words
        or {"start", "duration", "device", "context", "stream", "name"} <= words
        for words in _headings(clue)
    )


@dataclass(slots=True)
class _Sums:
    kernels: list[Kernel] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    bad: int = 0


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    sums, timeline = _Sums(), Timeline()
    for table in tables(lines, (_SUMS, _RUNS)):
        for row in table.rows:
            if table.has(*_SUMS):
                _sum(row, sums)
            else:
                _run(row, timeline)
    devices = timeline.devices()
    if not devices and sums.kernels:
        devices = (Device(kernels=tuple(sorted(sums.kernels, key=lambda one: -one.total_ns))),)
    problems = (*timeline.problems(), *left_out(sums.bad))
    return Facts("nvprof-csv", "nvprof", devices=devices, calls=(*sums.calls, *timeline.calls()), problems=problems)


def _sum(row: Row, sums: _Sums) -> None:
    found = kernel(row, work_of(row.text("name")))
    if found is None:
        sums.bad += 1
        return
    kind = row.text("kind")
    if kind == _HOST_TYPE or (not kind and _HOST.match(found.name)):
        sums.calls.append(Call(found.name, found.calls, found.total_ns))
    else:
        sums.kernels.append(found)


def _run(row: Row, timeline: Timeline) -> None:
    name = _RUN_NUMBER.sub("", row.text("name"))
    begin, length = row.time("begin"), row.time("length")
    device = _DEVICE.match(row.text("device").strip())
    if device is None:  # what the host did has no card
        timeline.call(name, length)
        return
    number = int(device["number"])
    timeline.card(number, Card(number, device["model"].strip("[ ")))
    timeline.add(number, work_of(name), begin, length, name, row.shape("grid"), row.shape("block"))


FORMAT = TextFormat("nvprof-csv", "nvprof", _recognises, _read)
