"""CSV of rocm-smi and hy-smi as a listing: `device,…` somewhere, rows `card0,…` and `system,…` below it."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.lines import Line, quote

# A byte order mark and blanks are what editors and web pages put before it. Some versions of hy-smi begin with the time.
_HEADING = re.compile(r"[\ufeff ]{0,16}(?:time(?:stamp)?, ?)?device,", re.IGNORECASE)
_ROW = re.compile(r" {0,16}(?:[0-9A-Z][^,]{0,40}, ?)?(?:card([0-9]{1,4})|system),")
# Of a text about the node only, `--showdriverversion --csv`: a pair in each row, in quotes.
_PAIRS_HEADING = re.compile(r"[\ufeff ]{0,16}name, ?value\s{0,8}\Z", re.IGNORECASE)
_PAIR = re.compile(r'\s{0,16}"([^"]{1,80})", ?"([^"]{0,400})"\s{0,8}\Z')
# The columns of the time, and of the card.
_NO_KEYS = frozenset({"time", "timestamp", "device"})


def read_csv(lines: Sequence[Line]) -> Listing | None:
    """The listing of the CSV in these lines, None when no line is its heading."""
    heading: list[str] = []
    listing = Listing(system=_pairs(lines), is_cut=not all(line.ended for line in lines))
    for line in lines:
        row = _ROW.match(line.text) if heading else None
        if _HEADING.match(line.text):
            heading = [cell.strip("\ufeff ") for cell in _cells(line.text)]
            if not all(heading):
                listing.complain(line.where, "a column without a heading, which is not read")
        elif row is not None:
            entries = listing.system if row[1] is None else listing.card(int(row[1]))
            entries.extend(_entries(line, heading, listing))
        elif heading and line.text.lstrip().startswith(","):
            listing.complain(line.where, f"a row that does not say which card: {quote(line.text)}")
        if not line.ended and heading:
            listing.complain(line.where, "the text ends inside this row; further cards may be missing")
    return listing if heading or listing.system else None


def _pairs(lines: Sequence[Line]) -> list[Entry]:
    """What the rows below `name, value` hold of the node; nothing where that heading is missing."""
    if not any(_PAIRS_HEADING.match(line.text) for line in lines):
        return []
    rows = ((line, _PAIR.match(line.text)) for line in lines if line.ended)
    return [Entry(row[1], row[2].strip(), line.where) for line, row in rows if row is not None]


def _entries(line: Line, heading: Sequence[str], listing: Listing) -> list[Entry]:
    """The row's keys and texts: all of a whole row, of one that the text ends in all but the last."""
    # A quote that nothing closes: part of its cell is lost.
    cells = _mended(_cells(line.text) if line.text.count('"') % 2 == 0 else [], len(heading))
    if not line.ended:
        cells = cells[:-1]
    elif len(cells) != len(heading):
        listing.complain(line.where, f"{len(cells)} cells below {len(heading)} headings; the row is not read")
        return []
    pairs = zip(heading, cells, strict=False)
    return [Entry(key, text.strip(), line.where) for key, text in pairs if key.lower() not in _NO_KEYS]


def _mended(cells: list[str], count: int) -> list[str]:
    """The cells of a row, of more than this many those put together again that hy-smi's own commas have torn.

    It puts no quotes round `Co., Ltd.` and `32.0GT/s, x16 1100Mhz`; what stands behind such a comma begins with a blank,
    as no cell does.
    """
    if len(cells) <= count:
        return cells
    whole: list[str] = []
    for cell in cells:
        if whole and cell.startswith(" "):
            whole[-1] += f",{cell}"
        else:
            whole.append(cell)
    return whole if len(whole) == count else cells


def _cells(text: str) -> list[str]:
    """The cells of a line; none where the csv module refuses it, as for a NUL or a cell of 128 KiB."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # no row of values; the caller reports the line
        return []
