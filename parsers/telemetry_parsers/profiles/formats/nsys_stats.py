"""The reports of `nsys stats --format csv`: several in one stream, each below what the tool says of itself, or each in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import Row, Table, columns_of, kernel, tables
from telemetry_parsers.profiles.facts import Call, Card, Device, Facts, Kernel
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_SUMS, _RUNS = ("name", "calls", "total"), ("name", "begin", "length")
_SEARCHED_LINES = 400
_DEVICE = re.compile(r"(?P<model>.*?)\s*\((?P<number>\d{1,3})\)\Z")
_UNIT = re.compile(r"\((ns|us|µs|ms|s|sec)\)", re.IGNORECASE)


def _recognises(clue: Clue) -> bool:
    return any(_is_ours(line) for line in clue.text.splitlines()[:_SEARCHED_LINES])


def _is_ours(line: str) -> bool:
    """Nsight's headings name the unit of each time."""
    if "," not in line or not _UNIT.search(line):
        return False
    table = Table(columns_of(line), ())
    words = table.headings()
    if table.has(*_SUMS):
        return any(word.startswith("time(%") for word in words)
    return table.has(*_RUNS) and bool(words & {"corrid", "strm", "corr id"})


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    kernels: list[Kernel] = []
    calls: list[Call] = []
    timeline = Timeline()
    for table in tables(lines, (_SUMS, _RUNS)):
        for row in table.rows:
            if not table.has(*_SUMS):
                _run(row, timeline)
            elif found := kernel(row, work_of(row.text("name"))):
                if _is_of_device(table):
                    kernels.append(found)
                else:
                    calls.append(Call(found.name, found.calls, found.total_ns))
    devices = timeline.devices() or ((Device(kernels=_merged(kernels)),) if kernels else ())
    return Facts(
        "nsys-stats", "Nsight Systems", devices=devices, calls=(*calls, *timeline.calls()), problems=timeline.problems()
    )


def _is_of_device(table: Table) -> bool:
    """Kernels are counted as instances, copies as counts of operations; what the host does as calls, its ranges by their style."""
    words = table.headings()
    if "range" in words or "style" in words or "numcalls" in words:
        return False
    return "instances" in words or "operation" in words


def _merged(kernels: list[Kernel]) -> tuple[Kernel, ...]:
    """Each kernel once: one report has kernels and copies together, which others have apart."""
    first: dict[str, Kernel] = {}
    for one in kernels:
        first.setdefault(one.name, one)
    return tuple(sorted(first.values(), key=lambda one: -one.total_ns))


def _run(row: Row, timeline: Timeline) -> None:
    name, device = row.text("name"), _DEVICE.match(row.text("device").strip())
    if device is None:
        timeline.call(name, row.time("length"))
        return
    number = int(device["number"])
    timeline.card(number, Card(number, device["model"]))
    timeline.add(
        number, work_of(name), row.time("begin"), row.time("length"), name, row.shape("grid"), row.shape("block")
    )


FORMAT = TextFormat("nsys-stats", "Nsight Systems", "headings Time (%), Total Time (ns), Instances", _recognises, _read)
