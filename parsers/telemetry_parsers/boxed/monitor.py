"""Columns of a monitor: two marked heading lines, names above units, and a row of words for each card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telemetry_parsers import units
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.text.complaints import misfit
from telemetry_parsers.text.lines import Line

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Monitor:
    """One tool's monitor: what its heading lines begin with, its columns by name and unit in lower case.

    A mark that is no word of its own, `*`, is left off the first name.
    """

    marks: tuple[str, ...]
    index: str
    columns: Mapping[tuple[str, str], Target]
    quiet: frozenset[str]


def is_monitor(lines: Sequence[Line], shape: Monitor) -> bool:
    """Whether the heading of the monitor is in these lines."""
    return any(_heading(line, shape)[:1] == [shape.index] for line in lines)


def read_monitor(lines: Sequence[Line], shape: Monitor, draft: Draft) -> None:
    """Put the rows into the draft; of several rows of a card the last is its newest, and the first number counts."""
    heads: list[list[str]] = []
    for line in _newest_first(lines, shape):
        heading = _heading(line, shape)
        if heading and len(heads) < 2:
            heads.append(heading)
            if len(heads) == 2:
                _name_unknown(heads, shape, draft)
        elif len(heads) == 2 and not heading and line.text.strip():
            _take(line, heads, shape, draft)


def _newest_first(lines: Sequence[Line], shape: Monitor) -> list[Line]:
    """The heading lines, then the rows from the last to the first, in the order of their cards."""
    heads = [line for line in lines if _heading(line, shape)]
    start = next((at for at, line in enumerate(lines) if _heading(line, shape)), len(lines))
    rows: dict[str, Line] = {}
    for line in lines[start:]:
        words = _words(line.text[:_LONGEST])
        if words and not _heading(line, shape) and (line.ended or words[0] not in rows):
            rows[words[0]] = line
    return [*heads, *rows.values()]


def _heading(line: Line, shape: Monitor) -> list[str]:
    text = line.text.strip()
    if not line.ended or not text.startswith(shape.marks) or len(text) > _LONGEST:
        return []
    return _words(text.lstrip("*").lower())


def _words(text: str) -> list[str]:
    """What stands between commas, or between blanks where there is none."""
    return [part.strip() for part in text.split(",")] if "," in text else text.split()


def _name_unknown(heads: Sequence[Sequence[str]], shape: Monitor, draft: Draft) -> None:
    names, units_below = heads
    for name, unit in zip(names[1:], units_below[1:], strict=False):
        if (name, unit) not in shape.columns and name not in shape.quiet:
            draft.name_unknown(f"{name} ({unit})")


def _take(line: Line, heads: Sequence[Sequence[str]], shape: Monitor, draft: Draft) -> None:
    names, units_below = heads
    words = _words(line.text[:_LONGEST])
    index = units.whole(words[0])
    if len(words) != len(names) or len(names) != len(units_below) or index is None:
        draft.complain(line.where, misfit(line.text))
    else:
        device = draft.device(index)
        whole = words[1:] if line.ended else words[1:-1]  # the last word may be a fragment
        for name, unit, word in zip(names[1:], units_below[1:], whole, strict=False):
            target = shape.columns.get((name, unit))
            if target is not None:
                draft.take(device, (target,), word, line.where)
