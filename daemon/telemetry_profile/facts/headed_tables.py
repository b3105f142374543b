"""A csv table that begins with its headings, as Ascend's tools and MindSpore write them: its rows by heading, and what is wrong with some."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from telemetry_parsers.model import Problem
from telemetry_profile.facts.printed_times import nanoseconds

MEAN = "mean"

IsHeading = Callable[[Sequence[str]], bool]


class Rows:
    """The rows below the first line that is a heading, by their headings; blanks and tabs around cells are gone.

    What is not read is counted: rows with too few or too many cells, and those that the reader calls `bad`. `place` is the
    number of the last row among all, from 1.
    """

    def __init__(self, lines: Iterable[str], is_heading: IsHeading) -> None:
        self._lines, self._is_heading = lines, is_heading
        self._bad = 0
        self.place = 0

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        names: list[str] | None = None
        for line in self._lines:
            cells = _cells(line)
            if names is None:
                names = cells if self._is_heading(cells) else None
                continue
            self.place += bool(line.strip())
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif line.strip():
                self._bad += 1

    def bad(self) -> None:
        """The last row cannot be used."""
        self._bad += 1

    def problems(self) -> tuple[Problem, ...]:
        """What was not read, when all rows have been asked for."""
        if not self._bad:
            return ()
        return (Problem("rows", f"{self._bad} are damaged, and are left out"),)


def first_cells(text: str) -> list[str]:
    """The cells of the first line that is not empty."""
    return _cells(next((line for line in text.splitlines() if line.strip()), ""))


def decimal_ns(cell: str, unit: int) -> int | None:
    """The nanoseconds of a cell in a unit; None for N/A and the like, and for a length below 0."""
    told = nanoseconds(cell, unit) if cell[-1:].isdigit() else None
    return told if told is not None and told >= 0 else None


def count_of(cell: str) -> int | None:
    """A whole number of calls; None for anything else."""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) <= 18 else None


def number_of(cell: str) -> int | None:
    """The number of a rank or a device; None for anything else."""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 7 else None


def step_name(cell: str) -> str:
    """How a step of this number is called, `MEAN` for the row of their mean; "" for anything else."""
    if cell in ("-", "0"):
        return MEAN
    return f"step {cell}" if count_of(cell) is not None else ""


def _cells(line: str) -> list[str]:
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:  # a cell beyond 128 KiB: MindSpore's lists of collectives are longer
        cells = _long_cells(line)
    return [cell.strip() for cell in cells]


def _long_cells(line: str) -> list[str]:
    """The cells of a line of any length, quoted or not."""
    cells: list[list[str]] = [[]]
    parts = line.split('"')
    for number, part in enumerate(parts):
        if number % 2:  # within quotes
            cells[-1].append(part)
        elif not part and 0 < number < len(parts) - 1:  # two quotes within quotes are one
            cells[-1].append('"')
        else:
            first, *others = part.split(",")
            cells[-1].append(first)
            cells += [[other] for other in others]
    return ["".join(pieces) for pieces in cells]
