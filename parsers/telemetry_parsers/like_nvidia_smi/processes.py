"""The process table below the cards. Processes are counted only if the table is complete and every row is understood."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Process, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import CUT_PROCESSES, PROCESS_TABLE, no_row
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line

_TITLE = re.compile(r"[ \t|]{0,8}Process(?:es)?:", re.IGNORECASE)
_NONE = re.compile(r"no (?:running )?process(?:es)? found", re.IGNORECASE)
_UNIT = re.compile(r"\(([KMG]i?B)\)", re.IGNORECASE)
_GAP = r"[ \t]{1,100}"
_MEMORY = r"([0-9]{1,12}(?:\.[0-9]{1,4})?[ \t]{0,4}(?:[KMGT]i?B|B)?|N/?A|-)"
_NAME = r"(\S.{0,200}?)"
_TARGET = metric("processes")
_LONGEST = 400


@dataclass(slots=True)
class _Counted:
    """The processes of each card so far. `has_body`: there is a row, or the message that there are none. `gap` is why none are counted."""

    counts: Counter[int] = field(default_factory=Counter)
    has_body: bool = False
    gap: Absent | None = None


def is_process_title(line: Line) -> bool:
    """Return whether the process table starts at this line."""
    return line.ended and _TITLE.match(line.text) is not None


def read_processes(lines: Sequence[Line], draft: Draft) -> None:
    """Put the processes, and the number of processes of each card, into the draft."""
    counted = _Counted(gap=Absent.NOT_REPORTED)
    heads: list[Line] = []
    row: re.Pattern[str] | None = None
    unit: str | None = None
    for line in lines:
        text = line.text.strip()
        if row is None and is_rule(text) and any("pid" in head.text.lower() for head in heads):
            unit = next((match[1] for head in heads if (match := _UNIT.search(head.text))), None)
            row = _row_pattern(next(head.text for head in heads if "pid" in head.text.lower()))
            counted.gap = None
        elif row is None:
            heads.append(line)
        elif is_rule(text):
            _require_body(draft, line, counted)
            break
        elif line.ended or text.endswith("|"):
            _take(draft, line, row, unit, counted)
    else:
        counted.gap = Absent.NOT_REPORTED
        if lines:
            draft.complain(lines[-1].where, CUT_PROCESSES)
    _count(draft, counted)


def _require_body(draft: Draft, line: Line, counted: _Counted) -> None:
    """Count nothing for a blank table: a tool without permission to see the processes also prints one."""
    if not counted.has_body and counted.gap is None:
        counted.gap = Absent.NOT_REPORTED
        draft.complain(line.where, "the process table has no row and does not say that there is none")


def _row_pattern(head: str) -> re.Pattern[str]:
    """Return the pattern of the rows below this heading: card, instance, process, type, name, memory."""
    words = head.lower().replace("|", " ").split()
    before = words[: words.index("pid")][1:] if "pid" in words else []
    instances = sum(word in ("vf", "mi", "gi", "xi", "ci") for word in before)
    parts = [r"([0-9]{1,4})", *[r"\S{1,12}"] * instances, r"([0-9]{1,18})"]
    parts += [r"[A-Z+]{1,5}"] if "type" in words else []
    return re.compile(rf"\|?[ \t]{{0,20}}{_GAP.join([*parts, _NAME, _MEMORY])}[ \t]{{0,20}}\|?\Z")


def _take(draft: Draft, line: Line, row: re.Pattern[str], unit: str | None, counted: _Counted) -> None:
    text = line.text.strip()
    match = row.match(text) if len(text) <= _LONGEST else None
    if _NONE.search(text):
        counted.has_body = True
    elif match is not None:
        _add(draft, match, unit, line, counted)
    elif text.strip("| \t"):
        counted.gap = Absent.NOT_UNDERSTOOD
        draft.complain(line.where, no_row(line.text, PROCESS_TABLE))


def _add(draft: Draft, match: re.Match[str], unit: str | None, line: Line, counted: _Counted) -> None:
    counted.has_body = True
    card, pid = int(match[1]), int(match[2])
    position = draft.positions().get(card)
    if position is None:
        draft.complain(line.where, f"a process of card {card}, which is not listed")
        return
    counted.counts[position] += 1
    used = units.quantity(match[4], units.BYTES, unit or "MiB")
    draft.processes.append(Process(position, pid, match[3].strip(), None if isinstance(used, Absent) else used))


def _count(draft: Draft, counted: _Counted) -> None:
    for position in draft.positions().values():
        count: Value = counted.gap or float(counted.counts[position])
        draft.give(position, _TARGET, count)
