"""Finds identities in text, such as known names and values after a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from telemetry_daemon.masking import words
from telemetry_daemon.masking.shapes import FIRST_SHAPES, SHAPES, Shape, Treatment, is_identifying, treatment_of_key
from telemetry_parsers.dataclass import dataclass, field

Kind = Literal["whole", "whole_number", "address"]

# These treatments mask single words. An earlier match inside the span does not hide the span's other words from them.
_WORDWISE_TREATMENTS = ("names", "odd")
_WORD = re.compile(r"\S+")
# Results for shorter texts are cached, because keys and words repeat in each capture.
_MAX_CACHED_LENGTH = 80
_KEY_BEFORE_VALUE = re.compile(r"[:=>][ \t]{0,80}[\"']?\Z")
_SEPARATORS = ",\t;|"
_CELL_PADDING = " \t\"'"
# A longer line is not part of a table.
_MAX_LINE_LENGTH = 20_000
_MAX_HEADING_LENGTH = 60
# Matches a heading row whose cells are separated by spaces. A line with a number or a colon is another row.
_GAP_SEPARATED_HEADING = re.compile(r"[^\d:|,;\t]*[^\s\d:|,;\t] {2,}[^\d:|,;\t]+\Z")
_CELL_NAME = re.compile(r"[\w.-]*[^\W\d_][\w.-]*\Z")
# Words are indexed by this part: the first letters and digits, or one character of another script.
_HEAD = re.compile(r"[0-9a-zA-Z]+|(?<![0-9a-zA-Z])[^\x00-\x7f]")
# In a log, a word may follow an escaped line end or tab, such as `\n`.
_ESCAPE = re.compile(r"\\[nrt][0-9a-zA-Z]")
_WORD_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")


class WholeWords:
    """Finds the words of a set in strings, ignoring case."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words_by_head: dict[str, set[str]] = {}
        self._lengths_by_head: dict[str, list[int]] = {}
        self.add(words)

    def add(self, words: Iterable[str]) -> None:
        """Add words to find."""
        for word in words:
            if head := _HEAD.search(word):
                self._add(head[0].lower(), word[head.start() :])

    def _add(self, head: str, word: str) -> None:
        self._words_by_head.setdefault(head, set()).add(word.lower())
        # The original length is stored, because `lower` makes some words longer (İ).
        lengths = self._lengths_by_head.setdefault(head, [])
        if len(word) not in lengths:
            lengths.append(len(word))
            lengths.sort(reverse=True)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each word of the set that occurs in a string."""
        end = 0
        for match in _HEAD.finditer(text) if self._lengths_by_head else ():
            starts = (match.start(), match.start() + 1) if _ESCAPE.match(text, match.start() - 1) else (match.start(),)
            for start in starts:
                head = text[start : match.end()].lower()
                if head in self._lengths_by_head and start >= end and (word_end := self._word_end(head, text, start)):
                    end = word_end
                    yield start, end
                    break

    def _word_end(self, head: str, text: str, start: int) -> int:
        """Return the end of the word that starts here, or 0 if the word is not in the set."""
        for length in self._lengths_by_head[head]:
            end = start + length
            is_whole = end <= len(text) and text[end : end + 1].lower() not in _WORD_CHARACTERS
            if is_whole and text[start:end].lower() in self._words_by_head[head]:
                return end
        return 0


@dataclass(frozen=True, slots=True)
class Secret:
    """A part of a string that identifies a machine, card or person."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class KnownIdentities:
    """The identities, names and processes to mask. Words in `harmless` and `models` are not masked."""

    ids: WholeWords = field(default_factory=WholeWords)
    names: WholeWords = field(default_factory=WholeWords)
    processes: tuple[tuple[str, str], ...] = ()
    harmless: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()

    def occur_in(self, text: str) -> bool:
        """Return whether the text contains a known identity, host name or process name."""
        spans = (span for words in (self.ids, self.names) for span in words.find(text))
        return any(spans) or any(name in text for _, name in self.processes)


def find_secrets(text: str, identities: KnownIdentities, key_treatment: Treatment | None = None) -> list[Secret]:
    """Return the secrets in a string, in order and without overlaps."""
    if len(text) <= _MAX_CACHED_LENGTH and not (_looks_identifying(text, key_treatment) or identities.occur_in(text)):
        return []
    return sorted(_search(text, identities, key_treatment).found, key=lambda secret: secret.start)


@lru_cache(maxsize=1 << 14)
def _looks_identifying(text: str, key_treatment: Treatment | None) -> bool:
    search = _search(text, KnownIdentities(), key_treatment)
    return bool(search.found) or search.has_examined_text


def _search(text: str, identities: KnownIdentities, key_treatment: Treatment | None) -> _Search:
    search = _Search(text)
    search.examine((start, end, "whole") for start, end in identities.ids.find(text))
    names = identities.names.find(text)
    search.examine((start, end, "whole") for start, end in names if text[start:end] not in identities.models)
    for shape in FIRST_SHAPES:
        search.examine(_matching_spans(text, shape, identities.harmless))
    if key_treatment == "each" and is_identifying(text):
        search.examine([(0, len(text), key_treatment)])
    search.examine(
        (start, end, treatment)
        for start, end, treatment in _cells_under_identity_headings(text)
        if is_identifying(text[start:end])
    )
    lower_text = text.lower()
    for shape in SHAPES:
        if shape.may_be_in(lower_text):
            search.examine(_matching_spans(text, shape, identities.harmless))
    search.examine(_process_name_spans(text, identities.processes))
    if key_treatment == "names":
        search.examine([(0, len(text), key_treatment)])
    search.add_if_unexamined((start, end, "whole") for start, end in words.secret_spans(text, identities.harmless))
    return search


class _Search:
    def __init__(self, text: str) -> None:
        self._text = text
        self._examined = bytearray(len(text))
        self.found: list[Secret] = []

    @property
    def has_examined_text(self) -> bool:
        return any(self._examined)

    def examine(self, spans: Iterable[tuple[int, int, Treatment]]) -> None:
        for start, end, treatment in spans:
            if treatment in _WORDWISE_TREATMENTS or not any(self._examined[start:end]):
                self.add_if_unexamined(self._spans_to_mask(start, end, treatment))
                self._examined[start:end] = b"\1" * (end - start)

    def add_if_unexamined(self, spans: Iterable[tuple[int, int, Kind]]) -> None:
        for start, end, kind in spans:
            if not any(self._examined[start:end]):
                self.found.append(Secret(start, end, kind))
                self._examined[start:end] = b"\1" * (end - start)

    def _spans_to_mask(self, start: int, end: int, treatment: Treatment) -> Iterator[tuple[int, int, Kind]]:
        text = self._text[start:end]
        if treatment in ("whole", "whole_number", "address"):
            yield start, end, treatment
        if treatment == "each":
            yield from ((*match.span(), "whole") for match in _WORD.finditer(self._text, start, end))
        if treatment in _WORDWISE_TREATMENTS:
            yield from ((start + left, start + right, "whole") for left, right in words.secret_spans(text, frozenset()))
        if treatment == "names":
            yield from ((start + left, start + right, "whole") for left, right in words.name_spans(text))


def _matching_spans(text: str, shape: Shape, harmless: frozenset[str]) -> Iterator[tuple[int, int, Treatment]]:
    for match in shape.pattern.finditer(text):
        if shape.accepts(match) and match["value"] not in harmless:
            yield *match.span("value"), shape.treatment


def _process_name_spans(text: str, processes: Iterable[tuple[str, str]]) -> Iterator[tuple[int, int, Treatment]]:
    """Yield the spans of process names that follow a key, or that are on the same line as their PID."""
    for pid, name in processes:
        start = text.find(name)
        while start >= 0:
            end = start + len(name)
            before = text[text.rfind("\n", 0, start) + 1 : start]
            after = text[end : max(text.find("\n", end), end)]
            if _KEY_BEFORE_VALUE.search(before[-90:]) or re.search(rf"(?<![0-9]){pid}(?![0-9])", f"{before} {after}"):
                yield start, end, "names"
            start = text.find(name, end)


@dataclass(frozen=True, slots=True)
class _HeadingRow:
    separator: str
    cell_count: int
    treatment_by_column: dict[int, Treatment]


def _cells_under_identity_headings(text: str) -> Iterator[tuple[int, int, Treatment]]:
    heading_row: _HeadingRow | None = None
    name_columns: list[tuple[int, int]] = []
    line_start = 0
    for line in text.split("\n"):
        yield from _names_in_columns(line, line_start, name_columns)
        name_columns = _name_columns(line) or (name_columns if line.strip() else [])
        new_heading_row = _find_heading_row(line) if len(line) <= _MAX_LINE_LENGTH else None
        if new_heading_row is None and heading_row is not None:
            yield from _cells_under_headings(line, line_start, heading_row)
        heading_row = new_heading_row or (heading_row if line.strip() else None)
        line_start += len(line) + 1


def _name_columns(line: str) -> list[tuple[int, int]]:
    if len(line) > _MAX_LINE_LENGTH or not _GAP_SEPARATED_HEADING.match(line):
        return []
    return [match.span() for match in _WORD.finditer(line) if _is_name_heading(match[0])]


def _is_name_heading(word: str) -> bool:
    return word == "Node" or (word.isalpha() and treatment_of_key(word) == "names")


def _names_in_columns(
    line: str, line_start: int, columns: list[tuple[int, int]]
) -> Iterator[tuple[int, int, Treatment]]:
    for match in _WORD.finditer(line) if columns and len(line) <= _MAX_LINE_LENGTH else ():
        is_below = any(match.start() < right and left < match.end() for left, right in columns)
        if is_below and _CELL_NAME.match(match[0]):  # other identities are recognised by their shape
            yield line_start + match.start(), line_start + match.end(), "names"


def _find_heading_row(line: str) -> _HeadingRow | None:
    for separator in _SEPARATORS:
        if separator not in line:
            continue
        cells = line.split(separator)
        # A drawn table may have several heading rows, so only headings of names count there.
        find_treatment = _treatment_of_name_heading if separator == "|" else _treatment_of_heading
        treatments = {column: find_treatment(cell) for column, cell in enumerate(cells)}
        treatment_by_column = {column: treatment for column, treatment in treatments.items() if treatment is not None}
        if treatment_by_column:
            return _HeadingRow(separator, len(cells), treatment_by_column)
    return None


def _treatment_of_heading(cell: str) -> Treatment | None:
    return treatment_of_key(cell.strip(_CELL_PADDING)) if len(cell) < _MAX_HEADING_LENGTH else None


def _treatment_of_name_heading(cell: str) -> Treatment | None:
    return "names" if _is_name_heading(cell.strip()) else None


def _cells_under_headings(line: str, cell_start: int, heading_row: _HeadingRow) -> Iterator[tuple[int, int, Treatment]]:
    cells = line.split(heading_row.separator)
    if len(cells) != heading_row.cell_count:
        return
    for column, cell in enumerate(cells):
        if column in heading_row.treatment_by_column and (value := cell.strip(_CELL_PADDING)):
            value_start = cell_start + cell.index(value)
            yield value_start, value_start + len(value), heading_row.treatment_by_column[column]
        cell_start += len(cell) + 1
