"""The cells of a table whose heading announces an identity: in CSV, between tabs, semicolons or bars, or below a heading among blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_daemon.masking.shapes import Treatment, treatment_of_key

_SEPARATORS = ",\t;|"
_ROUND_A_CELL = " \t\"'"
# A longer line belongs to no table.
_LONGEST_LINE = 20_000
_LONGEST_HEADING = 60
# Two words at least, two blanks apart; a line with a number or a colon is a row.
_BLANK_HEADING = re.compile(r"[^\d:|,;\t]*[^\s\d:|,;\t] {2,}[^\d:|,;\t]+\Z")
_WORD = re.compile(r"\S+")
_NAME_IN_A_CELL = re.compile(r"[\w.-]*[^\W\d_][\w.-]*\Z")


@dataclass(frozen=True, slots=True)
class _Heading:
    separator: str
    cells: int
    treatments: dict[int, Treatment]


def announced(text: str) -> Iterator[tuple[int, int, Treatment]]:
    """The start and end of each cell below a heading that announces an identity, with its treatment."""
    heading: _Heading | None = None
    below: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        yield from _words_below(line, start, below)
        below = _blank_heading(line) or (below if line.strip() else [])
        line_heading = _heading(line) if len(line) <= _LONGEST_LINE else None
        if line_heading is None and heading is not None:
            yield from _cells(line, start, heading)
        heading = line_heading or (heading if line.strip() else None)
        start += len(line) + 1


def _blank_heading(line: str) -> list[tuple[int, int]]:
    """Return where the words of a heading are that announce names, between words that are two blanks apart."""
    if len(line) > _LONGEST_LINE or not _BLANK_HEADING.match(line):
        return []
    return [word.span() for word in _WORD.finditer(line) if _announces_names(word[0])]


def _announces_names(word: str) -> bool:
    """Return whether the heading of a table is one word for hosts or people; `Node` alone may also be a number's key elsewhere."""
    return word == "Node" or (word.isalpha() and treatment_of_key(word) == "names")


def _words_below(line: str, start: int, below: list[tuple[int, int]]) -> Iterator[tuple[int, int, Treatment]]:
    """Yield the words that are below a word of the heading, if only in part: columns are aligned left or right."""
    for word in _WORD.finditer(line) if below and len(line) <= _LONGEST_LINE else ():
        is_below = any(word.start() < end and begin < word.end() for begin, end in below)
        if is_below and _NAME_IN_A_CELL.match(word[0]):  # others have a shape of their own
            yield start + word.start(), start + word.end(), "names"


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
        if separator == "|":  # a table that is drawn may have headings of several lines: only names are sure
            by_place = {place: "names" if _announces_names(cell.strip()) else None for place, cell in enumerate(cells)}
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
