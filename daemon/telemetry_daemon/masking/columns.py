"""The cells of a table whose heading announces an identity, in CSV or between tabs or semicolons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_daemon.masking.shapes import Treatment, treatment_of_key

_SEPARATORS = ",\t;"
_ROUND_A_CELL = " \t\"'"
# A longer line belongs to no table.
_LONGEST_LINE = 20_000
_LONGEST_HEADING = 60


@dataclass(frozen=True, slots=True)
class _Heading:
    separator: str
    cells: int
    treatments: dict[int, Treatment]


def announced(text: str) -> Iterator[tuple[int, int, Treatment]]:
    """The start and end of each cell below a heading that announces an identity, with its treatment."""
    heading: _Heading | None = None
    start = 0
    for line in text.split("\n"):
        line_heading = _heading(line) if len(line) <= _LONGEST_LINE else None
        if line_heading is None and heading is not None:
            yield from _cells(line, start, heading)
        heading = line_heading or (heading if line.strip() else None)
        start += len(line) + 1


def _heading(line: str) -> _Heading | None:
    for separator in _SEPARATORS:
        if separator not in line:
            continue
        cells = line.split(separator)
        by_place = {
            place: treatment_of_key(cell.strip(_ROUND_A_CELL))
            for place, cell in enumerate(cells)
            if len(cell) < _LONGEST_HEADING
        }
        treatments = {place: treatment for place, treatment in by_place.items() if treatment is not None}
        if treatments:
            return _Heading(separator, len(cells), treatments)
    return None


def _cells(line: str, start: int, heading: _Heading) -> Iterator[tuple[int, int, Treatment]]:
    cells = line.split(heading.separator)
    if len(cells) != heading.cells:
        return
    for place, cell in enumerate(cells):
        if place in heading.treatments and (value := cell.strip(_ROUND_A_CELL)):
            begin = start + cell.index(value)
            yield begin, begin + len(value), heading.treatments[place]
        start += len(cell) + 1
