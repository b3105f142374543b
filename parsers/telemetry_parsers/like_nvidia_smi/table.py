"""The framed table of cards in the style of nvidia-smi. Each card has as many lines as the heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.like_nvidia_smi.cells import CellReader, Column, Pairs, cell_reader
from telemetry_parsers.like_nvidia_smi.processes import is_process_title, read_processes
from telemetry_parsers.metrics import HEALTH_STATES
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, identity, metric
from telemetry_parsers.text.answers import CUT_TABLE, listed_twice, not_a_row, not_understood, several_runs
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, bus_address, quote

_MAX_CELLS = 16
_LONGEST = 400
_MODEL = identity("model")
_ADDRESS = identity("bus_id")
# For each cell of a line: its reader and its values.
_Row = list[tuple[CellReader | None, Pairs | None]]


@dataclass(frozen=True, slots=True)
class CardTable:
    """The format of one tool's table. Columns are by heading, in lower case with single blanks."""

    columns: Mapping[str, Column]
    opening: frozenset[str]  # headings of the first heading line
    banner: re.Pattern[str]  # matches the version line
    versions: tuple[tuple[str, re.Pattern[str]], ...]  # of `tool_version`, `driver` and other facts, above the table
    expected: tuple[str, ...] = ()  # the beginnings of known lines without a reading
    lists_processes: bool = True
    other_titles: tuple[str, ...] = ()  # titles in lower case of tables between cards and processes
    wraps_models: bool = False  # a long model name continues in the lines below it
    # The process table always follows, even without processes. So if it is printed, all cards are listed.
    ends_with_processes: bool = False
    separator: str = ""  # a mark in the rules between cards. The rule below the last card does not have it


@dataclass(slots=True)
class _Scan:
    """The parser's state, carried from one line to the next."""

    shape: CardTable
    draft: Draft
    headings: list[list[CellReader | None]] = field(default_factory=list)
    is_in_headings: bool = False
    rows: list[Line] = field(default_factory=list)
    model_rest: list[str] = field(default_factory=list)  # the continuation of a long model name
    has_border: bool = True
    is_closed: bool = False


def is_table(line: Line, shape: CardTable) -> bool:
    """Return whether a line is the first heading line of the table or its version line."""
    return _is_first_heading(line, shape) or shape.banner.search(line.text) is not None


def read_table(lines: Sequence[Line], shape: CardTable, draft: Draft) -> None:
    """Add the cards and their processes to the draft."""
    below = read_cards(lines, shape, draft)
    if shape.lists_processes:
        read_processes(below, draft)


def read_cards(lines: Sequence[Line], shape: CardTable, draft: Draft) -> Sequence[Line]:
    """Add the cards of the last run in the text to the draft. Return the lines of its process table."""
    starts = [position for position, line in enumerate(lines) if line.ended and shape.banner.search(line.text)]
    if len(starts) > 1:
        draft.complain("text", several_runs(len(starts)))
        lines = lines[starts[-1] :]
    title = next((position for position, line in enumerate(lines) if is_process_title(line)), len(lines))
    is_other_title = (line.ended and line.text.strip("| \t").lower() in shape.other_titles for line in lines[:title])
    end = next((position for position, is_end in enumerate(is_other_title) if is_end), title)
    _read_versions(lines[:end], shape, draft)
    scan = _Scan(shape, draft)
    for line in lines[:end]:
        _read_line(scan, line)
    _read_record(scan)  # the last card, which may be truncated
    ends_too_early = shape.ends_with_processes or end < title or not scan.is_closed or is_cut_in_rule(lines)
    if title == len(lines) and ends_too_early:
        draft.is_cut = True
        draft.problems.insert(0, Problem(lines[-1].where, CUT_TABLE))
    elif not scan.headings:
        draft.is_cut = True
        draft.complain(lines[0].where, "the table has no headings; its cards are not read")
    return lines[title:]


def is_cut_in_rule(lines: Sequence[Line]) -> bool:
    """Return whether the text ends inside a rule, because the last rule is shorter than the others."""
    rules = [len(line.text.strip()) for line in lines if is_rule(line.text)]
    last_line = lines[-1]
    return not last_line.ended and is_rule(last_line.text) and len(last_line.text.strip()) < max(rules)


def _read_versions(lines: Sequence[Line], shape: CardTable, draft: Draft) -> None:
    """Read the versions above the table. A version at the very end of the text may be a fragment and is ignored."""
    for line in lines:
        text = line.text[:_LONGEST] + "\n" * line.ended
        for name, pattern in shape.versions:
            match = pattern.search(text)
            # If the version is blank, the matched word is the next label, which has no digit.
            version = match[1].removeprefix("v") if match and any(map(str.isdigit, match[1])) else None
            if version and name == "tool_version":
                draft.tool_version = draft.tool_version or version
            elif version and name == "driver":
                draft.driver = draft.driver or version
            elif version:
                draft.facts.setdefault(name, version)


def _is_first_heading(line: Line, shape: CardTable) -> bool:
    if not line.ended or not 1 <= line.text.count("|") <= _MAX_CELLS:
        return False
    text = line.text[:_LONGEST].lower()
    if not all(name.split(" ", 1)[0] in text for name in shape.opening):
        return False  # fast path for most lines
    all_headings = frozenset(shape.columns)
    headings = {name for cell in _split_cells(text, has_border=True) for name in headings_in(cell, all_headings)}
    return shape.opening <= headings


def _read_line(scan: _Scan, line: Line) -> None:
    text = line.text.strip()
    if not text:
        return
    if is_rule(line.text):
        is_between_cards = bool(scan.shape.separator) and scan.shape.separator in line.text
        scan.is_closed = bool(scan.headings) and not scan.is_in_headings and not is_between_cards
        _end_record(scan)
        scan.is_in_headings = False
    elif _is_first_heading(line, scan.shape):
        _end_record(scan)
        scan.headings, scan.is_in_headings, scan.is_closed = [], True, False
        scan.has_border = text.startswith("|") and text.endswith("|")
        _add_headings(scan, line)
    elif scan.is_in_headings and "|" in text and not _starts_record(scan, line):
        _add_headings(scan, line)
    elif scan.headings and "|" in text and text.count("|") <= _MAX_CELLS:
        scan.is_in_headings = scan.is_closed = False
        _add_row(scan, line)
    elif scan.headings and not _is_expected(text, scan.shape):
        scan.draft.complain(line.where, not_understood(line.text))
    elif not scan.headings and not _is_expected(text, scan.shape) and "|" not in text:
        _report_error(scan.draft, line)


def _report_error(draft: Draft, line: Line) -> None:
    """Report a line above the table that is an error or a warning."""
    if any(word in line.text.lower() for word in ("error", "warn", "fail")):
        draft.complain(line.where, quote(line.text))


def _is_expected(text: str, shape: CardTable) -> bool:
    return text.startswith(("Timestamp", "Attached", "=", *shape.expected)) or text.lower().startswith("end of log")


def _split_cells(text: str, *, has_border: bool) -> list[str]:
    parts = text.split("|")
    if has_border and not parts[0].strip():
        parts = parts[1:]
    if has_border and parts and not parts[-1].strip():
        parts = parts[:-1]
    return parts


def _add_headings(scan: _Scan, line: Line) -> None:
    all_headings = frozenset(scan.shape.columns)
    readers: list[CellReader | None] = []
    for cell in _split_cells(line.text, has_border=scan.has_border):
        names = headings_in(cell, all_headings)
        scan.draft.add_unknown(*(name for name in names if name not in all_headings))
        readers.append(cell_reader(names, scan.shape.columns) if names else None)
    scan.headings.append(readers)


def _starts_record(scan: _Scan, line: Line) -> bool:
    """Return whether a line in the headings is a card's first line, because the rule above the cards is missing."""
    cells = [texts for _, texts in _read_row(scan, line, 0) if texts is not None]
    return bool(cells and cells[0]) and (_index_in(cells) is not None or _has_address(cells))


def _add_row(scan: _Scan, line: Line) -> None:
    is_full = len(scan.rows) >= len(scan.headings)
    if scan.shape.wraps_models and not is_full and scan.rows and (model_rest := _wrapped_model(scan, line)):
        scan.model_rest.append(model_rest)
        return
    if is_full or (scan.rows and _fits_headings(scan, line, 0) and not _fits_headings(scan, line, len(scan.rows))):
        _end_record(scan)
    scan.rows.append(line)


def _wrapped_model(scan: _Scan, line: Line) -> str:
    """Return the continuation of a long model name if it is the only text in this line; empty for any other line."""
    cells = _split_cells(line.text[:_LONGEST], has_border=scan.has_border)
    filled = [position for position, cell in enumerate(cells) if cell.strip()]
    first_readers = scan.headings[0]
    if (
        not line.ended
        or len(filled) != 1
        or filled[0] >= len(first_readers)
        or len(cells) < len(first_readers)
        or _fits_headings(scan, line, len(scan.rows))
    ):
        return ""
    reader = first_readers[filled[0]]
    return cells[filled[0]].strip() if reader and _MODEL in _all_targets(reader) else ""


def _fits_headings(scan: _Scan, line: Line, number: int) -> bool:
    return all(texts is not None for _, texts in _read_row(scan, line, number))


def _read_row(scan: _Scan, line: Line, number: int) -> _Row:
    """Return each cell's reader and values. The values are None if the cell does not match its headings."""
    readers = scan.headings[number]
    cells = _split_cells(line.text[:_LONGEST], has_border=scan.has_border)
    is_whole = line.ended or line.text.rstrip().endswith("|")
    cells, truncated = (cells, []) if is_whole else (cells[:-1], cells[-1:])
    if len(cells) > len(readers):
        return [(reader, None) for reader in readers]
    row: _Row = []
    for reader, cell in zip(readers, cells, strict=False):
        if not cell.strip():
            row.append((reader, []))
        else:
            row.append((reader, reader.read(cell) if reader else None))
    for reader, cell in zip(readers[len(cells) :], truncated, strict=False):
        row.append((reader, reader.read_start(cell) if reader else []))
    return row


def _end_record(scan: _Scan) -> None:
    """Read the lines of a card. If a line is missing, read only the first."""
    absence = Absent.NOT_REPORTED
    if scan.rows and len(scan.rows) < len(scan.headings):
        text = f"the card has {len(scan.rows)} of {len(scan.headings)} lines; only the first is read"
        scan.draft.complain(scan.rows[0].where, text)
        scan.rows, absence = scan.rows[:1], Absent.NOT_UNDERSTOOD
    _read_record(scan, absence)


def _read_record(scan: _Scan, absence: Absent = Absent.NOT_REPORTED) -> None:
    """Add a card to the draft. `absence` is stored for each metric of the table that its lines lack."""
    rows, scan.rows = scan.rows, []
    model_rest, scan.model_rest = scan.model_rest, []
    if not rows:
        return
    rows_read = [(line, _read_row(scan, line, number)) for number, line in enumerate(rows)]
    index = _index_in(texts for _, row in rows_read for _, texts in row if texts is not None)
    if index is None:
        scan.draft.has_gaps = True
        if rows[0].ended:
            scan.draft.complain(rows[0].where, not_a_row(rows[0].text))
        return
    if scan.draft.has(index):
        scan.draft.complain(rows[0].where, listed_twice(f"card {index}"))
        return
    device = scan.draft.device(index)
    for line, row in rows_read:
        _store_row(scan.draft, device, line, _with_model(row, model_rest))
    for target in _certain_targets([reader for readers in scan.headings for reader in readers if reader]):
        if not scan.draft.has_reading(device, target):
            scan.draft.set_value(device, target, absence)


def _index_in(cells: Iterable[Pairs]) -> int | None:
    for cell in cells:
        for targets, text in cell:
            if any(target.kind == "identity" and target.key == "index" for target in targets):
                return units.whole(text)
    return None


def _has_address(cells: Iterable[Pairs]) -> bool:
    return any(_ADDRESS in targets and bus_address(text) for pairs in cells for targets, text in pairs)


def _with_model(row: _Row, model_rest: Sequence[str]) -> _Row:
    """Return the row with the continuation of the model name appended."""
    if not model_rest:
        return row
    return [
        (
            reader,
            pairs
            and [(targets, " ".join([text, *(model_rest if _MODEL in targets else ())])) for targets, text in pairs],
        )
        for reader, pairs in row
    ]


def _store_row(draft: Draft, device: int, line: Line, row: _Row) -> None:
    has_mismatch = False
    for reader, texts in row:
        if texts is None:
            has_mismatch = True
            for target in _certain_targets([reader] if reader else []):
                draft.set_value(device, target, Absent.NOT_UNDERSTOOD)
        for targets, text in texts or ():
            draft.store(device, targets, text, line.where)
    if has_mismatch:
        draft.complain(line.where, f"cells do not match their headings: {quote(line.text)}")


def _certain_targets(readers: Sequence[CellReader]) -> list[Target]:
    """Return the metrics for which a card in this table always gets a reading, possibly an absence."""
    targets = [target for reader in readers for target in _all_targets(reader)]
    states = [metric("health", state) for state in HEALTH_STATES if any(target.kind == "health" for target in targets)]
    return [target for target in targets if target.is_always_read] + states


def _all_targets(reader: CellReader) -> list[Target]:
    return [target for column in reader.columns for group in column.targets for target in group]
