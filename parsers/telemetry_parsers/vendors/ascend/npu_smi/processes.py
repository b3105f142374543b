"""The process table of npu-smi: the processes of a card between two rules, counted only where its part is whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Process, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.complaints import PROCESS_TABLE, no_row
from telemetry_parsers.text.framed import Record, TableShape, is_rule, read_table
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.npu_smi.places import Place, chip_at, places_in

# The tool shows no more than so many of a chip, so that as many may be more.
MOST_SHOWN = 8
_ID = re.compile(r"[0-9]{1,6}\Z")
_PID = re.compile(r"[0-9]{1,18}\Z")
_WORDS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("npu", "npu id", "chip"), _ID),
    "process id": _PID,
    "process id in container": re.compile(r"(?:[0-9]{1,18}|N/?A|-)\Z"),  # none for what runs on the host
    "process memory(mb)": re.compile(r"(?:[0-9.]{1,16}|N/?A|-)\Z"),
}
_OLD, _NEW = (TableShape(frozenset({*_WORDS, "process name"}), _WORDS, opening) for opening in ("npu", "npu id"))
_NONE = re.compile(r"no running processes found in npu[ \t]{1,8}([0-9]{1,6})\Z", re.IGNORECASE)


@dataclass(slots=True)
class _Counted:
    """The processes of each place so far, and the cards by what the table prints of them.

    `idle`: the words for no processes. `closed`: rows with a rule below them. `cut`: rows without. `unlisted`: cards that the
    device table lacks. `gap` is why no rows are counted, None when all of them were understood.
    """

    counts: Counter[Place] = field(default_factory=Counter)
    unlisted: dict[int, Line] = field(default_factory=dict)
    idle: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    gap: Absent | None = None


def is_process_title(line: Line) -> bool:
    """Whether this is the heading line of the process table."""
    text = line.text.lower()
    return "process id" in text and text.strip().startswith("|") and text.lstrip("| \t").startswith("npu")


def read_processes(draft: Draft, lines: Sequence[Line]) -> None:
    """Put the processes, and the number of those of each device, into the draft; the heading is the first line."""
    listed = frozenset(places_in(draft))
    is_new = lines[0].text.lower().lstrip("| \t").startswith("npu id")
    table = read_table(lines, _NEW if is_new else _OLD)
    counted = _Counted()
    draft.name_unknown(*table.unknown)
    for line in table.unread:
        _take_other(draft, line, counted)
    last_rule = max((line.number for line in lines if is_rule(line.text) and "=" in line.text), default=0)
    for record in table.records:
        _take(draft, record, counted, listed, closed=record.line.number < last_rule)
    is_empty = not listed and not table.records and is_rule(lines[-1].text)
    if not table.closed and not is_empty:
        draft.complain(lines[-1].where, f"the process table is cut off below {quote(lines[-1].text)!r}")
    for card, line in counted.unlisted.items():
        draft.complain(line.where, f"processes of NPU {card}, which the device table lacks")
    if not listed:
        for card in sorted((counted.idle | counted.closed) - {place.card for place in places_in(draft)}):
            chip_at(draft, Place(card))
    for place in places_in(draft):
        draft.give(chip_at(draft, place), metric("processes"), _number(counted, place))


def _take_other(draft: Draft, line: Line, counted: _Counted) -> None:
    """A line that is no row: the word that a card has no processes, or something that nobody knows."""
    idle = _NONE.match(line.text.strip().strip("|").strip()) if line.ended else None
    if idle is not None:
        counted.idle.add(int(idle[1]))
    elif line.ended and not is_rule(line.text):
        counted.gap = Absent.NOT_UNDERSTOOD if "|" in line.text else counted.gap
        draft.complain(line.where, no_row(line.text, PROCESS_TABLE))


def _take(draft: Draft, record: Record, counted: _Counted, listed: frozenset[Place], *, closed: bool) -> None:
    """A row of the table; one that ends with the text is no row yet."""
    cells = {heading: value.text for heading, value in record.values.items()}
    card = units.whole(cells.get("npu", cells.get("npu id", "")))
    pid = units.whole(cells.get("process id", ""))
    if not record.line.ended:
        return
    if card is None or pid is None or record.misfits:
        counted.gap = Absent.NOT_UNDERSTOOD
        draft.complain(record.line.where, no_row(record.line.text, PROCESS_TABLE))
        return
    place = Place(card, units.whole(cells.get("chip", "")))
    if listed and place not in listed:
        counted.unlisted.setdefault(card, record.line)
        return
    (counted.closed if closed else counted.cut).add(card)
    counted.counts[place] += 1
    memory = units.quantity(cells.get("process memory(mb)", ""), units.BYTES, "MB")
    used = None if isinstance(memory, Absent) else memory
    draft.processes.append(Process(chip_at(draft, place), pid, cells.get("process name", ""), used))


def _number(counted: _Counted, place: Place) -> Value:
    if place.card in counted.idle and not counted.counts[place]:
        return 0.0
    if counted.gap is not None:
        return counted.gap
    if place.card not in counted.closed or place.card in counted.cut or counted.counts[place] >= MOST_SHOWN:
        return Absent.NOT_REPORTED
    return float(counted.counts[place])
