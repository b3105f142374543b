"""Finds JSON documents, complete or truncated, in other text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import TypeVar

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Plain, Problem
from telemetry_parsers.text.lines import quote

# Numbers stay texts, so that a parser sees what was printed.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
# A document may begin at the beginning of a line, …
_AT_LINES = re.compile(r"^[ \t]{0,200}(?=[\[{])", re.MULTILINE)
# … or, for a tool that prints one object in a line, also after other text in the line.
OBJECTS = re.compile(r"(?=\{)")
# `amd-smi --file` appends the next list without a new line.
_NEXT = re.compile(r"[ \t]{0,200}(?=[\[{])")
_MOST_APPENDED = 1000
# A text with more false beginnings is not JSON.
_MOST_FAILURES = 16
# Does not match `[sudo] password`, `[1,0]<stdout>:` and `config {x} ignored`.
_JSON_START = re.compile(r"[\[{]\s*[\"\[{]")
_LIST_START = re.compile(r"\[\s*(?=\{)")
_MEMBER = re.compile(r"\s*[{,]\s*\"[^\"\n]{0,200}\"\s*:\s*(?=[\[{])")
_COMMA = re.compile(r"\s*,\s*")
# No line of JSON begins like this: a letter or sign, `[ 12.345678] amdgpu: …`, a date or a time, `----`. No text in JSON
# continues in a second line.
_FOREIGN = re.compile(
    r"^[ \t]{0,200}(?:(?!(?:true|false|null|NaN|Infinity)\b)[^\s\d\"{}\[\],:-]|\[ {0,8}[0-9]{1,9}\.[0-9]{1,9}\][ \t]+[^\s\],}]"
    r"|[0-9]{1,4}[-/:][0-9]|-+(?![-0-9I])).*$",
    re.MULTILINE,
)
_TEXT = re.compile(r"[^\s][^\n]*")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its position. A document with a `fault` is truncated or broken; `value` has the items before the fault."""

    start: int
    end: int
    value: Plain
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents in a text; `foreign` are the lines within them that are not JSON, with their positions."""

    text: str
    documents: tuple[Document, ...]
    foreign: tuple[tuple[int, str], ...] = ()

    @property
    def fault(self) -> str:
        """Return why the last document is incomplete; empty if all are complete."""
        return self.documents[-1].fault if self.documents else ""

    @property
    def extent(self) -> int:
        """Return how much of the text the documents cover."""
        return sum(document.end - document.start for document in self.documents)

    def problems(self, taken: Collection[Document]) -> list[Problem]:
        """Return a problem for each line beside these documents. Text after a truncated document is not beside it."""
        lines = list(self.foreign)
        end = 0
        starts = {item.start for item in taken}
        for document in (item for item in self.documents if item.start in starts or item.fault):
            lines += _lines(self.text, end, document.start)
            end = len(self.text) if document.fault else document.end
        lines += _lines(self.text, end, len(self.text))
        return [Problem("text", f"text beside the JSON: {quote(line)}") for _, line in sorted(lines)]


def find_documents(text: str, openings: re.Pattern[str] = _AT_LINES) -> Documents:
    """Return the documents in a text, ignoring foreign lines within them."""
    found, foreign = past_foreign_lines(
        text, lambda part: _find(part, openings), lambda documents: (not documents.fault, documents.extent)
    )
    return replace(found, foreign=foreign)


def past_foreign_lines(
    text: str, read: Callable[[str], _T], progress: Callable[[_T], tuple[bool, int]]
) -> tuple[_T, tuple[tuple[int, str], ...]]:
    """Return what was read in a text, or in the text with foreign lines blanked if more is read then, and these lines."""
    unchanged = read(text)
    foreign = tuple((match.start(), match[0]) for match in _FOREIGN.finditer(text))
    mended = read(_FOREIGN.sub(lambda match: " " * len(match[0]), text)) if foreign else unchanged
    return (mended, foreign) if progress(mended) > progress(unchanged) else (unchanged, ())


def _find(text: str, openings: re.Pattern[str]) -> Documents:
    documents: list[Document] = []
    position, failures, appended, end = 0, 0, 0, -1
    while failures < _MOST_FAILURES:
        opening = _NEXT.match(text, position) if position == end and appended < _MOST_APPENDED else None
        appended += opening is not None
        opening = opening or openings.search(text, position)
        if opening is None:
            break
        start = opening.end()
        try:
            value, end = _DECODER.raw_decode(text, start)
            position = end
            documents.append(Document(start, end, value))
        except (ValueError, RecursionError) as error:
            failures += 1
            if _JSON_START.match(text, start):
                items, end = _items_before_the_cut(text, start)
                documents.append(Document(start, end, items, quote(str(error))))
                break
            position = start + 1
    return Documents(text, tuple(documents))


def _items_before_the_cut(text: str, start: int) -> tuple[list[Plain], int]:
    """Return the complete items of a truncated list and their end; for an object that contains lists, those of the first list."""
    items: list[Plain] = []
    end = start
    position = _first_item(text, start)
    while position is not None:
        try:
            item, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):  # the cut, which the document's fault reports
            break
        items.append(item)
        comma = _COMMA.match(text, end)
        end = comma.end() if comma else end
        position = end if comma else None
    return items, end


def _first_item(text: str, position: int) -> int | None:
    """Return the position of the first item of a list; None for an object with other values before the list: `{"gpu": 0, "links": [`."""
    while (opening := _LIST_START.match(text, position)) is None:
        member = _MEMBER.match(text, position)
        if member is None:
            return None
        position = member.end()
        if _LIST_START.match(text, position) is None:
            try:
                _, position = _DECODER.raw_decode(text, position)
            except (ValueError, RecursionError):  # the cut again
                return None
    return opening.end()


def _lines(text: str, start: int, end: int) -> list[tuple[int, str]]:
    """Return the lines between two positions that are not blank, with their positions."""
    return [(start + match.start(), match[0]) for match in _TEXT.finditer(text[start:end])]
