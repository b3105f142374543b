"""The reports of `nsys stats --format csv`: several in one stream, each below what the tool says of itself, or each in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.csv_tables import Row, Table, columns_of, kernel, left_out, tables
from telemetry_profile.facts.file_facts import Call, Card, Device, Facts, Kernel, Work
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.timeline import Timeline

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
    kernels: dict[str, Kernel] = {}
    calls: list[Call] = []
    timeline = Timeline()
    bad = 0
    for table in tables(lines, (_SUMS, _RUNS)):
        if not table.has(*_SUMS):
            for row in table.rows:
                _run(row, timeline)
            continue
        if not any(column.role == "total" and column.unit for column in table.columns):  # bytes, not times
            continue
        of_table: dict[str, Kernel] = {}
        for row in table.rows:
            found = kernel(row, _work(row))
            if found is None:
                bad += 1
            elif _is_of_device(table, row):
                of_table[found.name] = _both(of_table.get(found.name), found)
            else:
                calls.append(Call(found.name, found.calls, found.total_ns))
        # One report has kernels and copies together, which others have apart.
        kernels = of_table | kernels
    listed = tuple(sorted(kernels.values(), key=lambda one: -one.total_ns))
    devices = timeline.devices() or ((Device(kernels=listed),) if listed else ())
    problems = (*timeline.problems(), *left_out(bad))
    return Facts("nsys-stats", "Nsight Systems", devices=devices, calls=(*calls, *timeline.calls()), problems=problems)


def _work(row: Row) -> Work:
    """What runs: by its kind where there is one, else by its name."""
    return "copy" if row.text("kind").upper().startswith("MEM") else work_of(row.text("name"))


def _is_of_device(table: Table, row: Row) -> bool:
    """Kernels are counted as instances, copies as counts of operations; what the host does as calls, its ranges by their style."""
    words = table.headings()
    if "range" in words or "style" in words or "numcalls" in words or row.text("kind").upper().endswith("API"):
        return False
    return "instances" in words or bool(words & {"operation", "operations"})


def _both(one: Kernel | None, other: Kernel) -> Kernel:
    """Two rows of a kernel together: reports by grid have one for each."""
    if one is None:
        return other
    longest = max((each.longest_ns for each in (one, other) if each.longest_ns is not None), default=None)
    return replace(one, calls=one.calls + other.calls, total_ns=one.total_ns + other.total_ns, longest_ns=longest)


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


FORMAT = TextFormat("nsys-stats", "Nsight Systems", _recognises, _read)
