"""The tables that rocm-smi prints below the name of a card, `GPU[0]: RAS INFO`: errors by block, retired pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry_parsers.rocm import words
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.sections import is_of_card
from telemetry_parsers.text.lines import Line, quote

_TITLE = re.compile(
    r"\s{0,8}GPU\[([0-9]{1,4})\]:\s{1,8}(?:(RAS)|(ALL|RESERVED|PENDING|UNRESERVABLE) PAGES) INFO\s{0,8}\Z"
)
_HEADING = re.compile(
    r"\s{0,40}Block\s{1,40}Status\s{1,40}(un)?correctable err(?:or)?\s{1,40}(?:un)?correctable err", re.IGNORECASE
)
_BLOCK = re.compile(
    r"\s{0,40}([A-Z][A-Z0-9_]{1,15})\s{1,40}([A-Z]{2,16}(?: ERROR)?)(?:\s{1,40}([0-9]{1,20})\s{1,40}([0-9]{1,20}))?\s{0,40}\Z"
)
_PAGE = re.compile(r"\s{0,40}0x[0-9a-f]{1,16}\s{1,40}0x[0-9a-f]{1,16}\s{1,40}(reserved|pending|unreservable)\s{0,40}\Z")
_PAGE_HEADING = re.compile(r"\s{0,40}Page address\s{1,40}Page size\s{1,40}Status\s{0,40}\Z")


@dataclass(slots=True)
class _Table:
    """The table that is being read: of which card, of pages or of blocks, and the states of its pages so far."""

    card: int
    pages: str
    first_column: str = ""
    states: list[str] = field(default_factory=list)


def read_blocks(lines: Sequence[Line]) -> Listing | None:
    """The listing of these tables, None when there is none."""
    listing = Listing()
    table: _Table | None = None
    seen = False
    for line in lines:
        title = _TITLE.match(line.text)
        if title is not None and line.ended:
            _end(table, line, listing)
            table, seen = _Table(int(title[1]), title[3] or ""), True
            listing.card(table.card)
        elif table is not None and (not line.ended or not _take(line, table, listing)):
            if line.ended:
                _end(table, line, listing)
                if not words.is_frame(line.text) and not is_of_card(line):
                    listing.complain(line.where, f"ends a card's table without being of it: {quote(line.text)}")
            table = None
        elif table is None and (_HEADING.match(line.text) or _PAGE_HEADING.match(line.text)):
            listing.complain(line.where, "a table that does not say which card it is of")
            seen = True
    if table is not None:
        listing.complain("text", "the text ends inside a card's table")
        listing.is_cut = True
    return listing if seen else None


def _take(line: Line, table: _Table, listing: Listing) -> bool:
    """Whether the line belongs to the table, and its entry if so."""
    page = _PAGE.match(line.text) if table.pages else None
    if page is not None:
        table.states.append(page[1])
        return True
    heading = _HEADING.match(line.text)
    if heading is not None:
        table.first_column = (heading[1] or "").lower() + "correctable"
    block = _BLOCK.match(line.text) if not table.pages else None
    if block is not None:
        listing.card(table.card).extend(_counts(block, table, line.where))
    return block is not None or heading is not None or _PAGE_HEADING.match(line.text) is not None


def _counts(block: re.Match[str], table: _Table, where: str) -> list[Entry]:
    """The entries of a row: whether errors of its block are watched for, and how many there were."""
    name, state, first, second = block.groups()
    counts = [Entry(f"{name} RAS", state, where)]
    if first is None or not table.first_column:
        return counts
    if table.first_column == "uncorrectable" and first != second:
        # Up to ROCm 5.7 the headings of these two columns are swapped (rocm_smi.py, showRasInfo): which is which
        # cannot be known where a version may have been mended.
        first = second = f"{first} and {second} below headings that some versions swap"
    return [*counts, Entry(f"{name} RAS correctable", first, where), Entry(f"{name} RAS uncorrectable", second, where)]


def _end(table: _Table | None, line: Line, listing: Listing) -> None:
    """Count the pages of a table that is whole; a card without any gets no count."""
    if table is None or not table.states:
        return
    for key, state in (("retired pages", "reserved"), ("pending pages", "pending")):
        if table.pages in ("ALL", state.upper()):
            listing.card(table.card).append(Entry(key, str(table.states.count(state)), line.where))
