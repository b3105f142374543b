"""The listing in a text: of its JSON, its CSV, or the tables and sections that may stand together in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.reports.tool import Text
from telemetry_parsers.rocm import words
from telemetry_parsers.rocm.blocks import read_blocks
from telemetry_parsers.rocm.concise import read_concise
from telemetry_parsers.rocm.document import read_document
from telemetry_parsers.rocm.listing import Listing, joined
from telemetry_parsers.rocm.saved.csvform import read_csv
from telemetry_parsers.rocm.sections import is_of_card, miss_the_end, read_sections
from telemetry_parsers.text.lines import Line, quote

# `0   54.0c  …`, and since ROCm 6.1 `0   2   0x74a1,   28851  45.0°C  …`.
_BARE_ROW = re.compile(
    r"\s{0,8}[0-9]{1,4}\s{1,12}(?:[0-9]{1,4}\s{1,12}0x[0-9a-fA-F]{2,8},\s{1,12}[0-9]{1,9}\s{1,12})?-?[0-9.]{1,6}(?:°C|c|C)\s"
)


def any_listing(text: Text) -> Listing | None:
    """The listing of whichever shape the text has."""
    return read_document(text.joined) or read_csv(text.lines) or read_tables(text.lines, plain_sensor="")


def read_tables(lines: Sequence[Line], plain_sensor: str) -> Listing | None:
    """The listing of concise tables, sections and tables of blocks, None where there is none.

    `plain_sensor` is what the tool means by a temperature without a sensor's name.
    """
    concise = read_concise(lines, plain_sensor)
    readings = (concise, read_sections(lines), read_blocks(lines))
    listings = [listing for listing in readings if listing is not None]
    if listings and concise is None:
        for line in lines:
            if not is_of_card(line) and (words.is_error(line) or is_bare_row(line)):
                listings[-1].complain(line.where, quote(line.text))
        miss_the_end(lines, listings[-1])
    return joined(listings) if listings else None


def is_bare_row(line: Line) -> bool:
    """Whether a line is a row of a concise table, which says nothing without its heading."""
    return _BARE_ROW.match(line.text) is not None
