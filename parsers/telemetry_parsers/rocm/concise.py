"""The tables that rocm-smi and hy-smi print without arguments, of every era, as a listing.

What proves that a table is whole: the rule below its last row, or `End of SMI Log`. That a row is: a cell below each
heading. That the two lines of headings of ROCm 6 are: which sensor and which power, in the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers.rocm import columns, words
from telemetry_parsers.rocm.columns import Placed, cells_of, columns_of, fits_column
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.complaints import CUT_TABLE, listed_twice
from telemetry_parsers.text.lines import Line, quote

_SUB_HEADING = re.compile(r"\((edge|dieedge|junction|hotspot|memory|avg|socket)\)")
_NAME_HEADING = "(20 chars)"
_POWER = {"avg": "average graphics package power", "socket": "current socket graphics package power"}
_RULE = re.compile(r"\s{0,40}[=\-]{3,400}(.{0,400})\Z")
_ROW_START = re.compile(r"\s{0,40}([0-9]{1,4})(?=\s)")
_GAP = re.compile(r"\s{2,}")

_NO_SECOND_LINE = "no second line of headings says which sensor and which power the rows below tell"
# Whose headings have a second line.
_TWO_LINES = "device"
# Where /dev/mkfd cannot be opened, hy-smi prints `0%` of memory beside `N/A` of use; the memory is not free at all.
_BLIND = ("gpu use", "vram")


@dataclass(slots=True)
class _Table:
    """The headings under which the rows stand, and what the second heading line adds to two of them."""

    columns: tuple[Placed, ...]
    sensor: str = ""
    power: str = ""
    has_name_rows: bool = False
    has_rows: bool = False
    is_closed: bool = False
    below_row: bool = False
    unnamed: int | None = None

    @property
    def is_hygons(self) -> bool:
        """Whether the index's heading is one of Hygon's."""
        return self.columns[0].heading.lower() in ("dcu", "hcu")


def read_concise(lines: Sequence[Line], plain_sensor: str) -> Listing | None:
    """The listing of the tables in these lines, None when there is no heading of one.

    `plain_sensor` is what the tool means by a temperature whose heading names no sensor.
    """
    table: _Table | None = None
    listing = Listing()
    seen = False
    for line in lines:
        heading = columns_of(line.text) if line.ended else ()
        if heading:
            two_lines = heading[0].heading.lower() == _TWO_LINES
            table, seen = _Table(heading, "" if two_lines else plain_sensor), True
        elif table is None:
            _keep_error(line, listing)
        else:
            table = _take(line, table, listing)
    if table is not None and not table.is_closed:
        listing.is_cut = True
        listing.complain(lines[-1].where, f"{CUT_TABLE}: {quote(lines[-1].text)}")
    return listing if seen else None


def _keep_error(line: Line, listing: Listing) -> None:
    """Tells of an error that stands beside the tables: `Open mkfd failed`, a traceback."""
    if words.is_error(line):
        listing.complain(line.where, quote(line.text))


def _take(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Read one line below a heading; the table that goes on, None once it has ended."""
    rule = _RULE.match(line.text)
    if rule is not None:
        # A title in the rule begins something else; a bare one may stand between rows, round a message.
        has_title = bool(rule[1].strip(" =-"))
        table.is_closed = table.has_rows and (has_title or table.below_row or table.is_closed)
        return None if has_title else table
    if not line.text.strip():
        return table
    table.below_row = False
    if not line.ended:
        # A card is there whose row is cut; its cells may be, too.
        table.is_closed = False
        if (row := _ROW_START.match(line.text)) is not None:
            listing.card(int(row[1]))
    elif not table.has_rows and _is_sub_heading(line.text):
        _refine(table, line.text.lower())
    elif not _take_row(line, table, listing) and not _take_name(line, table, listing):
        return _passed_over(line, table, listing)
    return table


def _is_sub_heading(text: str) -> bool:
    return _NAME_HEADING in text or _SUB_HEADING.search(text.lower()) is not None


def _refine(table: _Table, text: str) -> None:
    """What the second heading line adds: which sensor, which power, and that a name stands below each row."""
    for word in _SUB_HEADING.findall(text):
        if word in _POWER:
            table.power = _POWER[word]
        else:
            table.sensor = word
    table.has_name_rows = table.has_name_rows or _NAME_HEADING in text


def _take_name(line: Line, table: _Table, listing: Listing) -> bool:
    """Keep the name of the card whose row stands above, if this line may be one."""
    text = line.text.strip()
    if table.unnamed is None or not table.has_name_rows or words.is_notice(text) or words.absent_of(text) is not None:
        return False
    if words.is_error(line):
        return False
    listing.cards[table.unnamed].append(Entry("name", text, line.where))
    table.unnamed, table.below_row = None, True
    return True


def _passed_over(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Tells of a line that is no row; below the rule that closes a table, any but a message ends it."""
    if table.is_closed:
        _keep_error(line, listing)
        return table if words.is_notice(line.text) or words.absent_of(line.text) is not None else None
    row = _ROW_START.match(line.text)
    if row is not None:
        table.has_rows = True
        listing.card(int(row[1]))
        what = f"does not fit the headings, and is not read: {quote(line.text)}"
        listing.complain(line.where, what)
    elif _is_like_a_row(line, table) or not (words.is_notice(line.text) or words.is_unsupported(line.text)):
        listing.complain(line.where, quote(line.text))
    return table


def _is_like_a_row(line: Line, table: _Table) -> bool:
    """Whether a line has as many cells as a row that has lost one or two."""
    return len(_GAP.split(line.text.strip())) > max(3, len(table.columns) - 3)


def _take_row(line: Line, table: _Table, listing: Listing) -> bool:
    """Read a row; False for a line that is none, or whose cells cannot be kept apart."""
    cells = cells_of(line.text, table.columns)
    if not cells or "" in cells:
        return False
    index = int(cells[0])
    if not table.has_rows and _lacks_second_line(table):
        listing.complain(line.where, _NO_SECOND_LINE)
    table.has_rows, table.is_closed, table.below_row = True, False, True
    if listing.cards.get(index):
        listing.complain(line.where, listed_twice(f"card {index}"))
        return True
    table.unnamed = index
    listing.cards[index] = [Entry("index", cells[0], line.where)]
    for placed, text in zip(table.columns[1:], cells[1:], strict=False):
        listing.cards[index].extend(
            Entry(key, value, line.where) for key, value in _meanings(placed, text, table, line, listing)
        )
    _doubt(listing.cards[index], table)
    return True


def _lacks_second_line(table: _Table) -> bool:
    keys = {placed.column.key for placed in table.columns}
    return ("temp" in keys and not table.sensor) or ("power" in keys and not table.power)


def _meanings(placed: Placed, text: str, table: _Table, line: Line, listing: Listing) -> list[tuple[str, str]]:
    """A cell as keys and texts of the listing."""
    key = placed.column.key
    if key == columns.UNKNOWN:
        listing.unknown[placed.heading] = None
        return []
    if key == "temp":
        return [(f"temperature (sensor {table.sensor})", columns.celsius(text))] if table.sensor else []
    if key.startswith("temperature"):
        return [(key, columns.celsius(text))]
    if placed.column.one_word:
        return [(table.power or key if key == "power" else key, text)] if key else []
    if not fits_column(text, placed.column):
        if text:
            listing.complain(f"{line.where} {placed.heading}", f'"{quote(text)}" is not_understood')
        return []
    return _several(key, text)


def _several(key: str, text: str) -> list[tuple[str, str]]:
    """The parts of a cell with blanks inside, as keys and texts."""
    if key in ("ids", "revision"):
        return [("device id", re.split(r"[,:]", text.strip("[] "))[0].strip())]
    if key == "partitions":
        names = ("memory partition", "compute partition", "partition id")
        return list(zip(names, (part.strip() for part in text.split(",")), strict=False))
    return []


def _doubt(entries: list[Entry], table: _Table) -> None:
    """Takes back a memory share of 0 % where hy-smi could not read the card's use, or the row ends before that."""
    texts = {entry.key: entry.text for entry in entries}
    tells_use = any(placed.column.key == _BLIND[0] for placed in table.columns)
    use, memory = (texts.get(key, "N/A" if tells_use else "") for key in _BLIND)
    if table.is_hygons and use == "N/A" and memory in ("0%", "0.0%"):
        entries[:] = [Entry(entry.key, "N/A", entry.where) if entry.key == _BLIND[1] else entry for entry in entries]
