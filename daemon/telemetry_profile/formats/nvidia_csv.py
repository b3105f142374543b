"""Reads CSV files of NVIDIA's profilers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from telemetry_parsers.model import Problem
from telemetry_profile.facts.csv_tables import (
    NS_PER_UNIT,
    Row,
    SumRows,
    Table,
    columns_of,
    device_of_kernels,
    kernel_of_row,
    row_problems,
    split_line,
    tables,
)
from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_numbers import nanoseconds
from telemetry_profile.format_contract import Call, Card, Facts, FileSample, Kernel, TextFormat, Work

_SUM_ROLES, _RUN_ROLES = ("name", "calls", "total"), ("name", "begin", "length")
_MAX_SEARCHED_LINES = 400
# Matches a model followed by the card's number, such as `Tesla K40c (0)`.
_MODEL_AND_NUMBER = re.compile(r'"?(?P<model>.*?)\s*\((?P<number>\d{1,3})\)"?\Z')
_TIME_UNIT = re.compile(r"\((ns|us|µs|ms|s|sec)\)", re.IGNORECASE)


def _recognises_nsys(file: FileSample) -> bool:
    return any(_is_nsys_heading(line) for line in file.text.splitlines()[:_MAX_SEARCHED_LINES])


def _is_nsys_heading(line: str) -> bool:
    if "," not in line or not _TIME_UNIT.search(line):
        return False
    table = Table(columns_of(line), ())
    headings = table.headings()
    if table.has_roles(*_SUM_ROLES):
        return any(heading.startswith("time(%") for heading in headings)
    return table.has_roles(*_RUN_ROLES) and bool(headings & {"corrid", "strm", "corr id"})


def _read_nsys(_file: FileSample, lines: Iterable[str]) -> Facts:
    kernels: dict[str, Kernel] = {}
    calls: list[Call] = []
    timeline = Timeline()
    invalid_rows = 0
    for table in tables(lines, (_SUM_ROLES, _RUN_ROLES)):
        if not table.has_roles(*_SUM_ROLES):
            for row in table.rows:
                _add_execution(row.text("name"), row, timeline)
            continue
        if not any(column.role == "total" and column.unit for column in table.columns):  # the sums are bytes
            continue
        kernels_of_table: dict[str, Kernel] = {}
        for row in table.rows:
            kernel = kernel_of_row(row, _work_of_row(row))
            if kernel is None:
                invalid_rows += 1
            elif _is_device_row(table, row):
                # Some reports have a row for each grid size of a kernel.
                previous = kernels_of_table.get(kernel.name)
                kernels_of_table[kernel.name] = kernel if previous is None else previous.plus(kernel)
            else:
                calls.append(Call(kernel.name, kernel.calls, kernel.total_ns))
        # A combined report repeats the rows of the separate reports, so the first table with a kernel is used.
        kernels = kernels_of_table | kernels
    devices = timeline.devices() or device_of_kernels(kernels.values())
    problems = (*timeline.problems(), *row_problems(invalid_rows))
    return Facts("nsys-stats", "Nsight Systems", devices=devices, calls=(*calls, *timeline.calls()), problems=problems)


def _work_of_row(row: Row) -> Work:
    return "copy" if row.text("kind").upper().startswith("MEM") else work_of(row.text("name"))


def _is_device_row(table: Table, row: Row) -> bool:
    headings = table.headings()
    if "range" in headings or "style" in headings or "numcalls" in headings or row.text("kind").upper().endswith("API"):
        return False
    return "instances" in headings or bool(headings & {"operation", "operations"})


def _add_execution(name: str, row: Row, timeline: Timeline) -> None:
    """Add a row to the timeline, as an execution if the row names a device, else as a host call."""
    device = _MODEL_AND_NUMBER.match(row.text("device").strip())
    if device is None:
        timeline.add_call(name, row.time("length"))
        return
    number = int(device["number"])
    timeline.set_card(number, Card(number, device["model"].strip("[ ")))
    timeline.add(
        number, work_of(name), row.time("begin"), row.time("length"), name, row.shape("grid"), row.shape("block")
    )


NSYS = TextFormat("nsys-stats", "Nsight Systems", _recognises_nsys, _read_nsys)


_MAX_NVPROF_LINES = 200
_EXECUTION_NUMBER = re.compile(r"\s+\[\d+\]\Z")  # follows the kernel's name
_HOST_TYPE = "API calls"
# In files without a type column, host calls are recognised by name.
_HOST_FUNCTION = re.compile(r"(cuda|cu)[A-Z]\w*\Z|(OpenACC|NVTX|clEnqueue|Gpu page fault)")


def _table_headings(file: FileSample) -> Iterator[frozenset[str]]:
    for line in file.text.splitlines()[:_MAX_NVPROF_LINES]:
        if "," in line and not line.startswith("=="):
            yield Table(columns_of(line), ()).headings()


def _recognises_nvprof(file: FileSample) -> bool:
    return any(
        {"time(%)", "time", "calls", "avg", "min", "max", "name"} <= headings
        or {"start", "duration", "device", "context", "stream", "name"} <= headings
        for headings in _table_headings(file)
    )


def _read_nvprof(_file: FileSample, lines: Iterable[str]) -> Facts:
    sums, timeline = SumRows(), Timeline()
    for table in tables(lines, (_SUM_ROLES, _RUN_ROLES)):
        for row in table.rows:
            if table.has_roles(*_SUM_ROLES):
                name, kind = row.text("name"), row.text("kind")
                is_host = kind == _HOST_TYPE or (not kind and bool(_HOST_FUNCTION.match(name)))
                sums.add(row, work_of(name), is_host=is_host)
            else:
                _add_execution(_EXECUTION_NUMBER.sub("", row.text("name")), row, timeline)
    devices = timeline.devices() or device_of_kernels(sums.kernels)
    problems = (*timeline.problems(), *row_problems(sums.invalid_rows))
    return Facts("nvprof-csv", "nvprof", devices=devices, calls=(*sums.calls, *timeline.calls()), problems=problems)


NVPROF = TextFormat("nvprof-csv", "nvprof", _recognises_nvprof, _read_nvprof)


_RAW_HEADINGS = {"ID", "Kernel Name"}
_LONG_HEADINGS = {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"}
_MEASURED_DURATIONS = ("gpu__time_duration_measured_wallclock", "gpu__time_duration_measured_user")
_DURATIONS = ("gpu__time_duration.sum", "Duration", *_MEASURED_DURATIONS)
# The theoretical occupancy is used, because it is comparable to the estimates of other profilers.
_OCCUPANCIES = ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy")
_DIGIT_GROUPS = re.compile(r"\d{1,3}(?P<sign>[.,'’\u202f ])\d{3}((?P=sign)\d{3})*\Z")
_NANOSECONDS = ("ns", "nsecond")
_REMARK = "Nsight Compute ran each kernel alone and many times, so the times do not describe a step"


@dataclass(slots=True)
class _Execution:
    name: str
    grid: str
    block: str
    duration: tuple[str, str] | None = None
    occupancy: str | None = None


@dataclass(slots=True)
class _DecimalSeparator:
    """The decimal separator of a file: a point, a comma, or "" while unknown."""

    decimal: str = ""

    def update(self, printed: str) -> None:
        """Set the decimal separator, if this number shows which one the file uses."""
        text = printed.strip()
        separators = [character for character in text if character in ",."]
        if not separators or not text[-1].isdigit() or text.strip("0123456789,.-"):
            return
        if len(set(separators)) > 1:
            self.decimal = separators[-1]
        elif len(separators) > 1:
            self.decimal = "." if separators[0] == "," else ","
        elif len(text.rpartition(separators[0])[2]) != 3:
            self.decimal = separators[0]

    def normalized(self, printed: str, unit: str) -> str | None:
        """Return a number with a decimal point. Return "" for other text, and None if the separator is ambiguous."""
        text = printed.strip()
        if not text or not text[-1].isdigit():
            return ""
        if not _DIGIT_GROUPS.match(text) or self.decimal:
            decimal = self.decimal or "."
            return re.sub(r"[^\d.eE+-]", "", text.replace("." if decimal == "," else ",", "").replace(decimal, "."))
        # Nanoseconds are whole numbers, so commas and points separate thousands.
        if unit.strip().lower() in _NANOSECONDS or not re.search(r"[.,]", text):
            return re.sub(r"\D", "", text)
        return None


def _find_ncu_headings(lines: Iterable[str]) -> list[str] | None:
    """Return the headings, after skipping the lines before them, or None if there are none."""
    for line in lines:
        if '"ID"' in line or line.startswith("ID,"):
            cells = [cell.strip() for cell in split_line(line)]
            if set(cells) >= _RAW_HEADINGS:
                return cells
    return None


def _recognises_ncu(file: FileSample) -> bool:
    cells = _find_ncu_headings(file.text.splitlines()[:_MAX_SEARCHED_LINES])
    return cells is not None and (
        set(cells) >= _LONG_HEADINGS or any(cell.startswith(("gpu__", "sm__", "launch__")) for cell in cells)
    )


def _read_ncu(_file: FileSample, lines: Iterable[str]) -> Facts:
    line_iterator = iter(lines)
    headings = _find_ncu_headings(line_iterator) or []
    executions: dict[str, _Execution] = {}
    decimal_separator = _DecimalSeparator()
    garbled_count = 0
    units: Mapping[str, str] = {}
    for line in line_iterator:
        cells = split_line(line)
        if len(cells) != len(headings):
            garbled_count += line.startswith('"')
            continue
        row = dict(zip(headings, cells, strict=True))
        if not row["ID"].strip():  # with `--page raw`, the first row contains the units
            units = row
            continue
        execution = executions.setdefault(
            row["ID"],
            _Execution(row["Kernel Name"], _shape(row.get("Grid Size", "")), _shape(row.get("Block Size", ""))),
        )
        for cell in cells:
            decimal_separator.update(cell)
        for name, unit, value in _metrics(row, units):
            _store_metric_text(execution, name, unit, value)
    kernels, ambiguous_count = _ncu_kernels(executions.values(), decimal_separator)
    counts_and_messages = (
        (ambiguous_count, "ignored, because a comma or dot may separate thousands or decimals; export in the C locale"),
        (garbled_count, "ignored: garbled"),
    )
    problems = tuple(Problem("rows", f"{count} {message}") for count, message in counts_and_messages if count)
    return Facts("ncu-csv", "Nsight Compute", devices=device_of_kernels(kernels), remarks=(_REMARK,), problems=problems)


def _metrics(row: Mapping[str, str], units: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, unit, printed value) for the metrics in a row. `units` is the row of units, if there is one."""
    if "Metric Name" in row:
        yield row["Metric Name"], row.get("Metric Unit", ""), row.get("Metric Value", "")
        return
    for name in (*_DURATIONS, *_OCCUPANCIES):
        if name in row:
            yield name, units.get(name, ""), row[name]


def _store_metric_text(execution: _Execution, name: str, unit: str, value: str) -> None:
    """Store the text of a duration or occupancy, which is parsed after the decimal separator is known."""
    if name in _DURATIONS and execution.duration is None:
        execution.duration = value, unit
    elif name in _OCCUPANCIES and execution.occupancy is None:
        execution.occupancy = value


def _shape(printed: str) -> str:
    numbers = re.findall(r"\d+", printed)
    return "×".join(numbers) if len(numbers) <= 3 else ""


def _ncu_kernels(executions: Iterable[_Execution], decimal_separator: _DecimalSeparator) -> tuple[list[Kernel], int]:
    executions_by_name: dict[str, list[tuple[int, _Execution]]] = {}
    ambiguous_count = 0
    for execution in executions:
        printed, unit = execution.duration or ("", "")
        number_text = decimal_separator.normalized(printed, unit)
        ambiguous_count += number_text is None
        scale = NS_PER_UNIT.get(unit.strip().lower())
        duration = nanoseconds(number_text, scale) if number_text and scale else None
        if duration is not None:
            executions_by_name.setdefault(execution.name, []).append((duration, execution))
    kernels = [_ncu_kernel(name, group, decimal_separator) for name, group in executions_by_name.items()]
    return kernels, ambiguous_count


def _ncu_kernel(name: str, executions: list[tuple[int, _Execution]], decimal_separator: _DecimalSeparator) -> Kernel:
    longest_ns, longest = max(executions, key=lambda execution: execution[0])
    total = sum(duration for duration, _ in executions)
    occupancy = _percent_as_ratio(decimal_separator.normalized(longest.occupancy or "", ""))
    return Kernel(name, work_of(name), len(executions), total, longest_ns, longest.grid, longest.block, occupancy)


def _percent_as_ratio(percent: str | None) -> float | None:
    thousandths = nanoseconds(percent, 1000) if percent else None
    return None if thousandths is None or not 0 <= thousandths <= 100_000 else thousandths / 100_000


NCU = TextFormat("ncu-csv", "Nsight Compute", _recognises_ncu, _read_ncu)
