"""The process table of mthreads-gmi: one line a process, without frame, and a count only when all of it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, quote

_TITLE = "processes:"
_COLUMNS = ("id", "pid", "process name")
_HEADINGS = frozenset({*_COLUMNS, "gpu memory", "usage", "gpu memory usage"})
_NONE = "no running processes found"
_MOST_HEADINGS = 64


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process as printed; its memory is None where the tool says nothing of it."""

    index: int
    pid: int
    name: str
    memory_used_bytes: float | None


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """What the process table says; `gap` tells why the rows are not all, None when they are."""

    rows: tuple[ProcessRow, ...] = ()
    gap: Absent | None = None
    problems: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    rest: tuple[Line, ...] = ()


def is_title(line: Line) -> bool:
    """Whether the process table begins with this line."""
    return line.ended and line.text.strip().lower() == _TITLE


def read_processes(lines: Sequence[Line]) -> ProcessTable:
    """The table whose title is the first of these lines; `rest` is what follows its closing rule."""
    names: list[str] = []
    for position, line in enumerate(lines[1:], 1):
        text = line.text.strip()
        if is_rule(text) or text.lower() == _NONE:
            body = lines[position + 1 if is_rule(text) else position :]
            return _unknown_columns(line, names) or _read_rows(lines, body)
        names.extend(headings_in(text, _HEADINGS) if text else ())
        if len(names) > _MOST_HEADINGS:
            return _unknown_columns(line, names) or _cut(lines)
    return _cut(lines)


def _unknown_columns(line: Line, names: Sequence[str]) -> ProcessTable | None:
    unknown = tuple(name for name in names if name not in _HEADINGS)
    if not unknown and (not names or tuple(names[: len(_COLUMNS)]) == _COLUMNS):
        return None
    problem = Problem(line.where, f"the process table has other columns: {quote(' | '.join(names))}")
    return ProcessTable(gap=Absent.NOT_UNDERSTOOD, problems=(problem,), unknown=unknown)


def _read_rows(lines: Sequence[Line], body: Sequence[Line]) -> ProcessTable:
    rows: list[ProcessRow] = []
    said_none = False
    for position, line in enumerate(body):
        text = line.text.strip()
        if is_rule(text):
            rest = tuple(body[position + 1 :])
            return ProcessTable(tuple(rows), rest=rest) if rows or said_none else _empty(line, rest)
        if not text:
            continue
        row = _row(text) if line.ended else None
        if row is not None:
            rows.append(row)
        elif text.lower() == _NONE and line.ended:
            said_none = True
        elif line.ended:
            # Also the line that the tool prints when its own query failed: it is not "none".
            problem = Problem(line.where, f"no row of the process table: {quote(text)}")
            return ProcessTable(gap=Absent.NOT_UNDERSTOOD, problems=(problem,))
    return ProcessTable() if said_none and not rows else _cut(lines)


def _row(text: str) -> ProcessRow | None:
    """A row such as `0  2022  .../bin/app  1333MiB`; the name may be cut at its left, blank, or hold blanks."""
    words = text.split(maxsplit=2)
    if len(words) < 3:
        return None
    index, pid = units.whole(words[0]), units.whole(words[1])
    *names, memory = words[2].rsplit(maxsplit=1)
    used = units.quantity(memory, units.BYTES)
    if index is None or pid is None or used is Absent.NOT_UNDERSTOOD or used is Absent.IMPLAUSIBLE:
        return None
    return ProcessRow(index, pid, "".join(names), None if isinstance(used, Absent) else used)


def _empty(line: Line, rest: Sequence[Line]) -> ProcessTable:
    problem = Problem(line.where, f"the process table has no row and does not say {_NONE!r}")
    return ProcessTable(gap=Absent.NOT_REPORTED, problems=(problem,), rest=tuple(rest))


def _cut(lines: Sequence[Line]) -> ProcessTable:
    problem = Problem(lines[-1].where, "the process table is cut off here; the processes are not counted")
    return ProcessTable(gap=Absent.NOT_REPORTED, problems=(problem,))
