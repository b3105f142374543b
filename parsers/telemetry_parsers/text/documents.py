"""Finds complete and truncated JSON documents in a tool's output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import TypeVar

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Plain, Problem
from telemetry_parsers.text.lines import quote

# Numbers remain strings, so that parsers see the digits as printed.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
# A document begins at the start of a line.
_LINE_STARTS = re.compile(r"^[ \t]{0,200}(?=[\[{])", re.MULTILINE)
# If a tool prints one object per line, a document may begin in the middle of a line.
OBJECTS = re.compile(r"(?=\{)")
# `amd-smi --file` appends the next list to the line on which the previous list ends.
_APPENDED_START = re.compile(r"[ \t]{0,200}(?=[\[{])")
_MAX_APPENDED = 1000
# The search for documents ends after this number of brackets that do not begin a document.
_MAX_FAILURES = 16
# Matches the start of JSON, but not that of `[sudo] password`, `[1,0]<stdout>:` or `{x} ignored`.
_JSON_START = re.compile(r"[\[{]\s*[\"\[{]")
_LIST_START = re.compile(r"\[\s*(?=\{)")
_MEMBER = re.compile(r"\s*[{,]\s*\"[^\"\n]{0,200}\"\s*:\s*(?=[\[{])")
_COMMA = re.compile(r"\s*,\s*")
# Matches lines that are not JSON, such as `[ 12.345678] amdgpu: …`, a date or `----`.
_FOREIGN_LINE = re.compile(
    r"^[ \t]{0,200}(?:(?!(?:true|false|null|NaN|Infinity)\b)[^\s\d\"{}\[\],:-]|\[ {0,8}[0-9]{1,9}\.[0-9]{1,9}\][ \t]+[^\s\],}]"
    r"|[0-9]{1,4}[-/:][0-9]|-+(?![-0-9I])).*$",
    re.MULTILINE,
)
_NONBLANK_LINE = re.compile(r"[^\s][^\n]*")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document and its offsets. `fault` is the reason why it is truncated or invalid."""

    start: int
    end: int
    value: Plain
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Documents:
    """The JSON documents in a tool's output, and the foreign lines inside them."""

    text: str
    documents: tuple[Document, ...]
    foreign: tuple[tuple[int, str], ...] = ()  # (offset, line)

    @property
    def fault(self) -> str:
        """Return the last document's fault, or an empty string."""
        return self.documents[-1].fault if self.documents else ""

    @property
    def covered_length(self) -> int:
        """Return the number of characters in the documents."""
        return sum(document.end - document.start for document in self.documents)

    def problems(self, used: Collection[Document]) -> list[Problem]:
        """Return a problem for each line outside the `used` documents. A truncated document extends to the end."""
        lines = list(self.foreign)
        end = 0
        starts = {item.start for item in used}
        for document in (item for item in self.documents if item.start in starts or item.fault):
            lines += _nonblank_lines(self.text, end, document.start)
            end = len(self.text) if document.fault else document.end
        lines += _nonblank_lines(self.text, end, len(self.text))
        return [Problem("text", f"text outside the JSON: {quote(line)}") for _, line in sorted(lines)]


def find_documents(text: str, starts: re.Pattern[str] = _LINE_STARTS) -> Documents:
    """Return the JSON documents in a tool's output, ignoring foreign lines inside the documents."""
    documents, foreign = ignore_foreign_lines(
        text,
        lambda part: _scan_documents(part, starts),
        lambda documents: (not documents.fault, documents.covered_length),
    )
    return replace(documents, foreign=foreign)


def ignore_foreign_lines(
    text: str, read: Callable[[str], _T], progress: Callable[[_T], tuple[bool, int]]
) -> tuple[_T, tuple[tuple[int, str], ...]]:
    """Read the text, without foreign lines if this makes more `progress`. Return the result and the ignored lines."""
    unchanged = read(text)
    foreign = tuple((match.start(), match[0]) for match in _FOREIGN_LINE.finditer(text))
    cleaned = read(_FOREIGN_LINE.sub(lambda match: " " * len(match[0]), text)) if foreign else unchanged
    return (cleaned, foreign) if progress(cleaned) > progress(unchanged) else (unchanged, ())


def _scan_documents(text: str, starts: re.Pattern[str]) -> Documents:
    documents: list[Document] = []
    position, failure_count, appended_count, end = 0, 0, 0, -1
    while failure_count < _MAX_FAILURES:
        match = _APPENDED_START.match(text, position) if position == end and appended_count < _MAX_APPENDED else None
        appended_count += match is not None
        match = match or starts.search(text, position)
        if match is None:
            break
        start = match.end()
        try:
            value, end = _DECODER.raw_decode(text, start)
            position = end
            documents.append(Document(start, end, value))
        except (ValueError, RecursionError) as error:
            failure_count += 1
            if _JSON_START.match(text, start):
                items, end = _complete_items(text, start)
                documents.append(Document(start, end, items, quote(str(error))))
                break
            position = start + 1
    return Documents(text, tuple(documents))


def _complete_items(text: str, start: int) -> tuple[list[Plain], int]:
    """Return the complete items of a truncated list, and the offset at which they end."""
    items: list[Plain] = []
    end = start
    position = _first_item_offset(text, start)
    while position is not None:
        try:
            item, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):  # the caller reports the error
            break
        items.append(item)
        comma = _COMMA.match(text, end)
        end = comma.end() if comma else end
        position = end if comma else None
    return items, end


def _first_item_offset(text: str, position: int) -> int | None:
    """Return the offset of the first item of the first list, or None if there is no list."""
    while (match := _LIST_START.match(text, position)) is None:
        member = _MEMBER.match(text, position)
        if member is None:
            return None
        position = member.end()
        if _LIST_START.match(text, position) is None:
            try:
                _, position = _DECODER.raw_decode(text, position)
            except (ValueError, RecursionError):  # the document is truncated here
                return None
    return match.end()


def _nonblank_lines(text: str, start: int, end: int) -> list[tuple[int, str]]:
    return [(start + match.start(), match[0]) for match in _NONBLANK_LINE.finditer(text[start:end])]
