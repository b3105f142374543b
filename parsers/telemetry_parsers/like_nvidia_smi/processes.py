"""The process table below the cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Process, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import CUT_PROCESSES, PROCESS_TABLE, not_a_row
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line

_TITLE = re.compile(r"[ \t|]{0,8}Process(?:es)?:", re.IGNORECASE)
_NO_PROCESSES = re.compile(r"no (?:running )?process(?:es)? found", re.IGNORECASE)
_UNIT = re.compile(r"\(([KMG]i?B)\)", re.IGNORECASE)
_GAP = r"[ \t]{1,100}"
_MEMORY = r"([0-9]{1,12}(?:\.[0-9]{1,4})?[ \t]{0,4}(?:[KMGT]i?B|B)?|N/?A|-)"
_NAME = r"(\S.{0,200}?)"
_PROCESS_COUNT = metric("processes")
_MAX_LINE_LENGTH = 400


@dataclass(slots=True)
class _ProcessCounts:
    """The process count of each card, or the reason why the counts are unknown."""

    by_position: Counter[int] = field(default_factory=Counter)
    has_body: bool = False  # whether a row or a "no processes" message was read
    absence: Absent | None = None  # why the counts are unknown


def is_process_title(line: Line) -> bool:
    """Return whether the process table starts at this line."""
    return line.ended and _TITLE.match(line.text) is not None


def read_processes(lines: Sequence[Line], draft: Draft) -> None:
    """Add the processes and each card's number of processes to the draft."""
    counts = _ProcessCounts(absence=Absent.NOT_REPORTED)
    heading_lines: list[Line] = []
    row_pattern: re.Pattern[str] | None = None
    unit: str | None = None
    for line in lines:
        text = line.text.strip()
        if row_pattern is None and is_rule(text) and any("pid" in heading.text.lower() for heading in heading_lines):
            unit = next((match[1] for heading in heading_lines if (match := _UNIT.search(heading.text))), None)
            row_pattern = _row_pattern(next(heading.text for heading in heading_lines if "pid" in heading.text.lower()))
            counts.absence = None
        elif row_pattern is None:
            heading_lines.append(line)
        elif is_rule(text):
            _report_if_blank(draft, line, counts)
            break
        elif line.ended or text.endswith("|"):
            _read_row(draft, line, row_pattern, unit, counts)
    else:
        counts.absence = Absent.NOT_REPORTED
        if lines:
            draft.add_problem(lines[-1].where, CUT_PROCESSES)
    _store_counts(draft, counts)


def _report_if_blank(draft: Draft, line: Line, counts: _ProcessCounts) -> None:
    """Report a process table with neither rows nor a "no processes" message. Its counts are unknown."""
    if not counts.has_body and counts.absence is None:
        counts.absence = Absent.NOT_REPORTED
        draft.add_problem(line.where, "the process table has neither a row nor the message that there are no processes")


def _row_pattern(heading: str) -> re.Pattern[str]:
    words = heading.lower().replace("|", " ").split()
    words_before_pid = words[: words.index("pid")][1:] if "pid" in words else []
    instance_column_count = sum(word in ("vf", "mi", "gi", "xi", "ci") for word in words_before_pid)
    parts = [r"([0-9]{1,4})", *[r"\S{1,12}"] * instance_column_count, r"([0-9]{1,18})"]
    parts += [r"[A-Z+]{1,5}"] if "type" in words else []
    return re.compile(rf"\|?[ \t]{{0,20}}{_GAP.join([*parts, _NAME, _MEMORY])}[ \t]{{0,20}}\|?\Z")


def _read_row(draft: Draft, line: Line, pattern: re.Pattern[str], unit: str | None, counts: _ProcessCounts) -> None:
    text = line.text.strip()
    match = pattern.match(text) if len(text) <= _MAX_LINE_LENGTH else None
    if _NO_PROCESSES.search(text):
        counts.has_body = True
    elif match is not None:
        _add_process(draft, match, unit, line, counts)
    elif text.strip("| \t"):
        counts.absence = Absent.NOT_UNDERSTOOD
        draft.add_problem(line.where, not_a_row(line.text, PROCESS_TABLE))


def _add_process(draft: Draft, match: re.Match[str], unit: str | None, line: Line, counts: _ProcessCounts) -> None:
    counts.has_body = True
    index, pid = int(match[1]), int(match[2])
    position = draft.positions().get(index)
    if position is None:
        draft.add_problem(line.where, f"a process uses card {index}, which is not listed")
        return
    counts.by_position[position] += 1
    used = units.quantity(match[4], units.BYTES, unit or "MiB")
    draft.processes.append(Process(position, pid, match[3].strip(), None if isinstance(used, Absent) else used))


def _store_counts(draft: Draft, counts: _ProcessCounts) -> None:
    for position in draft.positions().values():
        count: Value = counts.absence or float(counts.by_position[position])
        draft.set_value(position, _PROCESS_COUNT, count)
