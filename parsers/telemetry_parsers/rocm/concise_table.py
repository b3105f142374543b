"""Reads the tables that all versions of rocm-smi and hy-smi print without arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.rocm import messages
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.answers import CUT_TABLE, listed_twice
from telemetry_parsers.text.lines import Line, quote

_PLACEHOLDERS = r"N/A|n/a|None|Unsupported|unsupported|-"
_NUMBER = r"-?[0-9]{1,24}(?:\.[0-9]{1,6})?"
# A degree sign, even in the wrong encoding.
_DEGREE = r"(?:°|℃|º|˚|Â°|\ufffd{1,2}|\?{1,2})?"
_PERCENT = re.compile(rf"(?:{_NUMBER}%|{_PLACEHOLDERS})(?=\s|\Z)")
_CELSIUS = re.compile(rf"(?:{_NUMBER}(?:{_DEGREE}[cC]|℃)|{_PLACEHOLDERS})(?=\s|\Z)")
_WATTS = re.compile(rf"(?:{_NUMBER}W|{_PLACEHOLDERS})(?=\s|\Z)")
_CLOCK = re.compile(rf"(?:{_NUMBER}[MGk]?[Hh]z|{_PLACEHOLDERS})(?=\s|\Z)")
_WORD = re.compile(r"\S{1,40}(?=\s|\Z)")
_COUNT = re.compile(rf"(?:[0-9]{{1,9}}|{_PLACEHOLDERS})(?=\s|\Z)")
_INDEX_CELL = re.compile(r"[0-9]{1,4}(?=\s|\Z)")
_IDS = re.compile(r"(?:0x[0-9a-fA-F]{1,8}|N/A),\s{1,12}(?:[0-9]{1,9}|N/A)(?=\s|\Z)")
_REVISION = re.compile(r"\[\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}:\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}\]")
_PARTITIONS = re.compile(r"[A-Z0-9/]{1,8}, {1,4}[A-Z0-9/]{1,8}(?:, {1,4}(?:[0-9]{1,3}|N/A))?(?=\s|\Z)")
_LANES = re.compile(rf"(?:[0-9]{{1,3}}(?:\.[0-9])?GB, x[0-9]{{1,2}}|{_PLACEHOLDERS})(?=\s|\Z)")
_BUS = re.compile(r"(?:[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|N/A)(?=\s|\Z)")
_ON_OR_OFF = re.compile(rf"(?:ENABLED|DISABLED|{_PLACEHOLDERS})(?=\s|\Z)")
_MULTI_WORD_CELLS = frozenset({_IDS, _REVISION, _PARTITIONS, _LANES})
_MAX_LINE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: the key for its cells, and the pattern that they match. A column with an empty key is not read."""

    key: str
    cell_pattern: re.Pattern[str]

    @property
    def is_one_word(self) -> bool:
        return self.cell_pattern not in _MULTI_WORD_CELLS


@dataclass(frozen=True, slots=True)
class _Heading:
    column: _Column
    text: str
    start: int
    end: int


_INDEX_COLUMN = _Column("index", _INDEX_CELL)
# Longer headings come first, because `SCLK OD` begins with `SCLK`.
_HEADINGS: tuple[tuple[str, _Column], ...] = (
    ("[model : revision]", _Column("revision", _REVISION)),
    ("partition id", _Column("partition id", _COUNT)),
    ("gfx ver", _Column("gfx version", _WORD)),
    ("gfx ras", _Column("", _ON_OR_OFF)),
    ("sdma ras", _Column("", _ON_OR_OFF)),
    ("umc ras", _Column("umc ras", _ON_OR_OFF)),
    ("sclk od", _Column("", _PERCENT)),
    ("mclk od", _Column("", _PERCENT)),
    ("overdrive", _Column("", _PERCENT)),
    ("ecc", _Column("", _WORD)),
    ("partitions", _Column("partitions", _PARTITIONS)),
    ("device", _INDEX_COLUMN),
    ("avgpwr", _Column("average graphics package power", _WATTS)),
    ("pwrcap", _Column("max graphics package power", _WATTS)),
    ("power cap", _Column("max graphics package power", _WATTS)),
    ("power", _Column("power", _WATTS)),
    ("vram%", _Column("vram", _PERCENT)),
    ("gpu%", _Column("gpu use", _PERCENT)),
    ("dcu%", _Column("gpu use", _PERCENT)),
    ("hcu%", _Column("gpu use", _PERCENT)),
    ("dec%", _Column("decoder use", _PERCENT)),
    ("enc%", _Column("encoder use", _PERCENT)),
    ("vbios", _Column("vbios version", _WORD)),
    ("guid", _Column("", _COUNT)),
    ("node", _Column("", _COUNT)),
    ("temp", _Column("temp", _CELSIUS)),
    ("sclk", _Column("sclk clock speed", _CLOCK)),
    ("mclk", _Column("mclk clock speed", _CLOCK)),
    ("pclk", _Column("", _LANES)),
    ("perf", _Column("performance level", _WORD)),
    ("mode", _Column("mode", _WORD)),
    ("ids", _Column("ids", _IDS)),
    ("did", _Column("device id", _WORD)),
    ("bus", _Column("pci bus", _BUS)),
    ("fan", _Column("fan speed", _PERCENT)),
    ("gpu", _INDEX_COLUMN),
    ("dcu", _INDEX_COLUMN),
    ("hcu", _INDEX_COLUMN),
)
_SENSOR = re.compile(r"temp \(([a-z0-9 ]{1,16})\)(?=\s|\Z)", re.IGNORECASE)
_UNKNOWN_HEADING_KEY = "?"
# A heading line has at least one column whose key starts with one of these words.
_TYPICAL_KEYS = ("temperature (sensor ", "temp", "device id", "average graphics", "gpu use")


def _headings_in(line: str) -> tuple[_Heading, ...]:
    """Return the headings in a heading line, or () for any other line."""
    if len(line) > _MAX_LINE_LENGTH:
        return ()
    headings: list[_Heading] = []
    offset = _skip_blanks(line, 0)
    while offset < len(line):
        heading = _heading_at(line, offset)
        if not headings and heading.column is not _INDEX_COLUMN:
            return ()
        headings.append(heading)
        offset = _skip_blanks(line, heading.end)
    return tuple(headings) if any(heading.column.key.startswith(_TYPICAL_KEYS) for heading in headings) else ()


def _heading_at(line: str, start: int) -> _Heading:
    sensor = _SENSOR.match(line, start)
    if sensor is not None:
        column = _Column(f"temperature (sensor {sensor[1].strip().lower()})", _CELSIUS)
        return _Heading(column, sensor[0], start, sensor.end())
    beginning = line[start : start + 20].lower()
    for name, column in _HEADINGS:
        if beginning.startswith(name) and (len(beginning) == len(name) or beginning[len(name)].isspace()):
            return _Heading(column, line[start : start + len(name)], start, start + len(name))
    unknown_heading = line[start:].split(None, 1)[0]
    return _Heading(_Column(_UNKNOWN_HEADING_KEY, _WORD), unknown_heading, start, start + len(unknown_heading))


def _split_row(line: str, headings: Sequence[_Heading]) -> list[str] | None:
    """Return the cells of a row, or None if the line does not match the headings."""
    if len(line) > _MAX_LINE_LENGTH:
        return None
    return _split_by_pattern(line, headings) or _split_by_offset(line, headings) or _split_by_blanks(line, headings)


def _split_by_pattern(line: str, headings: Sequence[_Heading]) -> list[str] | None:
    cells: list[str] = []
    offset = 0
    for heading in headings:
        match = heading.column.cell_pattern.match(line, _skip_blanks(line, offset))
        if match is None:
            return None
        cells.append(match[0])
        offset = match.end()
    return cells if _skip_blanks(line, offset) == len(line) else None


def _split_by_offset(line: str, headings: Sequence[_Heading]) -> list[str] | None:
    """Return the cells of a padded row, in which each cell begins below its heading, or None for any other row."""
    has_wide_gaps = all(next_heading.start - heading.end > 1 for heading, next_heading in pairwise(headings))
    if not has_wide_gaps or "\t" in line:
        return None
    starts = [heading.start for heading in headings[1:]]
    if any(start <= len(line) and not line[start - 1].isspace() for start in starts):
        return None
    ends = [*starts, len(line)]
    cells = [line[start:end].strip() for start, end in zip([0, *starts], ends, strict=True)]
    return _accept_if_most_fit(cells, headings)


def _split_by_blanks(line: str, headings: Sequence[_Heading]) -> list[str] | None:
    """Return the words of a row if each column has exactly one word, else None."""
    words = line.split()
    if len(words) != len(headings) or not all(heading.column.is_one_word for heading in headings):
        return None
    return _accept_if_most_fit(words, headings)


def _accept_if_most_fit(cells: list[str], headings: Sequence[_Heading]) -> list[str] | None:
    """Return the cells if the first is an index, most others fit, and one-word columns have one word, else None."""
    if any(heading.column.is_one_word and " " in text for text, heading in zip(cells, headings, strict=True)):
        return None
    fits = [_fits_column(text, heading.column) for text, heading in zip(cells, headings, strict=True)]
    fits_of_filled_cells = [fit for fit, text in zip(fits[1:], cells[1:], strict=True) if text]
    return cells if fits[0] and 2 * sum(fits_of_filled_cells) > len(fits_of_filled_cells) else None


def _fits_column(text: str, column: _Column) -> bool:
    return column.cell_pattern.fullmatch(text) is not None


def _fix_degree_sign(text: str) -> str:
    """Replace a wrongly decoded degree sign: `45?c` becomes `45C`."""
    match = re.match(rf"({_NUMBER}){_DEGREE}[cC]?\Z", text)
    return f"{match[1]}C" if match is not None and _fits_column(text, _Column("temp", _CELSIUS)) else text


def _skip_blanks(line: str, offset: int) -> int:
    while offset < len(line) and line[offset].isspace():
        offset += 1
    return offset


_SUB_HEADING = re.compile(r"\((edge|dieedge|junction|hotspot|memory|avg|socket)\)")
_NAME_HEADING = "(20 chars)"
_POWER_KEYS = {"avg": "average graphics package power", "socket": "current socket graphics package power"}
_RULE = re.compile(r"\s{0,40}[=\-]{3,400}(.{0,400})\Z")
_ROW_START = re.compile(r"\s{0,40}([0-9]{1,4})(?=\s)")
_GAP = re.compile(r"\s{2,}")

_SECOND_LINE_MISSING = "the second heading line is missing, so the sensor and the kind of power are unknown"
# If this is the first heading, the table has a second heading line.
_FIRST_OF_TWO_LINES = "device"
# Without /dev/mkfd, hy-smi prints `N/A` for the utilization, and `0%` even for memory in use.
_UTILIZATION_KEY, _MEMORY_KEY = "gpu use", "vram"


@dataclass(slots=True)
class _Table:
    headings: tuple[_Heading, ...]
    sensor: str = ""
    power_key: str = ""
    has_name_rows: bool = False
    has_rows: bool = False
    is_closed: bool = False  # a rule was read below the rows
    is_after_row: bool = False  # the last line that is not blank was a row or a name
    unnamed_card: int | None = None  # the index of the last row, until the card's name is read


def read_concise_tables(lines: Sequence[Line], default_sensor: str) -> Listing | None:
    """Read all concise tables into a listing, or return None if there are no tables."""
    table: _Table | None = None
    listing = Listing()
    has_table = False
    for line in lines:
        headings = _headings_in(line.text) if line.ended else ()
        if headings:
            has_second_line = headings[0].text.lower() == _FIRST_OF_TWO_LINES
            table, has_table = _Table(headings, "" if has_second_line else default_sensor), True
        elif table is None:
            _report_if_error(line, listing)
        else:
            table = _read_line(line, table, listing)
    if table is not None and not table.is_closed:
        listing.is_cut = True
        listing.add_problem(lines[-1].where, f"{CUT_TABLE}: {quote(lines[-1].text)}")
    return listing if has_table else None


def _report_if_error(line: Line, listing: Listing) -> None:
    if messages.is_error(line):
        listing.add_problem(line.where, quote(line.text))


def _read_line(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Read a line below the headings of a table. Return None if the line ends the table."""
    rule = _RULE.match(line.text)
    if rule is not None:
        # Only a rule with a title ends the table, because rules without a title may surround a message.
        has_title = bool(rule[1].strip(" =-"))
        table.is_closed = table.has_rows and (has_title or table.is_after_row or table.is_closed)
        return None if has_title else table
    if not line.text.strip():
        return table
    table.is_after_row = False
    if not line.ended:
        # The card exists, but the cells of its truncated row may be incomplete.
        table.is_closed = False
        if (row := _ROW_START.match(line.text)) is not None:
            listing.ensure_card(int(row[1]))
    elif not table.has_rows and (_NAME_HEADING in line.text or _SUB_HEADING.search(line.text.lower())):
        _read_second_heading(table, line.text.lower())
    elif not _read_row(line, table, listing) and not _read_name(line, table, listing):
        return _report_other_line(line, table, listing)
    return table


def _read_second_heading(table: _Table, text: str) -> None:
    """Read the second heading line, which names the sensor and the kind of power."""
    for word in _SUB_HEADING.findall(text):
        if word in _POWER_KEYS:
            table.power_key = _POWER_KEYS[word]
        else:
            table.sensor = word
    table.has_name_rows = table.has_name_rows or _NAME_HEADING in text


def _read_name(line: Line, table: _Table, listing: Listing) -> bool:
    """Store this line as the name of the card in the row above. Return False if the line cannot be a name."""
    text = line.text.strip()
    is_message = messages.is_notice(text) or messages.key_and_placeholder(text) is not None or messages.is_error(line)
    if table.unnamed_card is None or not table.has_name_rows or is_message:
        return False
    listing.cards[table.unnamed_card].append(Entry("name", text, line.where))
    table.unnamed_card, table.is_after_row = None, True
    return True


def _report_other_line(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Report a line that is neither a row nor a name. Return None if the table ended before this line."""
    if table.is_closed:
        _report_if_error(line, listing)
        return table if messages.is_notice(line.text) or messages.key_and_placeholder(line.text) is not None else None
    row = _ROW_START.match(line.text)
    if row is not None:
        table.has_rows = True
        listing.ensure_card(int(row[1]))
        listing.add_problem(line.where, f"the row does not match the headings and is not read: {quote(line.text)}")
    elif _resembles_row(line, table) or not (messages.is_notice(line.text) or messages.is_unsupported(line.text)):
        listing.add_problem(line.where, quote(line.text))
    return table


def _resembles_row(line: Line, table: _Table) -> bool:
    """Return whether a line has nearly as many cells as the table has columns."""
    return len(_GAP.split(line.text.strip())) > max(3, len(table.headings) - 3)


def _read_row(line: Line, table: _Table, listing: Listing) -> bool:
    """Read a row. Return False if the line is not a row."""
    cells = _split_row(line.text, table.headings)
    if not cells or "" in cells:
        return False
    index = int(cells[0])
    if not table.has_rows and _is_second_line_missing(table):
        listing.add_problem(line.where, _SECOND_LINE_MISSING)
    table.has_rows, table.is_closed, table.is_after_row = True, False, True
    if listing.cards.get(index):
        listing.add_problem(line.where, listed_twice(f"card {index}"))
        return True
    table.unnamed_card = index
    listing.cards[index] = [Entry("index", cells[0], line.where)]
    for heading, text in zip(table.headings[1:], cells[1:], strict=False):
        listing.cards[index].extend(
            Entry(key, value, line.where) for key, value in _key_text_pairs(heading, text, table, line, listing)
        )
    _mark_memory_share_absent(listing.cards[index], table)
    return True


def _is_second_line_missing(table: _Table) -> bool:
    keys = {heading.column.key for heading in table.headings}
    return ("temp" in keys and not table.sensor) or ("power" in keys and not table.power_key)


def _key_text_pairs(heading: _Heading, text: str, table: _Table, line: Line, listing: Listing) -> list[tuple[str, str]]:
    key = heading.column.key
    if key == _UNKNOWN_HEADING_KEY:
        listing.unknown[heading.text] = None
        return []
    if key == "temp":
        return [(f"temperature (sensor {table.sensor})", _fix_degree_sign(text))] if table.sensor else []
    if key.startswith("temperature"):
        return [(key, _fix_degree_sign(text))]
    if key == "power":
        return [(table.power_key or key, text)]
    if heading.column.is_one_word:
        return [(key, text)] if key else []
    if not _fits_column(text, heading.column):
        if text:
            listing.add_problem(f"{line.where} {heading.text}", f'"{quote(text)}" is not_understood')
        return []
    return _split_cell(key, text)


def _split_cell(key: str, text: str) -> list[tuple[str, str]]:
    """Return the (key, text) pairs of a cell that contains several values."""
    if key in ("ids", "revision"):
        return [("device id", re.split(r"[,:]", text.strip("[] "))[0].strip())]
    if key == "partitions":
        names = ("memory partition", "compute partition", "partition id")
        return list(zip(names, (part.strip() for part in text.split(",")), strict=False))
    return []


def _mark_memory_share_absent(entries: list[Entry], table: _Table) -> None:
    """Mark hy-smi's memory share of 0 % as absent if the utilization is unknown."""
    texts = {entry.key: entry.text for entry in entries}
    is_hy_smi = table.headings[0].text.lower() in ("dcu", "hcu")
    if is_hy_smi and texts.get(_UTILIZATION_KEY) == "N/A" and texts.get(_MEMORY_KEY) in ("0%", "0.0%"):
        entries[:] = [Entry(item.key, "N/A", item.where) if item.key == _MEMORY_KEY else item for item in entries]
