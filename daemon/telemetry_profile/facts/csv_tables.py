"""Reads the CSV files of profilers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers.model import Problem
from telemetry_profile.facts.printed_numbers import MS, NS, US, S, nanoseconds, parse_count
from telemetry_profile.format_contract import Call, Device, FileSample, Kernel, Work, sort_kernels

_MAX_ROUNDING_ERROR = 0.01
_MINUTE = 60 * S
NS_PER_UNIT: Mapping[str, int] = {
    "ns": NS, "nsecond": NS, "us": US, "µs": US, "μs": US, "usecond": US, "ms": MS, "msecond": MS, "s": S, "sec": S, "second": S, "m": _MINUTE, "min": _MINUTE,
}  # fmt: skip
_HEADING_UNIT = re.compile(r"(?P<words>.*?)\s*[\[(]\s*(?P<unit>[^\W\d]+|%)\s*[\])]\Z")
# Matches a row: unlike headings, at least one of its cells begins with a number.
_NUMBER_CELL = re.compile(r'(\A|,)\s*"?[-+]?[0-9]')
_TIME_IN_CELL = re.compile(r"(?P<number>[-+0-9.,eE]+)\s*(?P<unit>[^\W\d_]*)\Z")
# The headings are in lower case, without spaces, underscores and hyphens.
_ROLES_BY_HEADING: Mapping[str, str] = {
    "name": "name", "kernelname": "name", "function": "name", "operation": "name", "range": "name", "direction": "name",
    "calls": "calls", "instances": "calls", "count": "calls", "numcalls": "calls", "counts": "calls", "operations": "calls",
    "totalduration": "total", "totaltime": "total", "time": "total", "sum": "total", "total": "total",
    "average": "mean", "avg": "mean", "mean": "mean",
    "max": "longest", "maximum": "longest", "maxtime": "longest",
    "start": "begin", "starttimestamp": "begin", "begin": "begin",
    "end": "end", "endtimestamp": "end", "duration": "length",
    "agentid": "device", "gpuid": "device", "device": "device", "deviceid": "device",
    "destinationagentid": "target", "sourceagentid": "source",
    "gridsizex": "grid0", "gridsizey": "grid1", "gridsizez": "grid2", "gridx": "grid0", "gridy": "grid1", "gridz": "grid2",
    "grdx": "grid0", "grdy": "grid1", "grdz": "grid2", "gridsize": "grid0", "grd": "grid0", "wgp": "block0",
    "workgroupsizex": "block0", "workgroupsizey": "block1", "workgroupsizez": "block2", "workgroupsize": "block0",
    "blockx": "block0", "blocky": "block1", "blockz": "block2", "blkx": "block0", "blky": "block1", "blkz": "block2", "blocksize": "block0",
    "kind": "kind", "domain": "kind", "type": "kind", "category": "kind",
    "dispatchid": "dispatch", "index": "dispatch", "processid": "process", "pid": "process",
    "guid": "guid",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A table column. `unit` is the length of its time unit in nanoseconds, or 0 if unknown."""

    role: str
    unit: int
    heading: str


@dataclass(frozen=True, slots=True)
class Row:
    """A table row: for each column role, the cell, and the time unit in nanoseconds."""

    cells: Mapping[str, str]
    units: Mapping[str, int]

    def text(self, role: str) -> str:
        """Return the cell with this role, or "" if it is missing."""
        return self.cells.get(role, "")

    def time(self, role: str) -> int | None:
        """Return the time in the cell with this role, or None if it is missing or invalid."""
        return _parse_time(self.cells.get(role, ""), self.units.get(role, 0))

    def count(self, role: str) -> int | None:
        """Return the whole number in the cell with this role, or None if it is missing or invalid."""
        return parse_count(self.cells.get(role, "").replace(",", "").strip())

    def shape(self, role: str) -> str:
        """Return the launch dimensions with the role `grid` or `block`, such as `128×1×1`, or "" if unknown."""
        sizes = [
            self.cells[f"{role}{axis}"].strip() for axis in range(3) if self.cells.get(f"{role}{axis}", "").strip()
        ]
        return "×".join(sizes) if all(size.isascii() and size.replace(",", "").isdigit() for size in sizes) else ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table in a CSV file. Its rows may be readable only once."""

    columns: tuple[Column, ...]
    rows: Sequence[Row] | Iterator[Row]

    def has_roles(self, *roles: str) -> bool:
        """Return whether the table has a column for each of these roles."""
        return {column.role for column in self.columns}.issuperset(roles)

    def headings(self) -> frozenset[str]:
        """Return the headings in lower case, without spaces, underscores and hyphens."""
        return frozenset(_normalize_heading(column.heading) for column in self.columns)


def _parse_time(cell: str, unit: int) -> int | None:
    """Return a cell's time in nanoseconds, or None if it is not a time or has no unit."""
    match = _TIME_IN_CELL.match(cell.strip())
    if match is None:
        return None
    number_text = match["number"]
    if not match["unit"]:
        return nanoseconds(number_text.replace(",", ""), unit) if unit else None
    unit = NS_PER_UNIT.get(match["unit"].lower(), 0)
    # A single comma is a decimal comma, because numbers with units are below 1,000.
    has_decimal_comma = number_text.count(",") == 1 and "." not in number_text
    return nanoseconds(number_text.replace(",", "." if has_decimal_comma else ""), unit) if unit else None


def _parse_heading(heading: str) -> Column:
    name, unit = heading, ""
    if match := _HEADING_UNIT.match(heading):
        name, unit = match["words"], match["unit"]
    elif heading.endswith("Ns"):
        name, unit = heading[:-2], "ns"
    if unit == "%":  # another column has the same values as times
        return Column("", 0, heading)
    return Column(_ROLES_BY_HEADING.get(_normalize_heading(name), ""), NS_PER_UNIT.get(unit.lower(), 0), heading)


def _normalize_heading(heading: str) -> str:
    return re.sub(r"[\s_-]+", "", heading).lower()


def split_line(line: str) -> list[str]:
    """Return the cells of a line, or [] if the line is damaged."""
    if line.count('"') % 2:
        return []
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a cell exceeds the limit of the csv module
        return []


def columns_of(line: str) -> tuple[Column, ...]:
    """Parse a line of headings into columns."""
    return tuple(_parse_heading(cell.strip()) for cell in split_line(line))


def tables(lines: Iterable[str], role_sets: Sequence[Sequence[str]]) -> Iterator[Table]:
    """Yield each table with all roles of one of the `role_sets`. Read its rows before you request the next table."""
    line_iterator = iter(lines)
    line = next(line_iterator, None)
    while line is not None:
        columns = columns_of(line) if "," in line else ()
        if columns and any(Table(columns, ()).has_roles(*roles) for roles in role_sets):
            body = _TableBody(line_iterator, columns, role_sets)
            yield Table(columns, body.rows())
            body.skip_remaining_rows()
            line = body.next_line
        else:
            line = next(line_iterator, None)


class _TableBody:
    """The rows of a table, which ends at a blank line, a message of the tool (`==`) or new headings."""

    def __init__(self, lines: Iterator[str], columns: tuple[Column, ...], role_sets: Sequence[Sequence[str]]) -> None:
        self._lines, self._columns, self._role_sets = lines, columns, role_sets
        self._has_ended = False
        self.next_line: str | None = None

    def rows(self) -> Iterator[Row]:
        units = {column.role: column.unit for column in self._columns if column.role and column.unit}
        is_first_row = True
        for line in self._lines:
            if is_first_row and not line.strip():  # rocprofv2 writes a blank line below the headings
                continue
            cells = self._row_cells(line)
            if cells is None:
                return
            if is_first_row and (units_in_row := self._units_by_role(cells)):
                units = {**units, **units_in_row}
            elif len(cells) == len(self._columns):
                pairs = zip(self._columns, cells, strict=True)
                # If two columns have the same role, the first one is used.
                yield Row({column.role: cell for column, cell in reversed(list(pairs)) if column.role}, units)
            elif "," in line:  # a garbled row without usable cells
                yield Row({}, units)
            is_first_row = False
        self._has_ended = True

    def skip_remaining_rows(self) -> None:
        if not self._has_ended:
            for _ in self.rows():
                pass

    def _row_cells(self, line: str) -> list[str] | None:
        """Return the cells of a row, [] if its name is split and cannot be rejoined, or None after the last row."""
        if not line.strip() or line.startswith("=="):
            self._has_ended = True
            self.next_line = next(self._lines, None) if not line.strip() else line
            return None
        if not _NUMBER_CELL.search(line) and any(
            Table(columns_of(line), ()).has_roles(*roles) for roles in self._role_sets
        ):
            self._has_ended, self.next_line = True, line
            return None
        cells = split_line(line)
        if '"' not in line and len(cells) == len(self._columns) and self._has_split_name(cells):
            return []
        if len(cells) > len(self._columns):
            cells = self._rejoin_name(line)
        return cells

    def _has_split_name(self, cells: Sequence[str]) -> bool:
        """Return whether the line was split at a comma inside a name, in C++ template arguments."""
        names = (cell for column, cell in zip(self._columns, cells, strict=True) if column.role == "name")
        return any(cell.count("<") > cell.count(">") + cell.count("<<") for cell in names)

    def _rejoin_name(self, line: str) -> list[str]:
        """Return a row's cells with the name, which contains commas, as a single cell."""
        name_index = next((index for index, column in enumerate(self._columns) if column.role == "name"), None)
        if name_index is None:
            return []
        parts = line.split(",")
        end = len(parts) - (len(self._columns) - name_index - 1)
        return [*parts[:name_index], ",".join(parts[name_index:end]), *parts[end:]] if end > name_index else []

    def _units_by_role(self, cells: Sequence[str]) -> dict[str, int]:
        """Return the units that nvprof and ncu print below the headings, or {} if the row is not a row of units."""
        if len(cells) != len(self._columns) or any(character.isdigit() for cell in cells for character in cell):
            return {}
        pairs = zip(self._columns, cells, strict=True)
        return {
            column.role: NS_PER_UNIT[cell.strip().lower()]
            for column, cell in pairs
            if column.role and cell.strip().lower() in NS_PER_UNIT
        }


def kernel_of_row(row: Row, work: Work) -> Kernel | None:
    """Return the kernel of a summary row, or None if the numbers are invalid or contradict each other."""
    calls, total, mean = row.count("calls"), row.time("total"), row.time("mean")
    if calls is None or total is None or total < 0 or not row.text("name"):
        return None
    # Means may be rounded to a nanosecond or to a few digits.
    if mean is not None and abs(total - calls * mean) > calls + total * _MAX_ROUNDING_ERROR:
        return None
    return Kernel(row.text("name"), work, calls, total, row.time("longest"))


def row_problems(count: int) -> tuple[Problem, ...]:
    """Return a problem that says how many rows were ignored, or () if `count` is 0."""
    message = f"{count} ignored, because numbers are invalid or contradictory"
    return (Problem("rows", message),) if count else ()


@dataclass(slots=True)
class SumRows:
    """The kernels and host calls of a table with one row per kernel or function."""

    kernels: list[Kernel] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    invalid_rows: int = 0

    def add(self, row: Row, work: Work, *, is_host: bool) -> None:
        """Add a row as a kernel or, if `is_host` is true, as a host call."""
        kernel = kernel_of_row(row, work)
        if kernel is None:
            self.invalid_rows += 1
        elif is_host:
            self.calls.append(Call(kernel.name, kernel.calls, kernel.total_ns))
        else:
            self.kernels.append(kernel)


def device_of_kernels(kernels: Iterable[Kernel]) -> tuple[Device, ...]:
    """Return (device,) with these kernels, or () if there are none."""
    sorted_kernels = sort_kernels(kernels)
    return (Device(kernels=sorted_kernels),) if sorted_kernels else ()


IsHeading = Callable[[Sequence[str]], bool]


class CsvRows:
    """The rows below the headings of a CSV file. Each row maps headings to cells."""

    def __init__(self, lines: Iterable[str], is_heading: IsHeading) -> None:
        self._lines, self._is_heading = lines, is_heading
        self._damaged_count = 0
        self.row_number = 0  # the number of the current row; the first row is 1

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        headings: list[str] | None = None
        for line in self._lines:
            cells = _stripped_cells(line)
            if headings is None:
                headings = cells if self._is_heading(cells) else None
                continue
            self.row_number += bool(line.strip())
            if len(cells) == len(headings):
                yield dict(zip(headings, cells, strict=True))
            elif line.strip():
                self._damaged_count += 1

    def count_damaged_row(self) -> None:
        """Count the current row as damaged."""
        self._damaged_count += 1

    def problems(self) -> tuple[Problem, ...]:
        """Return a problem that says how many rows were damaged, or () if there are none."""
        return (Problem("rows", f"{self._damaged_count} ignored: damaged"),) if self._damaged_count else ()


def headings_predicate(*names: str) -> IsHeading:
    """Return a predicate that accepts cells which include all of these headings."""
    return lambda cells: set(cells).issuperset(names)


def first_line_predicate(is_heading: IsHeading) -> Callable[[FileSample], bool]:
    """Return a predicate that accepts a file whose first non-blank line has the headings."""
    return lambda file: is_heading(first_cells(file.text))


def first_cells(text: str) -> list[str]:
    """Return the cells of the first non-blank line."""
    return _stripped_cells(next((line for line in text.splitlines() if line.strip()), ""))


def _stripped_cells(line: str) -> list[str]:
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:  # MindSpore's lists of collectives exceed the limit of the csv module
        cells = _split_long_line(line)
    return [cell.strip() for cell in cells]


def _split_long_line(line: str) -> list[str]:
    """Return the cells of a line that exceeds the limit of the csv module."""
    cells: list[list[str]] = [[]]
    parts = line.split('"')
    for index, part in enumerate(parts):
        if index % 2:  # parts with odd indices were within quotation marks
            cells[-1].append(part)
        elif not part and 0 < index < len(parts) - 1:  # a doubled quote is a literal quote
            cells[-1].append('"')
        else:
            first, *others = part.split(",")
            cells[-1].append(first)
            cells += [[other] for other in others]
    return ["".join(cell_parts) for cell_parts in cells]
