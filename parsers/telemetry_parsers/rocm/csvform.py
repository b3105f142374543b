"""CSV of rocm-smi and hy-smi as a listing: `device,…` somewhere, rows `card0,…` and `system,…` below it."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from telemetry_parsers.model import Problem
from telemetry_parsers.rocm.listing import Card, Entry, Listing
from telemetry_parsers.text.lines import Line

_ROW = re.compile(r"(?:card([0-9]{1,4})|system),")
_OPENING = "device,"


def read_csv(lines: Sequence[Line]) -> Listing | None:
    """The listing of the CSV in these lines, None when no line is its heading."""
    if not any(line.text.startswith(_OPENING) for line in lines):
        return None
    heading: list[str] = []
    cards: list[Card] = []
    system: list[Entry] = []
    problems: list[Problem] = []
    for line in lines:
        if line.text.startswith(_OPENING):
            heading = _cells(line.text)
        elif heading and (match := _ROW.match(line.text)):
            cells = _whole_cells(line)
            if line.ended and len(cells) != len(heading):
                problems.append(
                    Problem(line.where, f"{len(cells)} cells below {len(heading)} headings; the row is not read")
                )
                continue
            entries = tuple(Entry(key, text, line.where) for key, text in zip(heading[1:], cells[1:], strict=False))
            if match[1] is None:
                system.extend(entries)
            else:
                cards.append(Card(int(match[1]), entries))
        if not line.ended and heading:
            problems.append(Problem(line.where, "the text ends inside this row; further cards may be missing"))
    cut = not lines[-1].ended if lines else False
    return Listing(_joined(cards), tuple(system), tuple(problems), complete=not cut)


def _whole_cells(line: Line) -> list[str]:
    """The cells that are surely whole: not the last one of a row that the text ends in."""
    cells = _cells(line.text)
    return cells if line.ended else cells[:-1]


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([text]), [])]


def _joined(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Each card once, also when several tables follow one another."""
    entries: dict[int, list[Entry]] = {}
    for card in cards:
        entries.setdefault(card.index, []).extend(card.entries)
    return tuple(Card(index, tuple(found)) for index, found in entries.items())
