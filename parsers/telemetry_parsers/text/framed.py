"""Reads framed tables that have several lines per device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.text.lines import Line

_RULE_CHARACTERS = frozenset("-+=| \t")
_RULE = re.compile(r"-{3}|={3}")
_GAP = re.compile(r"[ \t]{2,}|\t")
_MAX_CELL_LENGTH = 400  # a longer cell contains no headings
_MAX_HEADING_WORDS = 4
_MAX_CELLS = 64  # a line with more cells is not a row


@dataclass(frozen=True, slots=True)
class TableShape:
    """The known headings and value patterns of one tool's table."""

    headings: frozenset[str]  # in lower case with single blanks
    patterns: Mapping[str, re.Pattern[str]]  # by heading, for values that are a single word
    first_heading: str  # the heading whose value begins each record


@dataclass(frozen=True, slots=True)
class Cell:
    """The text between two separators."""

    text: str
    is_whole: bool = True  # False if the text is truncated inside the cell


@dataclass(frozen=True, slots=True)
class _Row:
    line: Line
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """The text under a heading. The heading is in lower case with single blanks."""

    heading: str
    text: str
    line: Line


@dataclass(frozen=True, slots=True)
class Record:
    """The values of one device by heading, and the lines that do not match the headings."""

    line: Line
    values: Mapping[str, Value]
    misfits: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a framed table."""

    has_headings: bool
    is_complete: bool  # the text does not end inside the table
    records: tuple[Record, ...]
    unread_lines: tuple[Line, ...]
    unknown_headings: tuple[str, ...]


def is_rule(text: str) -> bool:
    """Return whether a line consists only of dashes, equal signs, plus signs and bars."""
    return _RULE_CHARACTERS.issuperset(text) and _RULE.search(text) is not None


def headings_in(text: str, all_headings: frozenset[str]) -> tuple[str, ...]:
    """Return the headings in a cell. Text without known headings is returned as an unknown heading."""
    headings: list[str] = []
    for piece in _split_at_gaps(text[:_MAX_CELL_LENGTH]):
        words = piece.lower().split()
        known_headings = _split_headings(words, all_headings)
        headings.extend(known_headings if known_headings else (" ".join(words),))
    return tuple(headings)


def read_table(lines: Sequence[Line], shape: TableShape) -> Table:
    """Return the table in these lines."""
    reader = _TableReader(shape)
    for line in lines:
        reader.read_line(line)
    reader.end_record()
    return Table(
        reader.has_headings,
        reader.is_complete,
        tuple(reader.records),
        tuple(reader.unread_lines),
        tuple(reader.unknown_headings),
    )


@dataclass(slots=True)
class _TableReader:
    shape: TableShape
    has_headings: bool = False
    is_reading_headings: bool = False
    is_complete: bool = True
    has_border: bool = False
    headings: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    current_rows: list[_Row] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    unread_lines: list[Line] = field(default_factory=list)
    unknown_headings: dict[str, None] = field(default_factory=dict)

    def read_line(self, line: Line) -> None:
        if not line.text.strip():
            return
        if is_rule(line.text):
            self._read_rule(line)
        elif not 1 <= line.text.count("|") <= _MAX_CELLS:
            self.unread_lines.append(line)
        elif self._starts_headings(line):
            self._start_headings(line)
        elif self.is_reading_headings and not self._starts_record(self._split_row(line)):
            self._add_headings(self._split_row(line))
        else:
            self._read_row(self._split_row(line))

    def end_record(self) -> None:
        if self.current_rows:
            self.records.append(_create_record(self.current_rows, self.headings, self.shape))
            self.current_rows = []

    def _read_rule(self, line: Line) -> None:
        self.end_record()
        if not self.is_reading_headings:
            self.is_complete = "=" in line.text  # set to False if another record follows
        self.is_reading_headings = False

    def _starts_headings(self, line: Line) -> bool:
        first_cell = next((text for text in line.text.split("|", 2)[:2] if text.strip()), "")
        names = headings_in(first_cell, self.shape.headings)
        return bool(names) and names[0] == self.shape.first_heading and self.shape.headings.issuperset(names)

    def _start_headings(self, line: Line) -> None:
        self.end_record()
        text = line.text.strip()
        self.has_border = text.startswith("|") and text.endswith("|")
        self.has_headings, self.is_reading_headings, self.is_complete = True, True, False
        self.headings = []
        self._add_headings(self._split_row(line))

    def _add_headings(self, row: _Row) -> None:
        headings = tuple(headings_in(cell.text, self.shape.headings) if cell.is_whole else () for cell in row.cells)
        self.headings.append(headings)
        if row.line.ended:
            names = (name for cell_headings in headings for name in cell_headings if name not in self.shape.headings)
            self.unknown_headings.update(dict.fromkeys(names))

    def _starts_record(self, row: _Row) -> bool:
        first_words = row.cells[0].text.split(maxsplit=1) if row.cells else []
        return bool(first_words) and self.shape.patterns[self.shape.first_heading].match(first_words[0]) is not None

    def _can_start_record(self) -> bool:
        return self.has_headings and not 0 < len(self.current_rows) < len(self.headings)

    def _read_row(self, row: _Row) -> None:
        if self._can_start_record() and self._starts_record(row):
            self.end_record()
            self.is_reading_headings = self.is_complete = False
            self.current_rows = [row]
        elif self.current_rows and len(self.current_rows) < len(self.headings):
            self.current_rows.append(row)
        else:
            self.unread_lines.append(row.line)

    def _split_row(self, line: Line) -> _Row:
        cell_texts = line.text.split("|")
        if self.has_border and not cell_texts[0].strip():
            cell_texts = cell_texts[1:]
        is_truncated = not line.ended
        if self.has_border and not cell_texts[-1].strip():
            cell_texts = cell_texts[:-1]
        elif self.has_border:
            is_truncated = True
        cells = [Cell(text.strip()) for text in cell_texts]
        if is_truncated and cells:
            cells[-1] = _truncated_cell(cell_texts[-1])
        return _Row(line, tuple(cells))


def _truncated_cell(text: str) -> Cell:
    """Return a truncated cell without its last word: `9%  133MiB(163` becomes `9%  133MiB(`."""
    complete_words, last_word = text.rstrip(), ""
    if complete_words == text:
        start = max(text.rfind(blank) for blank in " \t") + 1
        complete_words, last_word = text[:start], text[start:]
    complete_part = last_word[: max(last_word.rfind("("), last_word.rfind(")")) + 1]
    return Cell((complete_words + complete_part).strip(), is_whole=False)


def _split_at_gaps(text: str) -> list[str]:
    return [piece for piece in _GAP.split(text.strip()) if piece.strip()]


def _split_headings(words: Sequence[str], all_headings: frozenset[str]) -> list[str]:
    """Split these words into known headings, or return [] if a word belongs to no heading."""
    headings: list[str] = []
    start = 0
    while start < len(words):
        ends = range(min(len(words), start + _MAX_HEADING_WORDS), start, -1)
        end = next((end for end in ends if " ".join(words[start:end]) in all_headings), None)
        if end is None:
            return []
        headings.append(" ".join(words[start:end]))
        start = end
    return headings


def _create_record(rows: Sequence[_Row], headings: Sequence[tuple[tuple[str, ...], ...]], shape: TableShape) -> Record:
    values: dict[str, Value] = {}
    misfits: list[Line] = []
    for row, row_headings in zip(rows, headings, strict=False):
        fits = len(row.cells) <= len(row_headings)  # a row may omit cells at its end
        for cell, cell_headings in zip(row.cells, row_headings, strict=False) if fits else ():
            texts = _split_cell(cell, cell_headings, shape)
            fits = fits and texts is not None
            values.update({heading: Value(heading, text, row.line) for heading, text in (texts or {}).items()})
        if not fits or (row.line.ended and _is_short(row, row_headings)):
            misfits.append(row.line)
    if len(rows) < len(headings) and not misfits:
        misfits.append(rows[-1].line)  # the other lines of the record are missing
    return Record(rows[0].line, values, tuple(misfits))


def _is_short(row: _Row, row_headings: Sequence[tuple[str, ...]]) -> bool:
    return len(row.cells) < len(row_headings) or not all(cell.is_whole for cell in row.cells)


def _split_cell(cell: Cell, headings: Sequence[str], shape: TableShape) -> dict[str, str] | None:
    if not cell.text:
        return {}
    pieces = _split_at_gaps(cell.text)
    texts: dict[str, str] | None
    if len(headings) == 1:
        texts = {headings[0]: cell.text}
    elif len(pieces) == len(headings):
        texts = dict(zip(headings, pieces, strict=True))
    else:
        texts = _assign_words(cell.text.split(), headings, shape)
    if texts is None or not _fits_headings(texts, headings, shape):
        return None
    if cell.is_whole:
        return texts
    return {name: text for name, text in texts.items() if name in shape.patterns}


def _fits_headings(texts: Mapping[str, str], headings: Sequence[str], shape: TableShape) -> bool:
    """Return whether each heading has a value that matches its pattern."""
    return len(texts) == len(headings) and all(
        heading not in shape.patterns or shape.patterns[heading].match(text) for heading, text in texts.items()
    )


def _assign_words(words: Sequence[str], headings: Sequence[str], shape: TableShape) -> dict[str, str] | None:
    """Map each heading to its words, or return None if the words do not fit the headings."""
    free_positions = [position for position, name in enumerate(headings) if name not in shape.patterns]
    has_enough_words = len(words) >= len(headings) if free_positions else len(words) == len(headings)
    if len(free_positions) > 1 or not has_enough_words or not shape.headings.issuperset(headings):
        return None
    if not free_positions:
        return dict(zip(headings, words, strict=True))
    free_end = len(words) - (len(headings) - free_positions[0] - 1)
    texts = (*words[: free_positions[0]], " ".join(words[free_positions[0] : free_end]), *words[free_end:])
    return dict(zip(headings, texts, strict=True))
