"""The framed table of cards in the style of nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.like_nvidia_smi.cells import CellReader, Column, TargetTextPairs, cell_reader
from telemetry_parsers.like_nvidia_smi.processes import is_process_title, read_processes
from telemetry_parsers.metrics import HEALTH_STATES
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, identity, metric
from telemetry_parsers.text.answers import CUT_TABLE, listed_twice, not_a_row, not_understood, several_runs
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, bus_address, quote

_MAX_CELLS = 16
_MAX_LINE_LENGTH = 400
_MODEL = identity("model")
_BUS_ID = identity("bus_id")
# (reader, texts with their targets) for each cell. The texts are None if the cell does not fit its headings.
_Row = list[tuple[CellReader | None, TargetTextPairs | None]]


@dataclass(frozen=True, slots=True)
class CardTableShape:
    """The format of one tool's card table."""

    columns: Mapping[str, Column]
    required_headings: frozenset[str]  # all of them are in the first heading line
    banner: re.Pattern[str]
    versions: tuple[tuple[str, re.Pattern[str]], ...]  # (name of a version or fact, its pattern)
    expected_starts: tuple[str, ...] = ()  # the beginnings of other lines that are not errors
    lists_processes: bool = True
    other_titles: tuple[str, ...] = ()  # lower-case titles of tables between the cards and the processes
    wraps_models: bool = False  # long model names continue in the next lines
    # True if the tool always prints a process table last, which shows that no card is missing.
    ends_with_processes: bool = False
    separator: str = ""  # a text in the rules between cards, but not in the rule below the last card


@dataclass(slots=True)
class _ScanState:
    shape: CardTableShape
    draft: Draft
    headings: list[list[CellReader | None]] = field(default_factory=list)  # the cell readers of each heading line
    is_in_headings: bool = False
    card_lines: list[Line] = field(default_factory=list)
    model_continuations: list[str] = field(default_factory=list)  # the wrapped lines of a long model name
    has_border: bool = True  # lines begin and end with `|`
    is_closed: bool = False  # the last line is a rule below the last card


def is_table(line: Line, shape: CardTableShape) -> bool:
    """Return whether a line is the table's version line or first heading line."""
    return _is_first_heading_line(line, shape) or shape.banner.search(line.text) is not None


def read_table(lines: Sequence[Line], shape: CardTableShape, draft: Draft) -> None:
    """Add the cards and their processes to the draft."""
    process_lines = read_cards(lines, shape, draft)
    if shape.lists_processes:
        read_processes(process_lines, draft)


def read_cards(lines: Sequence[Line], shape: CardTableShape, draft: Draft) -> Sequence[Line]:
    """Add the cards of the last table in the text. Return the lines of its process table."""
    starts = [position for position, line in enumerate(lines) if line.ended and shape.banner.search(line.text)]
    if len(starts) > 1:
        draft.add_problem("text", several_runs(len(starts)))
        lines = lines[starts[-1] :]
    title_position = next((position for position, line in enumerate(lines) if is_process_title(line)), len(lines))
    card_table = list(takewhile(lambda line: not _is_other_title(line, shape), lines[:title_position]))
    _read_versions(card_table, shape, draft)
    state = _ScanState(shape, draft)
    for line in card_table:
        _read_line(state, line)
    _add_card(state)  # the last card, whose lines may be truncated
    is_truncated = title_position == len(lines) and (
        shape.ends_with_processes or len(card_table) < title_position or not state.is_closed or ends_inside_rule(lines)
    )
    if is_truncated:
        draft.is_cut = True
        draft.problems.insert(0, Problem(lines[-1].where, CUT_TABLE))
    elif not state.headings:
        draft.is_cut = True
        draft.add_problem(lines[0].where, "the table has no headings, so its cards are not read")
    return lines[title_position:]


def _is_other_title(line: Line, shape: CardTableShape) -> bool:
    return line.ended and line.text.strip("| \t").lower() in shape.other_titles


def ends_inside_rule(lines: Sequence[Line]) -> bool:
    """Return whether the text ends inside a horizontal rule."""
    rule_lengths = [len(line.text.strip()) for line in lines if is_rule(line.text)]
    last_line = lines[-1]
    return not last_line.ended and is_rule(last_line.text) and len(last_line.text.strip()) < max(rule_lengths)


def _read_versions(lines: Sequence[Line], shape: CardTableShape, draft: Draft) -> None:
    for line in lines:
        text = line.text[:_MAX_LINE_LENGTH] + "\n" * line.ended
        for name, pattern in shape.versions:
            match = pattern.search(text)
            # If no version is printed, the pattern matches the next label, which contains no digit.
            version = match[1].removeprefix("v") if match and any(map(str.isdigit, match[1])) else None
            if version and name == "tool_version":
                draft.tool_version = draft.tool_version or version
            elif version and name == "driver":
                draft.driver = draft.driver or version
            elif version:
                draft.facts.setdefault(name, version)


def _is_first_heading_line(line: Line, shape: CardTableShape) -> bool:
    if not line.ended or not 1 <= line.text.count("|") <= _MAX_CELLS:
        return False
    text = line.text[:_MAX_LINE_LENGTH].lower()
    if not all(name.split(" ", 1)[0] in text for name in shape.required_headings):
        return False  # this cheap check excludes most lines
    known_headings = frozenset(shape.columns)
    headings = {name for cell in _split_cells(text, has_border=True) for name in headings_in(cell, known_headings)}
    return shape.required_headings <= headings


def _read_line(state: _ScanState, line: Line) -> None:
    text = line.text.strip()
    if not text:
        return
    if is_rule(line.text):
        is_between_cards = bool(state.shape.separator) and state.shape.separator in line.text
        state.is_closed = bool(state.headings) and not state.is_in_headings and not is_between_cards
        _end_card(state)
        state.is_in_headings = False
    elif _is_first_heading_line(line, state.shape):
        _end_card(state)
        state.headings, state.is_in_headings, state.is_closed = [], True, False
        state.has_border = text.startswith("|") and text.endswith("|")
        _add_headings(state, line)
    elif state.is_in_headings and "|" in text and not _starts_card(state, line):
        _add_headings(state, line)
    elif state.headings and "|" in text and text.count("|") <= _MAX_CELLS:
        state.is_in_headings = state.is_closed = False
        _add_row(state, line)
    elif state.headings and not _is_expected(text, state.shape):
        state.draft.add_problem(line.where, not_understood(line.text))
    elif not state.headings and not _is_expected(text, state.shape) and "|" not in text:
        _report_if_error(state.draft, line)


def _report_if_error(draft: Draft, line: Line) -> None:
    if any(word in line.text.lower() for word in ("error", "warn", "fail")):
        draft.add_problem(line.where, quote(line.text))


def _is_expected(text: str, shape: CardTableShape) -> bool:
    starts = ("Timestamp", "Attached", "=", *shape.expected_starts)
    return text.startswith(starts) or text.lower().startswith("end of log")


def _split_cells(text: str, *, has_border: bool) -> list[str]:
    cells = text.split("|")
    if has_border and not cells[0].strip():
        cells = cells[1:]
    if has_border and cells and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def _add_headings(state: _ScanState, line: Line) -> None:
    known_headings = frozenset(state.shape.columns)
    readers: list[CellReader | None] = []
    for cell in _split_cells(line.text, has_border=state.has_border):
        cell_headings = headings_in(cell, known_headings)
        state.draft.add_unknown(*(name for name in cell_headings if name not in known_headings))
        readers.append(cell_reader(cell_headings, state.shape.columns) if cell_headings else None)
    state.headings.append(readers)


def _starts_card(state: _ScanState, line: Line) -> bool:
    cells = [pairs for _, pairs in _read_row(state, line, 0) if pairs is not None]
    return bool(cells and cells[0]) and (_index_in(cells) is not None or _has_address(cells))


def _add_row(state: _ScanState, line: Line) -> None:
    line_count = len(state.card_lines)
    is_full = line_count >= len(state.headings)
    if state.shape.wraps_models and not is_full and line_count and (continuation := _wrapped_model(state, line)):
        state.model_continuations.append(continuation)
        return
    if is_full or (line_count and _fits_headings(state, line, 0) and not _fits_headings(state, line, line_count)):
        _end_card(state)
    state.card_lines.append(line)


def _wrapped_model(state: _ScanState, line: Line) -> str:
    """Return the continuation of a long model name, or an empty string for any other line."""
    cells = _split_cells(line.text[:_MAX_LINE_LENGTH], has_border=state.has_border)
    filled_positions = [position for position, cell in enumerate(cells) if cell.strip()]
    first_heading_readers = state.headings[0]
    if (
        not line.ended
        or len(filled_positions) != 1
        or filled_positions[0] >= len(first_heading_readers)
        or len(cells) < len(first_heading_readers)
        or _fits_headings(state, line, len(state.card_lines))
    ):
        return ""
    reader = first_heading_readers[filled_positions[0]]
    return cells[filled_positions[0]].strip() if reader and _MODEL in _all_targets(reader) else ""


def _fits_headings(state: _ScanState, line: Line, heading_index: int) -> bool:
    return all(pairs is not None for _, pairs in _read_row(state, line, heading_index))


def _read_row(state: _ScanState, line: Line, heading_index: int) -> _Row:
    readers = state.headings[heading_index]
    cells = _split_cells(line.text[:_MAX_LINE_LENGTH], has_border=state.has_border)
    is_complete = line.ended or line.text.rstrip().endswith("|")
    cells, truncated_cells = (cells, []) if is_complete else (cells[:-1], cells[-1:])
    if len(cells) > len(readers):
        return [(reader, None) for reader in readers]
    row: _Row = []
    for reader, cell in zip(readers, cells, strict=False):
        if not cell.strip():
            row.append((reader, []))
        else:
            row.append((reader, reader.read(cell) if reader else None))
    for reader, cell in zip(readers[len(cells) :], truncated_cells, strict=False):
        row.append((reader, reader.read_start(cell) if reader else []))
    return row


def _end_card(state: _ScanState) -> None:
    absence = Absent.NOT_REPORTED
    lines = state.card_lines
    if lines and len(lines) < len(state.headings):
        text = f"the card has only {len(lines)} of {len(state.headings)} lines, so only the first line is read"
        state.draft.add_problem(lines[0].where, text)
        state.card_lines, absence = lines[:1], Absent.NOT_UNDERSTOOD
    _add_card(state, absence)


def _add_card(state: _ScanState, absence: Absent = Absent.NOT_REPORTED) -> None:
    """Add the current card to the draft, with `absence` for each missing metric."""
    lines, state.card_lines = state.card_lines, []
    model_continuations, state.model_continuations = state.model_continuations, []
    if not lines:
        return
    rows = [_read_row(state, line, heading_index) for heading_index, line in enumerate(lines)]
    index = _index_in(pairs for row in rows for _, pairs in row if pairs is not None)
    if index is None:
        state.draft.has_gaps = True
        if lines[0].ended:
            state.draft.add_problem(lines[0].where, not_a_row(lines[0].text))
        return
    if state.draft.has_device(index):
        state.draft.add_problem(lines[0].where, listed_twice(f"card {index}"))
        return
    device = state.draft.device(index)
    for line, row in zip(lines, rows, strict=True):
        _store_row(state.draft, device, line, _with_full_model(row, model_continuations))
    for target in _targets_accepting_any_text([reader for readers in state.headings for reader in readers if reader]):
        if not state.draft.has_reading(device, target):
            state.draft.set_value(device, target, absence)


def _index_in(cells: Iterable[TargetTextPairs]) -> int | None:
    for pairs in cells:
        for targets, text in pairs:
            if any(target.kind == "identity" and target.key == "index" for target in targets):
                return units.integer(text)
    return None


def _has_address(cells: Iterable[TargetTextPairs]) -> bool:
    return any(_BUS_ID in targets and bus_address(text) for pairs in cells for targets, text in pairs)


def _with_full_model(row: _Row, model_continuations: Sequence[str]) -> _Row:
    """Return the row with the continuations appended to the model name."""
    suffix = " ".join(["", *model_continuations])
    return [
        (reader, pairs and [(targets, text + suffix if _MODEL in targets else text) for targets, text in pairs])
        for reader, pairs in row
    ]


def _store_row(draft: Draft, device: int, line: Line, row: _Row) -> None:
    has_mismatch = False
    for reader, pairs in row:
        if pairs is None:
            has_mismatch = True
            for target in _targets_accepting_any_text([reader] if reader else []):
                draft.set_value(device, target, Absent.NOT_UNDERSTOOD)
        for targets, text in pairs or ():
            draft.store(device, targets, text, line.where)
    if has_mismatch:
        draft.add_problem(line.where, f"cells do not match their headings: {quote(line.text)}")


def _targets_accepting_any_text(readers: Sequence[CellReader]) -> list[Target]:
    """Return the targets that turn any text, even an unknown word, into a reading."""
    targets = [target for reader in readers for target in _all_targets(reader)]
    states = [metric("health", state) for state in HEALTH_STATES if any(target.kind == "health" for target in targets)]
    return [target for target in targets if target.accepts_any_text] + states


def _all_targets(reader: CellReader) -> list[Target]:
    return [target for column in reader.columns for group in column.targets for target in group]
