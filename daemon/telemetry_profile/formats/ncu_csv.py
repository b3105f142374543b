"""Nsight Compute's csv: a row for each kernel and metric, or `--page raw`, a row for each kernel with units below the headings.

It replays each kernel many times: its durations say nothing of a step, so only kernels come from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from telemetry_parsers.model import Problem
from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.csv_tables import UNITS, split_line
from telemetry_profile.facts.file_facts import Device, Facts, Kernel
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_times import nanoseconds

_LONG, _RAW = {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"}, {"ID", "Kernel Name"}
_DURATIONS = (
    "gpu__time_duration.sum",
    "Duration",
    "gpu__time_duration_measured_wallclock",
    "gpu__time_duration_measured_user",
)
# What the launch shape allows, as other profilers estimate it; what was measured is another thing.
_OCCUPANCY = ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy")
_GROUPS = re.compile(r"\d{1,3}(?P<sign>[.,'’\u202f ])\d{3}((?P=sign)\d{3})*\Z")
_NANOSECONDS = ("ns", "nsecond")
_REMARK = "Nsight Compute runs each kernel many times and one by one: its times say nothing of a step"
_SEARCHED_LINES = 400


@dataclass(slots=True)
class _Run:
    name: str
    grid: str
    block: str
    duration: tuple[str, str] | None = None
    occupancy: str | None = None


@dataclass(slots=True)
class _Signs:
    """Which sign divides decimals, as far as the numbers of a file show it."""

    decimal: str = ""

    def learn(self, printed: str) -> None:
        """Take what one number shows."""
        text = printed.strip()
        signs = [sign for sign in text if sign in ",."]
        if not signs or not text[-1].isdigit() or text.strip("0123456789,.-"):
            return
        if len(set(signs)) > 1:
            self.decimal = signs[-1]
        elif len(signs) > 1:
            self.decimal = "." if signs[0] == "," else ","
        elif len(text.rpartition(signs[0])[2]) != 3:
            self.decimal = signs[0]

    def plain(self, printed: str, unit: str) -> str | None:
        """The number in plain digits; None where a sign may divide thousands as well as decimals, "" where there is none."""
        text = printed.strip()
        if not text or not text[-1].isdigit():
            return ""
        if not _GROUPS.match(text) or self.decimal:
            decimal = self.decimal or "."
            return re.sub(r"[^\d.eE+-]", "", text.replace("." if decimal == "," else ",", "").replace(decimal, "."))
        # Nanoseconds are whole: what divides them are thousands.
        if unit.strip().lower() in _NANOSECONDS or not re.search(r"[.,]", text):
            return re.sub(r"\D", "", text)
        return None


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
    signs = _Signs()
    garbled = 0
    units: Mapping[str, str] = {}
    for line in waiting:
        cells = split_line(line)
        if len(cells) != len(heading):
            garbled += line.startswith('"')
            continue
        row = dict(zip(heading, cells, strict=True))
        if not row["ID"].strip():  # the units of `--page raw`
            units = row
            continue
        run = runs.setdefault(
            row["ID"], _Run(row["Kernel Name"], _shape(row.get("Grid Size", "")), _shape(row.get("Block Size", "")))
        )
        for cell in cells:
            signs.learn(cell)
        for name, unit, value in _metrics(row, units):
            _take(run, name, unit, value)
    kernels, unclear = _kernels(runs.values(), signs)
    said = (
        (unclear, "numbers may be thousands or decimals, and are left out; export in the C locale"),
        (garbled, "are garbled, and are left out"),
    )
    problems = tuple(Problem("rows", f"{count} {words}") for count, words in said if count)
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


def _take(run: _Run, name: str, unit: str, value: str) -> None:
    """Keep what a kernel needs as it is printed: how numbers are written shows only at the end."""
    if name in _DURATIONS and run.duration is None:
        run.duration = value, unit
    elif name in _OCCUPANCY and run.occupancy is None:
        run.occupancy = value


def _shape(printed: str) -> str:
    numbers = re.findall(r"\d+", printed)
    return "×".join(numbers) if len(numbers) <= 3 else ""


def _kernels(runs: Iterable[_Run], signs: _Signs) -> tuple[tuple[Kernel, ...], int]:
    """The kernels, and how many durations were not clear."""
    sums: dict[str, list[tuple[int, _Run]]] = {}
    unclear = 0
    for run in runs:
        printed, unit = run.duration or ("", "")
        number = signs.plain(printed, unit)
        unclear += number is None
        scale = UNITS.get(unit.strip().lower())
        duration = nanoseconds(number, scale) if number and scale else None
        if duration is not None:
            sums.setdefault(run.name, []).append((duration, run))
    found = [_kernel(name, each, signs) for name, each in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.total_ns)), unclear


def _kernel(name: str, runs: list[tuple[int, _Run]], signs: _Signs) -> Kernel:
    longest_ns, longest = max(runs, key=lambda each: each[0])
    total = sum(duration for duration, _ in runs)
    occupancy = _ratio(signs.plain(longest.occupancy or "", ""))
    return Kernel(name, work_of(name), len(runs), total, longest_ns, longest.grid, longest.block, occupancy)


def _ratio(percent: str | None) -> float | None:
    thousandths = nanoseconds(percent, 1000) if percent else None
    return None if thousandths is None or not 0 <= thousandths <= 100_000 else thousandths / 100_000


FORMAT = TextFormat("ncu-csv", "Nsight Compute", _recognises, _read)
