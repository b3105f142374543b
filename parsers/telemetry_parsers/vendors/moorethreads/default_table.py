"""Reads the default table of mthreads-gmi in both layouts, and its process table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import Column, column
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, read_cards
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import fact, identity, metric, switch
from telemetry_parsers.text.answers import CUT_PROCESSES, PROCESS_TABLE, not_a_row, not_understood
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.moorethreads.keys import ECC_WORDS

# A pair such as `1339MiB(16384MiB)` or `16x(16x)`, possibly cut off at the bracket.
_PAIR_PATTERN = r"(?:N/A|-|([^\s()]{1,40})\((?:([^\s()]{1,40})\))?)"
# The last value of a cell may be missing, so its pattern is optional.
_COLUMNS: Mapping[str, Column] = {
    "id": column(patterns.ID, identity("index")),
    "name": column(f"{patterns.NAME}?", identity("model")),
    "pcie": column(patterns.NAME, identity("bus_id")),
    "%gpu": column(patterns.WORD, metric("utilization_ratio")),
    "mem": column(_PAIR_PATTERN, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "device type": column(patterns.NAME, fact("device_type")),
    "perf": column(r"(P[0-9]{1,2}|N/A|-)?", metric("performance_state")),
    "pcie lane width": column(_PAIR_PATTERN, metric("pcie_link_width"), metric("pcie_link_width_max")),
    "temp": column(patterns.WORD, metric("temperature_celsius", "core")),
    "mpc capable": column(f"{patterns.WORD}?", fact("mpc_capable")),
    "ecc mode": column(patterns.NAME, (switch("ecc_enabled", ECC_WORDS), fact("ecc_mode"))),
}
TABLE = CardTableShape(
    columns=_COLUMNS,
    required_headings=frozenset({"id", "name"}),
    # The version must follow the name, because the tool also prints its name before error texts.
    banner=re.compile(r"\bmthreads-gmi:[ \t]{0,8}[0-9]"),
    versions=(
        ("tool_version", re.compile(r"\bmthreads-gmi:[ \t]{0,8}(\S{1,64})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,64})(?=\s)")),
    ),
    expected_starts=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
    separator="+",
)
_METRIC_TARGETS = tuple(
    target for cell in _COLUMNS.values() for group in cell.targets for target in group if target.kind == "metric"
)


def read_table(lines: Sequence[Line], table: CardTableShape, draft: Draft) -> None:
    """Add the cards and their processes to the draft."""
    process_lines = read_cards(lines, table, draft)
    for device in range(draft.device_count()):
        for target in _METRIC_TARGETS:
            if not draft.has_reading(device, target):
                draft.set_value(device, target, Absent.NOT_REPORTED)
    _store_processes(_read_rows(process_lines, draft) if process_lines else Absent.NOT_REPORTED, draft)


_TITLE = "processes:"
_PROCESS_COLUMNS = ("id", "pid", "process name")
_PROCESS_HEADINGS = frozenset({*_PROCESS_COLUMNS, "gpu memory", "usage", "gpu memory usage"})
_NO_PROCESSES = "no running processes found"
_PROCESS_COUNT = metric("processes")


@dataclass(frozen=True, slots=True)
class _ProcessRow:
    """A row of the process table. The memory is None if it is unknown."""

    index: int
    pid: int
    name: str
    memory_used_bytes: float | None


# The rows of the process table, or why the number of processes is unknown.
_Rows = list[_ProcessRow] | Absent


def read_process_table(lines: Sequence[Line], draft: Draft) -> None:
    """Add the cards and processes of a process table that has no complete card table above it."""
    title_index = next(index for index, line in enumerate(lines) if is_process_title(line))
    for line in lines[:title_index]:
        if line.text.strip() and not is_rule(line.text):
            draft.is_cut = True  # the lines above the title are the end of a truncated card table
            draft.add_problem(line.where, not_understood(line.text))
    rows = _read_rows(lines[title_index:], draft)
    for index in [] if isinstance(rows, Absent) else sorted({row.index for row in rows}):
        draft.device(index)
    draft.is_open = True  # the table lists only cards with processes
    _store_processes(rows, draft)


def is_process_title(line: Line) -> bool:
    """Return whether a line is the title of a process table."""
    return line.ended and line.text.strip().lower() == _TITLE


def _store_processes(rows: _Rows, draft: Draft) -> None:
    positions = draft.positions()
    known_rows = [] if isinstance(rows, Absent) else rows
    counts = Counter(row.index for row in known_rows)
    for index in sorted(counts.keys() - positions.keys()):
        draft.add_problem("Processes", f"card {index} has processes, but is not listed")
    for row in known_rows:
        if row.index in positions:
            draft.processes.append(Process(positions[row.index], row.pid, row.name, row.memory_used_bytes))
    for index, position in positions.items():
        draft.set_value(position, _PROCESS_COUNT, rows if isinstance(rows, Absent) else float(counts[index]))


def _read_rows(lines: Sequence[Line], draft: Draft) -> _Rows:
    """Return the rows below the title, or an `Absent` value if rows may be missing."""
    body_index = next((index for index, line in enumerate(lines) if is_rule(line.text) or _is_no_processes(line)), None)
    if body_index is None:
        return _report_truncation(lines, draft)
    names = [name for line in lines[1:body_index] for name in headings_in(line.text, _PROCESS_HEADINGS)]
    unknown_names = [name for name in names if name not in _PROCESS_HEADINGS]
    if unknown_names or (names and tuple(names[: len(_PROCESS_COLUMNS)]) != _PROCESS_COLUMNS):
        draft.add_unknown(*unknown_names)
        draft.add_problem(lines[body_index].where, f"the process table has other columns: {quote(' | '.join(names))}")
        return Absent.NOT_UNDERSTOOD
    return _read_body(lines, body_index + is_rule(lines[body_index].text), draft)


def _read_body(lines: Sequence[Line], start: int, draft: Draft) -> _Rows:
    """Return the rows between the rule below the headings and the rule that closes the table."""
    rows: list[_ProcessRow] = []
    is_empty = False
    for index, line in enumerate(lines[start:], start):
        if is_rule(line.text):
            _report_lines_below(lines[index + 1 :], draft)
            return rows if rows or is_empty else _report_blank_table(line, draft)
        row = _parse_row(line.text) if line.ended else None
        if row is not None:
            rows.append(row)
        elif _is_no_processes(line) and line.ended:
            is_empty = True
        elif line.ended and line.text.strip():
            # The tool's query may have failed, so the line does not mean that there are no processes.
            draft.add_problem(line.where, not_a_row(line.text, PROCESS_TABLE))
            return Absent.NOT_UNDERSTOOD
    return [] if is_empty and not rows else _report_truncation(lines, draft)


def _is_no_processes(line: Line) -> bool:
    return line.text.strip().lower() == _NO_PROCESSES


def _parse_row(text: str) -> _ProcessRow | None:
    """Parse a row such as `0  2022  .../bin/app  1333MiB`. Return None for other lines."""
    words = text.split(maxsplit=2)
    if len(words) < 3:
        return None
    index, pid = units.integer(words[0]), units.integer(words[1])
    *names, memory = words[2].rsplit(maxsplit=1)
    used = units.quantity(memory, units.BYTES)
    if index is None or pid is None or used is Absent.NOT_UNDERSTOOD or used is Absent.IMPLAUSIBLE:
        return None
    return _ProcessRow(index, pid, "".join(names), None if isinstance(used, Absent) else used)


def _report_lines_below(lines: Sequence[Line], draft: Draft) -> None:
    for line in lines:
        if line.text.strip():
            draft.add_problem(line.where, not_understood(line.text))


def _report_blank_table(line: Line, draft: Draft) -> Absent:
    draft.add_problem(line.where, f"the process table has neither a row nor the message {_NO_PROCESSES!r}")
    return Absent.NOT_REPORTED


def _report_truncation(lines: Sequence[Line], draft: Draft) -> Absent:
    draft.add_problem(lines[-1].where, CUT_PROCESSES)
    return Absent.NOT_REPORTED
