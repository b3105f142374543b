"""Reads the text output of `-a` and `--show…`, and RAS and page tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.rocm import messages
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.answers import CUT_LINE
from telemetry_parsers.text.lines import Line, quote

# A number after `ERROR:` is a status of the library: `ERROR: 2 GPU[1]: volt: …`. XCP is a partition.
_CARD_LINE = re.compile(
    r"\s{0,8}(?:(ERROR|WARNING|INFO|DEBUG)\s{0,4}:?\s{0,8}(?:[0-9]{1,5} )?)?"
    r"(?:GPU|DCU|HCU)\[([0-9]{1,4})\](?: XCP\[[0-9]{1,4}\])?\s{0,40}:\s{0,100}(\S.*)\Z"
)
_PAIR = re.compile(r"([^:]{1,80}(?:\([^()]{0,40}\([^()]{0,20}\)\))?):(?:\s{1,40}(.*))?\Z")
# hy-smi omits the colon in these lines: `pcie clock level 1 (16.0GT/s, x16 800Mhz)`, `(Topology) Numa Node  3`.
_BARE_PAIR = re.compile(
    r"([a-z]{3,8} clock level|\(Topology\) Numa (?:Node|Affinity))\s{1,8}(-?[0-9]{1,10}\b.{0,80})\Z"
)
# A line of ROCm 2: `vram ::    total: 17163091968 B       used: 9437184 B`.
_POOL = re.compile(r"([a-z_]{3,8}) ::\s{1,16}total: ([0-9]{1,20}) B\s{1,16}used: ([0-9]{1,20}) B\Z")
# Messages that begin with these words may look like keys with values.
_MESSAGE = re.compile(r"(?:cannot|unable|failed|powerplay not enabled|incompatible device|supported) ?", re.IGNORECASE)
_LINE_WITHOUT_CARD = re.compile(r"\s{0,40}:\s{1,100}\S")
NO_END_LINE = "the closing line is missing, so the text may be cut off"
_DRIVER = re.compile(r"\s{0,8}(Driver [Vv]ersion)\s{0,8}:\s{0,8}(\S.{0,80})\Z")


def read_sections(lines: Sequence[Line]) -> Listing | None:
    """Read lines such as `GPU[0] : key: value` into a listing, or return None if there are none."""
    listing = Listing()
    has_data = False
    for line in lines:
        card_line = _CARD_LINE.match(line.text)
        driver_line = _DRIVER.match(line.text)
        has_data = has_data or card_line is not None or driver_line is not None
        if not line.ended:
            if card_line is not None or driver_line is not None or not messages.is_frame(line.text):
                listing.add_problem(line.where, CUT_LINE)
            listing.is_cut = bool(listing.problems)
        elif card_line is not None:
            _read_value(line, card_line[1] or "", int(card_line[2]), card_line[3].rstrip(), listing)
        elif driver_line is not None:
            listing.system.append(Entry(driver_line[1], driver_line[2].strip(), line.where))
        elif _LINE_WITHOUT_CARD.match(line.text):
            listing.add_problem(line.where, f"the line does not name its card: {quote(line.text)}")
    return listing if has_data else None


def report_missing_end(lines: Sequence[Line], listing: Listing) -> None:
    """Report the output as truncated if no closing line follows the last card."""
    last_line = next((line for line in reversed(lines) if messages.is_end_line(line.text) or is_card_line(line)), None)
    if last_line is not None and not messages.is_end_line(last_line.text):
        listing.add_problem(last_line.where, f"{NO_END_LINE}: {quote(last_line.text)}")
        listing.is_cut = True


def is_card_line(line: Line) -> bool:
    """Return whether a line is about a card or the driver."""
    return _CARD_LINE.match(line.text) is not None or _DRIVER.match(line.text) is not None


def _read_value(line: Line, severity: str, index: int, text: str, listing: Listing) -> None:
    """Store a card's value, or a placeholder for a message that is printed in place of a value."""
    entries = listing.ensure_card(index)
    new_entries = () if severity else _entries_in(text, line)
    if new_entries:
        entries.extend(new_entries)
        return
    key_and_placeholder = messages.key_and_placeholder(text)
    if key_and_placeholder is not None:
        entries.append(Entry(*key_and_placeholder, line.where))
    if not (messages.is_unsupported(text) or messages.is_notice(text) or (not severity and messages.is_harmless(text))):
        listing.add_problem(line.where, quote(line.text))


def _entries_in(text: str, line: Line) -> tuple[Entry, ...]:
    """Return the entries in a line, or () for a message about the card."""
    if _MESSAGE.match(text):
        return ()
    pool = _POOL.match(text)
    if pool is not None:
        total, used = (f"{pool[1]} Total {kind}Memory (B)" for kind in ("", "Used "))
        return Entry(total, pool[2], line.where), Entry(used, pool[3], line.where)
    match = _PAIR.match(text) or _BARE_PAIR.match(text)
    return () if match is None else (Entry(match[1].strip(), (match[2] or "").strip(), line.where),)


_TITLE = re.compile(
    r"\s{0,8}GPU\[([0-9]{1,4})\]:\s{1,8}(?:(RAS)|(ALL|RESERVED|PENDING|UNRESERVABLE) PAGES) INFO\s{0,8}\Z"
)
_RAS_HEADING = re.compile(
    r"\s{0,40}Block\s{1,40}Status\s{1,40}(un)?correctable err(?:or)?\s{1,40}(?:un)?correctable err", re.IGNORECASE
)
_RAS_ROW = re.compile(
    r"\s{0,40}([A-Z][A-Z0-9_]{1,15})\s{1,40}([A-Z]{2,16}(?: ERROR)?)(?:\s{1,40}([0-9]{1,20})\s{1,40}([0-9]{1,20}))?\s{0,40}\Z"
)
_PAGE = re.compile(r"\s{0,40}0x[0-9a-f]{1,16}\s{1,40}0x[0-9a-f]{1,16}\s{1,40}(reserved|pending|unreservable)\s{0,40}\Z")
_PAGE_HEADING = re.compile(r"\s{0,40}Page address\s{1,40}Page size\s{1,40}Status\s{0,40}\Z")


@dataclass(slots=True)
class _Table:
    """A card's table of RAS blocks or of memory pages. `page_kind` is empty in a table of RAS blocks."""

    card: int
    page_kind: str
    first_count_kind: str = ""
    page_states: list[str] = field(default_factory=list)


def read_tables(lines: Sequence[Line]) -> Listing | None:
    """Read the tables of RAS blocks and memory pages into a listing, or return None if there are none."""
    listing = Listing()
    table: _Table | None = None
    has_table = False
    for line in lines:
        title = _TITLE.match(line.text)
        if title is not None and line.ended:
            _store_page_counts(table, line, listing)
            table, has_table = _Table(int(title[1]), title[3] or ""), True
            listing.ensure_card(table.card)
        elif table is not None and (not line.ended or not _read_row(line, table, listing)):
            if line.ended:
                _store_page_counts(table, line, listing)
                if not messages.is_frame(line.text) and not is_card_line(line):
                    listing.add_problem(
                        line.where, f"the line ends the card's table, because it is not a row: {quote(line.text)}"
                    )
            table = None
        elif table is None and (_RAS_HEADING.match(line.text) or _PAGE_HEADING.match(line.text)):
            listing.add_problem(line.where, "the table does not name its card")
            has_table = True
    if table is not None:
        listing.add_problem("text", "the text ends inside a card's table")
        listing.is_cut = True
    return listing if has_table else None


def _read_row(line: Line, table: _Table, listing: Listing) -> bool:
    """Read a line of the table. Return False if the line is not part of the table."""
    page = _PAGE.match(line.text) if table.page_kind else None
    if page is not None:
        table.page_states.append(page[1])
        return True
    heading = _RAS_HEADING.match(line.text)
    if heading is not None:
        table.first_count_kind = (heading[1] or "").lower() + "correctable"
    block = _RAS_ROW.match(line.text) if not table.page_kind else None
    if block is not None:
        listing.ensure_card(table.card).extend(_block_entries(block, table, line.where))
    return block is not None or heading is not None or _PAGE_HEADING.match(line.text) is not None


def _block_entries(row: re.Match[str], table: _Table, where: str) -> list[Entry]:
    """Return the state of a RAS block and, if they are printed, its error counts."""
    name, state, first_count, second_count = row.groups()
    state_entries = [Entry(f"{name} RAS", state, where)]
    if first_count is None or not table.first_count_kind:
        return state_entries
    if table.first_count_kind == "uncorrectable" and first_count != second_count:
        # The order is unknown, because ROCm up to 5.7 swaps the headings of these columns (rocm_smi.py, showRasInfo).
        first_count = second_count = f"{first_count} or {second_count} (some versions swap these headings)"
    counts = (("correctable", first_count), ("uncorrectable", second_count))
    return [*state_entries, *(Entry(f"{name} RAS {kind}", count, where) for kind, count in counts)]


def _store_page_counts(table: _Table | None, line: Line, listing: Listing) -> None:
    """Add the numbers of retired and pending pages in a complete table to the listing."""
    if table is None or not table.page_states:
        return
    for key, state in (("retired pages", "reserved"), ("pending pages", "pending")):
        if table.page_kind in ("ALL", state.upper()):
            listing.ensure_card(table.card).append(Entry(key, str(table.page_states.count(state)), line.where))
