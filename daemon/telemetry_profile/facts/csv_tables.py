"""The csv files of profilers: `tables` finds tables by the meaning of their headings, `Rows` reads a table with exactly known headings."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers.model import Problem
from telemetry_profile.facts.printed_numbers import MS, NS, US, S, count_of, nanoseconds
from telemetry_profile.format_contract import Call, Clue, Device, Kernel, Work, largest_first

_ROUNDED = 0.01
_MINUTE = 60 * S
UNITS: Mapping[str, int] = {
    "ns": NS, "nsecond": NS, "us": US, "µs": US, "μs": US, "usecond": US, "ms": MS, "msecond": MS, "s": S, "sec": S, "second": S, "m": _MINUTE, "min": _MINUTE,
}  # fmt: skip
_HEADING_UNIT = re.compile(r"(?P<words>.*?)\s*[\[(]\s*(?P<unit>[^\W\d]+|%)\s*[\])]\Z")
# A cell with a number, which no heading has.
_HAS_NUMBER = re.compile(r'(\A|,)\s*"?[-+]?[0-9]')
_TIME_IN_CELL = re.compile(r"(?P<number>[-+0-9.,eE]+)\s*(?P<unit>[^\W\d_]*)\Z")
# The meaning of headings in all tools and versions, in lower case and without blanks and underscores.
_ROLES: Mapping[str, str] = {
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
    """A heading: its meaning, "" if it has none here, and the unit that it names, 0 if it names none."""

    role: str
    unit: int
    heading: str


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row and their units, by their roles."""

    cells: Mapping[str, str]
    units: Mapping[str, int]

    def text(self, role: str) -> str:
        """Return the cell, "" if there is none."""
        return self.cells.get(role, "")

    def time(self, role: str) -> int | None:
        """Return the nanoseconds of a cell, None if it is not a time."""
        return _time_in(self.cells.get(role, ""), self.units.get(role, 0))

    def count(self, role: str) -> int | None:
        """Return the whole number of a cell, None if it is not such a number."""
        return count_of(self.cells.get(role, "").replace(",", "").strip())

    def shape(self, role: str) -> str:
        """Return the sizes of a launch, such as `128×1×1`."""
        sizes = [
            self.cells[f"{role}{axis}"].strip() for axis in range(3) if self.cells.get(f"{role}{axis}", "").strip()
        ]
        return "×".join(sizes) if all(size.isascii() and size.replace(",", "").isdigit() for size in sizes) else ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    columns: tuple[Column, ...]
    rows: Sequence[Row] | Iterator[Row]

    def has(self, *roles: str) -> bool:
        """Return whether the table has all of these columns."""
        return {column.role for column in self.columns}.issuperset(roles)

    def headings(self) -> frozenset[str]:
        """Return the headings in lower case, without blanks and underscores."""
        return frozenset(_plain(column.heading) for column in self.columns)


def _time_in(cell: str, unit: int) -> int | None:
    """Return the nanoseconds of a cell; its unit precedes that of its column. None if there is no time or no unit."""
    found = _TIME_IN_CELL.match(cell.strip())
    if found is None:
        return None
    number = found["number"]
    if not found["unit"]:
        return nanoseconds(number.replace(",", ""), unit) if unit else None
    unit = UNITS.get(found["unit"].lower(), 0)
    # A tool that writes the unit in the cell chooses a unit that avoids thousands: a comma is then a decimal comma.
    has_decimal_comma = number.count(",") == 1 and "." not in number
    return nanoseconds(number.replace(",", "." if has_decimal_comma else ""), unit) if unit else None


def _column(heading: str) -> Column:
    words, unit = heading, ""
    if found := _HEADING_UNIT.match(heading):
        words, unit = found["words"], found["unit"]
    elif heading.endswith("Ns"):
        words, unit = heading[:-2], "ns"
    if unit == "%":  # a share of a number in another column
        return Column("", 0, heading)
    return Column(_ROLES.get(_plain(words), ""), UNITS.get(unit.lower(), 0), heading)


def _plain(heading: str) -> str:
    return re.sub(r"[\s_-]+", "", heading).lower()


def split_line(line: str) -> list[str]:
    """Return the cells of a line; none if a quote is not closed, since the line is incomplete."""
    if line.count('"') % 2:
        return []
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a cell is longer than csv allows
        return []


def columns_of(line: str) -> tuple[Column, ...]:
    """Return the columns of a line of headings."""
    return tuple(_column(cell.strip()) for cell in split_line(line))


def tables(lines: Iterable[str], least: Sequence[Sequence[str]]) -> Iterator[Table]:
    """Yield the tables whose headings have all roles of any set in `least`; read each table before the next."""
    waiting = iter(lines)
    line = next(waiting, None)
    while line is not None:
        columns = columns_of(line) if "," in line else ()
        if columns and any(Table(columns, ()).has(*roles) for roles in least):
            body = _Body(waiting, columns, least)
            yield Table(columns, body.rows())
            body.finish()
            line = body.following
        else:
            line = next(waiting, None)


class _Body:
    """The rows below a heading, up to a blank line, a message of the tool, or the next heading, which is `following`."""

    def __init__(self, lines: Iterator[str], columns: tuple[Column, ...], least: Sequence[Sequence[str]]) -> None:
        self._lines, self._columns, self._least = lines, columns, least
        self._is_over = False
        self.following: str | None = None

    def rows(self) -> Iterator[Row]:
        units = {column.role: column.unit for column in self._columns if column.role and column.unit}
        is_first = True
        for line in self._lines:
            if is_first and not line.strip():  # rocprofv2 writes a blank line below its headings
                continue
            cells = self._cells(line)
            if cells is None:
                return
            if is_first and (units_below := self._units_row(cells)):
                units = {**units, **units_below}
            elif len(cells) == len(self._columns):
                pairs = zip(self._columns, cells, strict=True)
                # The first of two columns with the same role counts.
                yield Row({column.role: cell for column, cell in reversed(list(pairs)) if column.role}, units)
            elif "," in line:  # a garbled row, none of whose cells counts
                yield Row({}, units)
            is_first = False
        self._is_over = True

    def finish(self) -> None:
        """Skip the unread rows."""
        if not self._is_over:
            for _ in self.rows():
                pass

    def _cells(self, line: str) -> list[str] | None:
        """Return the cells of a row; None at the end of the table."""
        if not line.strip() or line.startswith("=="):
            self._is_over = True
            self.following = next(self._lines, None) if not line.strip() else line
            return None
        if not _HAS_NUMBER.search(line) and any(Table(columns_of(line), ()).has(*roles) for roles in self._least):
            self._is_over, self.following = True, line
            return None
        cells = split_line(line)
        if '"' not in line and len(cells) == len(self._columns) and self._has_cut_name(cells):
            return []
        if len(cells) > len(self._columns):
            cells = self._rejoined(line)
        return cells

    def _has_cut_name(self, cells: Sequence[str]) -> bool:
        """Return whether a name without quotes is cut at a comma between template arguments."""
        names = (cell for column, cell in zip(self._columns, cells, strict=True) if column.role == "name")
        return any(cell.count("<") > cell.count(">") + cell.count("<<") for cell in names)

    def _rejoined(self, line: str) -> list[str]:
        """Return the cells of a row whose name has commas and no quotes, as rocprof of ROCm 5 writes them."""
        names = [number for number, column in enumerate(self._columns) if column.role == "name"]
        if not names:
            return []
        after = len(self._columns) - names[0] - 1
        parts = line.split(",")
        end = len(parts) - after
        return [*parts[: names[0]], ",".join(parts[names[0] : end]), *parts[end:]] if end > names[0] else []

    def _units_row(self, cells: Sequence[str]) -> dict[str, int]:
        """Return the units that nvprof and ncu print below the headings."""
        if len(cells) != len(self._columns) or any(character.isdigit() for cell in cells for character in cell):
            return {}
        pairs = zip(self._columns, cells, strict=True)
        return {
            column.role: UNITS[cell.strip().lower()]
            for column, cell in pairs
            if column.role and cell.strip().lower() in UNITS
        }


def kernel(row: Row, work: Work) -> Kernel | None:
    """Return the kernel of a row of sums; None if its numbers are invalid or contradict each other."""
    calls, total, mean = row.count("calls"), row.time("total"), row.time("mean")
    if calls is None or total is None or total < 0 or not row.text("name"):
        return None
    # Means are rounded to a nanosecond or to a few digits.
    if mean is not None and abs(total - calls * mean) > calls + total * _ROUNDED:
        return None
    return Kernel(row.text("name"), work, calls, total, row.time("longest"))


def left_out(bad: int) -> tuple[Problem, ...]:
    """Return a problem for so many invalid rows; nothing for 0."""
    words = f"{bad} have no whole numbers, or numbers that contradict each other, and are left out"
    return (Problem("rows", words),) if bad else ()


@dataclass(slots=True)
class Sums:
    """Collects rows of sums: kernels of the device, calls of the host, and the number of invalid rows."""

    kernels: list[Kernel] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    bad: int = 0

    def add(self, row: Row, work: Work, *, is_host: bool) -> None:
        """Add a row."""
        found = kernel(row, work)
        if found is None:
            self.bad += 1
        elif is_host:
            self.calls.append(Call(found.name, found.calls, found.total_ns))
        else:
            self.kernels.append(found)


def device_of_sums(kernels: Iterable[Kernel]) -> tuple[Device, ...]:
    """Return the device of a file of sums; nothing if there are no kernels."""
    ordered = largest_first(kernels)
    return (Device(kernels=ordered),) if ordered else ()


IsHeading = Callable[[Sequence[str]], bool]


class Rows:
    """The rows below the first heading, as mappings without blanks around the cells; `number` counts the rows, invalid ones too."""

    def __init__(self, lines: Iterable[str], is_heading: IsHeading) -> None:
        self._lines, self._is_heading = lines, is_heading
        self._bad = 0
        self.number = 0

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        names: list[str] | None = None
        for line in self._lines:
            cells = _cells(line)
            if names is None:
                names = cells if self._is_heading(cells) else None
                continue
            self.number += bool(line.strip())
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif line.strip():
                self._bad += 1

    def count_bad_row(self) -> None:
        """Count the last row as damaged."""
        self._bad += 1

    def problems(self) -> tuple[Problem, ...]:
        """Return a problem if rows were damaged or had too few or too many cells."""
        return (Problem("rows", f"{self._bad} are damaged, and are left out"),) if self._bad else ()


def with_headings(*names: str) -> IsHeading:
    """Return a test for lines that have all of these headings."""
    return lambda cells: set(cells).issuperset(names)


def begins_with(is_heading: IsHeading) -> Callable[[Clue], bool]:
    """Return a test for files whose first line with content is such a heading."""
    return lambda clue: is_heading(first_cells(clue.text))


def first_cells(text: str) -> list[str]:
    """Return the cells of the first line with content."""
    return _cells(next((line for line in text.splitlines() if line.strip()), ""))


def _cells(line: str) -> list[str]:
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:  # a cell of more than 128 KiB, such as MindSpore's lists of collectives
        cells = _long_cells(line)
    return [cell.strip() for cell in cells]


def _long_cells(line: str) -> list[str]:
    """Return the cells of a line of any length, quoted or not."""
    cells: list[list[str]] = [[]]
    parts = line.split('"')
    for number, part in enumerate(parts):
        if number % 2:  # within quotes
            cells[-1].append(part)
        elif not part and 0 < number < len(parts) - 1:  # two quotes within quotes mean a quote
            cells[-1].append('"')
        else:
            first, *others = part.split(",")
            cells[-1].append(first)
            cells += [[other] for other in others]
    return ["".join(pieces) for pieces in cells]
