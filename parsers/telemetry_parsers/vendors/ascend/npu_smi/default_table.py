"""Reads the default table of npu-smi in all its layouts, and the process table below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Device, Problem, Process, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.answers import PROCESS_TABLE, listed_twice, not_a_row, not_understood, several_runs
from telemetry_parsers.text.framed import Record, TableShape, headings_in, is_rule, read_table
from telemetry_parsers.text.framed import Value as Cell
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.ascend.npu_smi.keys import HEALTH_TARGET, PHYSICAL_SPACE, split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import Slot, ensure_chip, slots_in

_ABSENT = r"[A-Za-z]{1,12}|N/A|-{1,3}"
_NUMBER = re.compile(rf"(?:-?[0-9.]{{1,16}}[%A-Za-z]{{0,2}}|{_ABSENT})\Z")
_PAIR = re.compile(rf"(?:[^\s/]{{1,24}}/[^\s/]{{1,24}}|{_ABSENT})\Z")
_ID = re.compile(r"[0-9]{1,6}\Z")
# The used and total memory: `3412 / 65536`. A number of five digits has no blank before the slash.
_SLASH = re.compile(r"[ \t]{0,32}/[ \t]{0,32}")
_PAIR_HEADINGS = tuple(
    f"{name}({unit})" for name in ("memory-usage", "hbm-usage") for unit in ("mb", "mib", "gb", "gib", "kb", "kib")
)
_POWER_HEADINGS = ("power(w)", "power(mw)")
_NUMBER_HEADINGS = (*_POWER_HEADINGS, "temp(c)", "aicore(%)", "ai core(%)", "npu util(%)")
_WORD_PATTERNS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(_NUMBER_HEADINGS, _NUMBER),
    **dict.fromkeys((*_PAIR_HEADINGS, "hugepages-usage(page)"), _PAIR),
    **dict.fromkeys(("npu", "npu id", "chip", "phy-id"), _ID),
    "device": re.compile(r"(?:[0-9]{1,6}|N/?A|-)\Z"),
    "bus-id": re.compile(r"(?:[0-9A-Fa-f:.]{1,20}|N/?A|-)\Z"),
    "health": re.compile(r"[A-Za-z][A-Za-z_/ -]{0,24}\Z"),
}
# In tables of Ascend 950 (`npu id`), the card's id and name are separate cells.
_SHAPES = tuple(
    TableShape(frozenset({*_WORD_PATTERNS, "name"}), _WORD_PATTERNS, opening) for opening in ("npu id", "npu")
)  # fmt: skip
_BANNER = re.compile(r"npu-smi[ \t]{1,8}(?:v|version[ \t]{0,4}:?[ \t]{0,4})?([^\s|]{1,64})(?=[\s|])", re.IGNORECASE)
_DRIVER = re.compile(r"Version:[ \t]{0,8}([^\s|]{1,64})(?=[\s|])")

_MIN_VERSION_WITH_PROCESSES = 23  # the first version that always prints a process table; 22.0.3.1 does not

# The utilization of the AI cores is read if it is printed, otherwise the utilization of the whole chip.
_AI_CORE_HEADINGS = ("aicore(%)", "ai core(%)")
_WHOLE_CHIP_HEADING = "npu util(%)"
_READINGS: tuple[tuple[tuple[str, ...], Target], ...] = (
    (_POWER_HEADINGS, metric("power_watts")),
    (("temp(c)",), metric("temperature_celsius", "core")),
    ((*_AI_CORE_HEADINGS, _WHOLE_CHIP_HEADING), metric("utilization_ratio")),
)
_ENGINES = (
    *((name, metric("engine_utilization_ratio", "aicore")) for name in _AI_CORE_HEADINGS),
    (_WHOLE_CHIP_HEADING, metric("engine_utilization_ratio", "npu")),
)
_MEMORY = (metric("memory_used_bytes"), metric("memory_total_bytes"))
# These tables contain the metrics that the parser declares.
TABLES = (_READINGS, _ENGINES, _MEMORY, HEALTH_TARGET)


def is_table(line: Line) -> bool:
    """Return whether a line is the first heading line of the device table or the process table."""
    return line.ended and (_find_shape(line) is not None or _is_process_title(line))


def read_chips(lines: Sequence[Line], draft: Draft) -> None:
    """Add the chips and processes of the last run of the tool to the draft."""
    lines, run_count = _last_run(lines)
    end = next((index for index, line in enumerate(lines) if _is_process_title(line)), len(lines))
    shape = next((layout for line in lines[:end] if (layout := _find_shape(line)) is not None), _SHAPES[1])
    # Each pair of values becomes one word, and a pair of placeholders becomes one placeholder.
    joined_lines = [replace(line, text=_SLASH.sub("/", line.text).replace("N/A/N/A", "N/A")) for line in lines[:end]]
    table = read_table(joined_lines, shape)
    draft.add_unknown(*table.unknown_headings)
    if run_count > 1:
        draft.add_problem("text", several_runs(run_count))
    driver = _read_versions(lines[:end], draft)
    id_headings = frozenset(key for key in ("chip", "phy-id") if any(_has_heading(line, key) for line in lines[:end]))
    index_kinds = {_add_chip(draft, record, driver, id_headings) for record in table.records} - {None}
    unread_lines = (line for line in table.unread_lines if not _is_expected(line))
    draft.problems.extend(Problem(line.where, not_understood(line.text)) for line in unread_lines)
    draft.is_open = end == len(lines)
    if draft.is_open and not (
        table.has_headings and table.is_complete and _may_omit_processes(lines, draft.tool_version)
    ):
        draft.is_cut = True
        draft.problems.insert(0, Problem(lines[-1].where, "the device table is cut off here; chips may be missing"))
    if end < len(lines):
        _read_processes(draft, lines[end:])
    draft.index_space = _index_space(draft, index_kinds)


def _may_omit_processes(lines: Sequence[Line], version: str | None) -> bool:
    """Return whether complete output may have no process table: without HBM, or from an old version."""
    has_hbm = any("hbm-usage" in line.text.lower() for line in lines)
    major = units.integer((version or "").partition(".")[0])
    return not has_hbm or (major is not None and major < _MIN_VERSION_WITH_PROCESSES)


def _last_run(lines: Sequence[Line]) -> tuple[Sequence[Line], int]:
    starts = [index for index, line in enumerate(lines) if _is_banner(line)]
    return (lines[starts[-1] :] if len(starts) > 1 else lines), len(starts)


def _is_banner(line: Line) -> bool:
    return line.text.strip().startswith("|") and _BANNER.search(line.text) is not None


def _find_shape(line: Line) -> TableShape | None:
    """Return the shape of the table with this heading line, or None for other lines."""
    if "|" not in line.text or _is_process_title(line):
        return None
    first_cell = next((text for text in line.text.split("|", 2)[:2] if text.strip()), "")
    for shape in _SHAPES:
        names = headings_in(first_cell, shape.headings)
        if names and names[0] == shape.first_heading and "health" in line.text.lower():
            return shape
    return None


def _read_versions(lines: Sequence[Line], draft: Draft) -> str | None:
    """Set the tool's version in the draft. Return the driver's version."""
    banner = next((line for line in lines if _is_banner(line)), None)
    if banner is None:
        return None
    text = banner.text + ("\n" if banner.ended else "")
    tool, driver = _BANNER.search(text), _DRIVER.search(text)
    draft.tool_version = units.text_or_none(tool[1]) if tool else None
    return units.text_or_none(driver[1]) if driver else None


def _has_heading(line: Line, name: str) -> bool:
    return "|" in line.text and name in line.text.lower().replace("|", " ").split()


def _add_chip(draft: Draft, record: Record, driver: str | None, id_headings: frozenset[str]) -> str | None:
    """Add a chip. Return the kind of its index (`phy-id` or `card`), or None for an invalid row."""
    cells = record.values
    card = _cell_number(cells, "npu", "npu id")
    if card is None or "health" not in cells or "phy-id" in id_headings - cells.keys():
        draft.add_problem(record.line.where, not_a_row(record.line.text))
        return None
    slot = Slot(card, _cell_number(cells, "chip"))
    if draft.has_device(slot):
        draft.add_problem(record.line.where, listed_twice(f"NPU {card}"))
        return None
    device, physical_id = ensure_chip(draft, slot), _cell_number(cells, "phy-id")
    bus_id = bus_address(cells["bus-id"].text) if "bus-id" in cells else None
    template = Device(draft.vendor, model=_cell_text(cells, "name"), bus_id=bus_id, driver=driver)
    if "chip" in id_headings - cells.keys() and not record.misfits:
        draft.add_problem(record.line.where, f"NPU {card} is listed without a chip number")
    draft.set_index(device, physical_id)
    draft.describe(device, template, {"device_id": _cell_text(cells, "device")})
    _store_readings(draft, device, cells)
    for line in record.misfits:
        draft.add_problem(line.where, f"cells match no heading: {quote(line.text)}")
    return "card" if physical_id is None else "phy-id"


def _store_readings(draft: Draft, device: int, cells: Mapping[str, Cell]) -> None:
    draft.store(device, (HEALTH_TARGET,), cells["health"].text, cells["health"].line.where)
    for headings, target in _READINGS:
        cell = next((cells[heading] for heading in headings if heading in cells), None)
        if cell is None:
            draft.set_value(device, target, Absent.NOT_REPORTED)
        else:
            draft.store(device, (target,), cell.text, cell.line.where, split_key(cell.heading)[1])
    for heading, target in _ENGINES:
        if heading in cells:
            cell = cells[heading]
            draft.store(device, (target,), cell.text, cell.line.where, split_key(heading)[1])
    _store_memory(draft, device, cells)


def _store_memory(draft: Draft, device: int, cells: Mapping[str, Cell]) -> None:
    """Store the used and total memory: HBM if the chip has HBM, else DDR."""
    memory_cells = [
        cells[heading]
        for kind in ("hbm", "memory")
        for heading in _PAIR_HEADINGS
        if heading in cells and heading.startswith(kind)
    ]
    cell = next((cell for cell in memory_cells if cell.text.replace(" ", "") != "0/0"), None)
    halves = cell.text.split("/") if cell and units.placeholder(cell.text) is None else []
    for index, target in enumerate(_MEMORY):
        if cell is None:
            draft.set_value(device, target, Absent.NOT_REPORTED)
        elif len(halves) == 2:
            draft.store(device, (target,), halves[index], cell.line.where, split_key(cell.heading)[1])
        else:
            value = units.placeholder(cell.text) or Absent.NOT_UNDERSTOOD
            draft.set_value(device, target, value, cell.text, cell.line.where)


def _cell_number(cells: Mapping[str, Cell], *headings: str) -> int | None:
    return next((units.integer(cells[heading].text) for heading in headings if heading in cells), None)


def _cell_text(cells: Mapping[str, Cell], heading: str) -> str | None:
    return units.text_or_none(cells[heading].text) if heading in cells else None


def _index_space(draft: Draft, index_kinds: set[str | None]) -> str:
    """Return PHYSICAL_SPACE if all indices are physical ids, else an empty string."""
    cards = [slot.card for slot in slots_in(draft)]
    has_single_chips = len(set(cards)) == len(cards)
    return PHYSICAL_SPACE if index_kinds == {"phy-id"} or (index_kinds == {"card"} and has_single_chips) else ""


def _is_expected(line: Line) -> bool:
    """Return whether a line outside the table's rows is the banner, blank or part of a rule."""
    return _is_banner(line) or is_rule(line.text) or not line.text.strip("+-=| \t")


# The tool lists at most this many processes per chip. A list of this length may be incomplete.
_MAX_LISTED_PROCESSES = 8
_PID = re.compile(r"[0-9]{1,18}\Z")
_PROCESS_CELL_PATTERNS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("npu", "npu id", "chip"), _ID),
    "process id": _PID,
    "process id in container": re.compile(r"(?:[0-9]{1,18}|N/?A|-)\Z"),  # not a number if the process runs on the host
    "process memory(mb)": re.compile(r"(?:[0-9.]{1,16}|N/?A|-)\Z"),
}
_OLD_PROCESS_SHAPE, _NEW_PROCESS_SHAPE = (
    TableShape(frozenset({*_PROCESS_CELL_PATTERNS, "process name"}), _PROCESS_CELL_PATTERNS, opening)
    for opening in ("npu", "npu id")
)
_NO_PROCESSES = re.compile(r"no running processes found in npu[ \t]{1,8}([0-9]{1,6})\Z", re.IGNORECASE)


@dataclass(slots=True)
class _ProcessCounts:
    """The process count of each chip, and the cards whose counts are complete."""

    counts: Counter[Slot] = field(default_factory=Counter)
    unlisted_cards: dict[int, Line] = field(default_factory=dict)  # cards that are missing from the device table
    idle_cards: set[int] = field(default_factory=set)  # cards with the message that there are no processes
    closed_cards: set[int] = field(default_factory=set)  # cards whose rows end with a rule, so no row is missing
    cut_cards: set[int] = field(default_factory=set)  # cards whose rows do not end with a rule, so rows may be missing
    absence: Absent | None = None  # the reason why rows cannot be counted, if any


def _is_process_title(line: Line) -> bool:
    text = line.text.lower()
    return "process id" in text and text.strip().startswith("|") and text.lstrip("| \t").startswith("npu")


def _read_processes(draft: Draft, lines: Sequence[Line]) -> None:
    slots = frozenset(slots_in(draft))
    is_new = lines[0].text.lower().lstrip("| \t").startswith("npu id")
    table = read_table(lines, _NEW_PROCESS_SHAPE if is_new else _OLD_PROCESS_SHAPE)
    tally = _ProcessCounts()
    draft.add_unknown(*table.unknown_headings)
    for line in table.unread_lines:
        _read_other_line(draft, line, tally)
    last_rule = max((line.number for line in lines if is_rule(line.text) and "=" in line.text), default=0)
    for record in table.records:
        _read_row(draft, record, tally, slots, is_closed=record.line.number < last_rule)
    is_empty = not slots and not table.records and is_rule(lines[-1].text)
    if not table.is_complete and not is_empty:
        draft.add_problem(lines[-1].where, f"the process table is cut off below {quote(lines[-1].text)!r}")
    for card, line in tally.unlisted_cards.items():
        draft.add_problem(line.where, f"NPU {card} has processes, but is missing from the device table")
    if not slots:
        for card in sorted((tally.idle_cards | tally.closed_cards) - {slot.card for slot in slots_in(draft)}):
            ensure_chip(draft, Slot(card))
    for slot in slots_in(draft):
        draft.set_value(ensure_chip(draft, slot), metric("processes"), _process_count(tally, slot))


def _read_other_line(draft: Draft, line: Line, tally: _ProcessCounts) -> None:
    no_process_match = _NO_PROCESSES.match(line.text.strip().strip("|").strip()) if line.ended else None
    if no_process_match is not None:
        tally.idle_cards.add(int(no_process_match[1]))
    elif line.ended and not is_rule(line.text):
        tally.absence = Absent.NOT_UNDERSTOOD if "|" in line.text else tally.absence
        draft.add_problem(line.where, not_a_row(line.text, PROCESS_TABLE))


def _read_row(draft: Draft, record: Record, tally: _ProcessCounts, slots: frozenset[Slot], *, is_closed: bool) -> None:
    cells = {heading: value.text for heading, value in record.values.items()}
    card = units.integer(cells.get("npu", cells.get("npu id", "")))
    pid = units.integer(cells.get("process id", ""))
    if not record.line.ended:
        return
    if card is None or pid is None or record.misfits:
        tally.absence = Absent.NOT_UNDERSTOOD
        draft.add_problem(record.line.where, not_a_row(record.line.text, PROCESS_TABLE))
        return
    slot = Slot(card, units.integer(cells.get("chip", "")))
    if slots and slot not in slots:
        tally.unlisted_cards.setdefault(card, record.line)
        return
    (tally.closed_cards if is_closed else tally.cut_cards).add(card)
    tally.counts[slot] += 1
    memory = units.quantity(cells.get("process memory(mb)", ""), units.BYTES, "MB")
    used = None if isinstance(memory, Absent) else memory
    draft.processes.append(Process(ensure_chip(draft, slot), pid, cells.get("process name", ""), used))


def _process_count(tally: _ProcessCounts, slot: Slot) -> Value:
    if slot.card in tally.idle_cards and not tally.counts[slot]:
        return 0.0
    if tally.absence is not None:
        return tally.absence
    is_complete = slot.card in tally.closed_cards - tally.cut_cards and tally.counts[slot] < _MAX_LISTED_PROCESSES
    return float(tally.counts[slot]) if is_complete else Absent.NOT_REPORTED
