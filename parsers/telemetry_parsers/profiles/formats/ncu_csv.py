"""Nsight Compute's csv: a row for each kernel and metric, or `--page raw`, a row for each kernel with units below the headings.

It replays each kernel many times: its durations say nothing of a step, so only kernels come from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from telemetry_parsers.model import Problem
from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import UNITS, split_line
from telemetry_parsers.profiles.facts import Device, Facts, Kernel
from telemetry_parsers.profiles.times import nanoseconds
from telemetry_parsers.profiles.words import work_of

_LONG, _RAW = {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"}, {"ID", "Kernel Name"}
_DURATIONS = (
    "gpu__time_duration.sum",
    "Duration",
    "gpu__time_duration_measured_wallclock",
    "gpu__time_duration_measured_user",
)
_OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")
_THOUSANDS = re.compile(r"\d{1,3}(?P<sign>[.,'’\u202f ])\d{3}((?P=sign)\d{3})*\Z")
_REMARK = "Nsight Compute runs each kernel many times and one by one: its times say nothing of a step"
_SEARCHED_LINES = 400


@dataclass(slots=True)
class _Run:
    name: str
    grid: str
    block: str
    duration_ns: int | None = None
    occupancy_ratio: float | None = None


def _heading(lines: Iterable[str]) -> list[str] | None:
    """The headings, below what the tool and the program print first."""
    for line in lines:
        if '"ID"' in line or line.startswith("ID,"):
            cells = [cell.strip() for cell in split_line(line)]
            if set(cells) >= _RAW:
                return cells
    return None


def _recognises(clue: Clue) -> bool:
    cells = _heading(clue.text.splitlines()[:_SEARCHED_LINES])
    return cells is not None and (
        set(cells) >= _LONG or any(cell.startswith(("gpu__", "sm__", "launch__")) for cell in cells)
    )


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    waiting = iter(lines)
    heading = _heading(waiting) or []
    runs: dict[str, _Run] = {}
    unclear = 0
    units: Mapping[str, str] = {}
    for line in waiting:
        cells = split_line(line)
        if len(cells) != len(heading):
            continue
        row = dict(zip(heading, cells, strict=True))
        if not row["ID"].strip():  # the units of `--page raw`
            units = row
            continue
        run = runs.setdefault(
            row["ID"], _Run(row["Kernel Name"], _shape(row.get("Grid Size", "")), _shape(row.get("Block Size", "")))
        )
        unclear += sum(not _take(run, name, unit, value) for name, unit, value in _metrics(row, units))
    kernels = _kernels(runs.values())
    problems = (
        (Problem("rows", f"{unclear} numbers may be thousands or decimals, and are left out; export in the C locale"),)
        if unclear
        else ()
    )
    return Facts(
        "ncu-csv",
        "Nsight Compute",
        devices=(Device(kernels=kernels),) if kernels else (),
        remarks=(_REMARK,),
        problems=problems,
    )


def _metrics(row: Mapping[str, str], units: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    if "Metric Name" in row:
        yield row["Metric Name"], row.get("Metric Unit", ""), row.get("Metric Value", "")
        return
    for name in (*_DURATIONS, *_OCCUPANCY):
        if name in row:
            yield name, units.get(name, ""), row[name]


def _take(run: _Run, name: str, unit: str, value: str) -> bool:
    """Put a metric where it belongs; False where its number is not clear."""
    if name in _DURATIONS and run.duration_ns is None:
        number = _number(value)
        scale = UNITS.get(unit.strip().lower())
        run.duration_ns = nanoseconds(number, scale) if number and scale else None
        return number is not None
    if name in _OCCUPANCY and run.occupancy_ratio is None and (number := _number(value)):
        percent = nanoseconds(number, 1000)
        run.occupancy_ratio = None if percent is None or not 0 <= percent <= 100_000 else percent / 100_000
    return True


def _number(printed: str) -> str | None:
    """The number in plain digits; None where a sign may divide thousands as well as decimals, "" where there is none."""
    text = printed.strip()
    if not text or not text[-1].isdigit():
        return ""
    if "," in text and "." in text:
        decimal = max(text.rfind(","), text.rfind("."))
        whole = re.sub(r"[^\d-]", "", text[:decimal])
        return f"{whole}.{text[decimal + 1 :]}"
    if _THOUSANDS.match(text) and "." not in text:
        return re.sub(r"[^\d]", "", text)
    if re.fullmatch(r"\d{1,3}\.\d{3}", text):
        return None
    return text.replace(",", ".") if text.count(",") == 1 else re.sub(r"[^\d.eE+-]", "", text)


def _shape(printed: str) -> str:
    numbers = re.findall(r"\d+", printed)
    return "×".join(numbers) if len(numbers) <= 3 else ""


def _kernels(runs: Iterable[_Run]) -> tuple[Kernel, ...]:
    sums: dict[str, list[_Run]] = {}
    for run in runs:
        if run.duration_ns is not None:
            sums.setdefault(run.name, []).append(run)
    found = []
    for name, each in sums.items():
        longest = max(each, key=lambda run: run.duration_ns or 0)
        total = sum(run.duration_ns or 0 for run in each)
        found.append(
            Kernel(
                name,
                work_of(name),
                len(each),
                total,
                longest.duration_ns,
                longest.grid,
                longest.block,
                longest.occupancy_ratio,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.total_ns))


FORMAT = TextFormat("ncu-csv", "Nsight Compute", "headings ID, Kernel Name, Metric Name", _recognises, _read)
