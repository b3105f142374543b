"""The framed table of cards that many vendors' tools print as nvidia-smi does: several lines per card below as many heading lines."""

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
from telemetry_parsers.text.answers import CUT_TABLE, listed_twice, no_row, not_understood, several_runs
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, bus_address, quote

_MOST_CELLS = 16
_LONGEST = 400
_MODEL = identity("model")
_ADDRESS = identity("bus_id")
# The cells of a line with the texts in them.
_Row = list[tuple[CellReader | None, Pairs | None]]


@dataclass(frozen=True, slots=True)
class Box:
    """One tool's table: its columns by heading, in lower case with single blanks, and the text above the table."""

    columns: Mapping[str, Column]
    opening: frozenset[str]  # headings of the first heading line
    banner: re.Pattern[str]  # is in the version line
    versions: tuple[tuple[str, re.Pattern[str]], ...]  # `tool_version`, `driver` and facts, above the table
    expected: tuple[str, ...] = ()  # the beginnings of known lines without a reading
    lists_processes: bool = True
    asides: tuple[str, ...] = ()  # titles, in lower case, of tables between the cards and the processes
    wraps_models: bool = False  # a model too long for its cell continues in lines of its own
    # The process table always follows, even without processes, and proves that all cards are listed.
    ends_with_processes: bool = False
    parting: str = ""  # a sign in the rules between cards that the rule below the last card lacks


@dataclass(slots=True)
class _Scan:
    """The parser's state, carried from one line to the next."""

    box: Box
    draft: Draft
    headings: list[list[CellReader | None]] = field(default_factory=list)
    in_headings: bool = False
    rows: list[Line] = field(default_factory=list)
    wrapped: list[str] = field(default_factory=list)  # the rest of a model that is too long for its cell
    bordered: bool = True
    closed: bool = False


def is_table(line: Line, box: Box) -> bool:
    """Return whether a line is the first heading line of the table or its version line."""
    return _opens(line, box) or box.banner.search(line.text) is not None


def read_table(lines: Sequence[Line], box: Box, draft: Draft) -> None:
    """Put the cards and their processes into the draft."""
    below = read_cards(lines, box, draft)
    if box.lists_processes:
        read_processes(below, draft)


def read_cards(lines: Sequence[Line], box: Box, draft: Draft) -> Sequence[Line]:
    """Put the cards of the last run in a text into the draft. Return the lines from the title of its process table on."""
    starts = [at for at, line in enumerate(lines) if line.ended and box.banner.search(line.text)]
    if len(starts) > 1:
        draft.complain("text", several_runs(len(starts)))
        lines = lines[starts[-1] :]
    title = next((at for at, line in enumerate(lines) if is_process_title(line)), len(lines))
    is_aside = (line.ended and line.text.strip("| \t").lower() in box.asides for line in lines[:title])
    end = next((at for at, found in enumerate(is_aside) if found), title)
    _read_versions(lines[:end], box, draft)
    scan = _Scan(box, draft)
    for line in lines[:end]:
        _take(scan, line)
    _read_record(scan)  # the text may end inside it
    ends_too_early = box.ends_with_processes or end < title or not scan.closed or ends_in_a_rule(lines)
    if title == len(lines) and ends_too_early:
        draft.is_cut = True
        draft.problems.insert(0, Problem(lines[-1].where, CUT_TABLE))
    elif not scan.headings:
        draft.is_cut = True
        draft.complain(lines[0].where, "the table has no headings; its cards are not read")
    return lines[title:]


def ends_in_a_rule(lines: Sequence[Line]) -> bool:
    """Return whether the text stops inside a rule: the last rule is shorter than the others."""
    rules = [len(line.text.strip()) for line in lines if is_rule(line.text)]
    last = lines[-1]
    return not last.ended and is_rule(last.text) and len(last.text.strip()) < max(rules)


def _read_versions(lines: Sequence[Line], box: Box, draft: Draft) -> None:
    """Read the versions above the table. A version at the very end of the text may be a fragment and is ignored."""
    for line in lines:
        text = line.text[:_LONGEST] + "\n" * line.ended
        for name, pattern in box.versions:
            match = pattern.search(text)
            # A word without a digit is the next label, after a blank version.
            version = match[1].removeprefix("v") if match and any(map(str.isdigit, match[1])) else None
            if version and name == "tool_version":
                draft.tool_version = draft.tool_version or version
            elif version and name == "driver":
                draft.driver = draft.driver or version
            elif version:
                draft.facts.setdefault(name, version)


def _opens(line: Line, box: Box) -> bool:
    if not line.ended or not 1 <= line.text.count("|") <= _MOST_CELLS:
        return False
    text = line.text[:_LONGEST].lower()
    if not all(name.split(" ", 1)[0] in text for name in box.opening):
        return False  # a quick answer for nearly all lines
    all_headings = frozenset(box.columns)
    headings = {name for cell in _cells(text, bordered=True) for name in headings_in(cell, all_headings)}
    return box.opening <= headings


def _take(scan: _Scan, line: Line) -> None:
    text = line.text.strip()
    if not text:
        return
    if is_rule(line.text):
        separates = bool(scan.box.parting) and scan.box.parting in line.text
        scan.closed = bool(scan.headings) and not scan.in_headings and not separates
        _end_record(scan)
        scan.in_headings = False
    elif _opens(line, scan.box):
        _end_record(scan)
        scan.headings, scan.in_headings, scan.closed = [], True, False
        scan.bordered = text.startswith("|") and text.endswith("|")
        _add_headings(scan, line)
    elif scan.in_headings and "|" in text and not _starts_record(scan, line):
        _add_headings(scan, line)
    elif scan.headings and "|" in text and text.count("|") <= _MOST_CELLS:
        scan.in_headings = scan.closed = False
        _add_row(scan, line)
    elif scan.headings and not _is_expected(text, scan.box):
        scan.draft.complain(line.where, not_understood(line.text))
    elif not scan.headings and not _is_expected(text, scan.box) and "|" not in text:
        _complain(scan.draft, line)


def _complain(draft: Draft, line: Line) -> None:
    """Report a line above the table that is an error or a warning."""
    if any(word in line.text.lower() for word in ("error", "warn", "fail")):
        draft.complain(line.where, quote(line.text))


def _is_expected(text: str, box: Box) -> bool:
    return text.startswith(("Timestamp", "Attached", "=", *box.expected)) or text.lower().startswith("end of log")


def _cells(text: str, *, bordered: bool) -> list[str]:
    parts = text.split("|")
    if bordered and not parts[0].strip():
        parts = parts[1:]
    if bordered and parts and not parts[-1].strip():
        parts = parts[:-1]
    return parts


def _add_headings(scan: _Scan, line: Line) -> None:
    all_headings = frozenset(scan.box.columns)
    readers: list[CellReader | None] = []
    for cell in _cells(line.text, bordered=scan.bordered):
        names = headings_in(cell, all_headings)
        scan.draft.name_unknown(*(name for name in names if name not in all_headings))
        readers.append(cell_reader(names, scan.box.columns) if names else None)
    scan.headings.append(readers)


def _starts_record(scan: _Scan, line: Line) -> bool:
    """Return whether a line below the first headings is the first line of a card, although the rule between them is lost."""
    cells = [texts for _, texts in _read_row(scan, line, 0) if texts is not None]
    return bool(cells and cells[0]) and (_index(cells) is not None or _has_address(cells))


def _add_row(scan: _Scan, line: Line) -> None:
    full = len(scan.rows) >= len(scan.headings)
    if scan.box.wraps_models and not full and scan.rows and (rest := _wrapped_model(scan, line)):
        scan.wrapped.append(rest)
        return
    lost = bool(scan.rows) and not full and _fits(scan, line, 0) and not _fits(scan, line, len(scan.rows))
    if full or lost:
        _end_record(scan)
    scan.rows.append(line)


def _wrapped_model(scan: _Scan, line: Line) -> str:
    """Return the rest of a long model name: the only cell of a line, below the cell of the model. Empty for any other line."""
    cells = _cells(line.text[:_LONGEST], bordered=scan.bordered)
    filled = [at for at, cell in enumerate(cells) if cell.strip()]
    first = scan.headings[0]
    if (
        not line.ended
        or len(filled) != 1
        or filled[0] >= len(first)
        or len(cells) < len(first)
        or _fits(scan, line, len(scan.rows))
    ):
        return ""
    reader = first[filled[0]]
    return cells[filled[0]].strip() if reader and _MODEL in _all_targets(reader) else ""


def _fits(scan: _Scan, line: Line, at: int) -> bool:
    return all(texts is not None for _, texts in _read_row(scan, line, at))


def _read_row(scan: _Scan, line: Line, at: int) -> _Row:
    """Return the cells of a row with the texts in them; None for a cell that does not look like its headings."""
    readers = scan.headings[at]
    cells = _cells(line.text[:_LONGEST], bordered=scan.bordered)
    is_whole = line.ended or line.text.rstrip().endswith("|")
    cells, cut = (cells, []) if is_whole else (cells[:-1], cells[-1:])
    if len(cells) > len(readers):
        return [(reader, None) for reader in readers]
    row: _Row = []
    for reader, cell in zip(readers, cells, strict=False):
        if not cell.strip():
            row.append((reader, []))
        else:
            row.append((reader, reader.read(cell) if reader else None))
    for reader, cell in zip(readers[len(cells) :], cut, strict=False):
        row.append((reader, reader.read_start(cell) if reader else []))
    return row


def _end_record(scan: _Scan) -> None:
    """Read a record that is followed by something else. If a line of the record is lost, only its first line is read."""
    gap = Absent.NOT_REPORTED
    if scan.rows and len(scan.rows) < len(scan.headings):
        text = f"{len(scan.rows)} lines below {len(scan.headings)} of headings; only the first is read"
        scan.draft.complain(scan.rows[0].where, text)
        scan.rows, gap = scan.rows[:1], Absent.NOT_UNDERSTOOD
    _read_record(scan, gap)


def _read_record(scan: _Scan, gap: Absent = Absent.NOT_REPORTED) -> None:
    """Put a record's card into the draft. `gap` is why readings are absent that its lines do not have."""
    rows, scan.rows = scan.rows, []
    wrapped, scan.wrapped = scan.wrapped, []
    if not rows:
        return
    read = [(line, _read_row(scan, line, at)) for at, line in enumerate(rows)]
    index = _index(texts for _, row in read for _, texts in row if texts is not None)
    if index is None:
        scan.draft.has_gaps = True
        if rows[0].ended:
            scan.draft.complain(rows[0].where, no_row(rows[0].text))
        return
    if scan.draft.has(index):
        scan.draft.complain(rows[0].where, listed_twice(f"card {index}"))
        return
    device = scan.draft.device(index)
    for line, row in read:
        _give(scan.draft, device, line, _with_model(row, wrapped))
    for target in _targets([reader for readers in scan.headings for reader in readers if reader]):
        if not scan.draft.is_given(device, target):
            scan.draft.give(device, target, gap)


def _index(cells: Iterable[Pairs]) -> int | None:
    for cell in cells:
        for targets, text in cell:
            if any(target.kind == "identity" and target.key == "index" for target in targets):
                return units.whole(text)
    return None


def _has_address(cells: Iterable[Pairs]) -> bool:
    return any(_ADDRESS in targets and bus_address(text) for found in cells for targets, text in found)


def _with_model(row: _Row, wrapped: Sequence[str]) -> _Row:
    """Return the row with the wrapped rest of the model appended to the model."""
    if not wrapped:
        return row
    return [
        (
            reader,
            pairs and [(targets, " ".join([text, *(wrapped if _MODEL in targets else ())])) for targets, text in pairs],
        )
        for reader, pairs in row
    ]


def _give(draft: Draft, device: int, line: Line, row: _Row) -> None:
    misfit = False
    for reader, texts in row:
        if texts is None:
            misfit = True
            for target in _targets([reader] if reader else []):
                draft.give(device, target, Absent.NOT_UNDERSTOOD)
        for targets, text in texts or ():
            draft.take(device, targets, text, line.where)
    if misfit:
        draft.complain(line.where, f"cells that do not look like their headings: {quote(line.text)}")


def _targets(readers: Sequence[CellReader]) -> list[Target]:
    """Return the targets for which these cells always have a reading."""
    targets = [target for reader in readers for target in _all_targets(reader)]
    states = [metric("health", state) for state in HEALTH_STATES if any(target.kind == "health" for target in targets)]
    return [target for target in targets if target.is_sure] + states


def _all_targets(reader: CellReader) -> list[Target]:
    return [target for column in reader.columns for group in column.gives for target in group]
