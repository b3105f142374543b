"""The tables that rocm-smi and hy-smi print without arguments, of every era, as a listing: headings, cells and rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.rocm import messages
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.answers import CUT_TABLE, listed_twice
from telemetry_parsers.text.lines import Line, quote

_NOTHING = r"N/A|n/a|None|Unsupported|unsupported|-"
_NUMBER = r"-?[0-9]{1,24}(?:\.[0-9]{1,6})?"
# A degree sign, also after a wrong decoding: latin-1 read as UTF-8, UTF-8 read as latin-1, ASCII.
_DEGREE = r"(?:°|℃|º|˚|Â°|\ufffd{1,2}|\?{1,2})?"
_PERCENT = re.compile(rf"(?:{_NUMBER}%|{_NOTHING})(?=\s|\Z)")
_CELSIUS = re.compile(rf"(?:{_NUMBER}(?:{_DEGREE}[cC]|℃)|{_NOTHING})(?=\s|\Z)")
_WATTS = re.compile(rf"(?:{_NUMBER}W|{_NOTHING})(?=\s|\Z)")
_CLOCK = re.compile(rf"(?:{_NUMBER}[MGk]?[Hh]z|{_NOTHING})(?=\s|\Z)")
_WORD = re.compile(r"\S{1,40}(?=\s|\Z)")
_COUNT = re.compile(rf"(?:[0-9]{{1,9}}|{_NOTHING})(?=\s|\Z)")
_INDEX_CELL = re.compile(r"[0-9]{1,4}(?=\s|\Z)")
_IDS = re.compile(r"(?:0x[0-9a-fA-F]{1,8}|N/A),\s{1,12}(?:[0-9]{1,9}|N/A)(?=\s|\Z)")
_REVISION = re.compile(r"\[\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}:\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}\]")
_PARTITIONS = re.compile(r"[A-Z0-9/]{1,8}, {1,4}[A-Z0-9/]{1,8}(?:, {1,4}(?:[0-9]{1,3}|N/A))?(?=\s|\Z)")
_LANES = re.compile(rf"(?:[0-9]{{1,3}}(?:\.[0-9])?GB, x[0-9]{{1,2}}|{_NOTHING})(?=\s|\Z)")
_BUS = re.compile(r"(?:[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|N/A)(?=\s|\Z)")
_ON = re.compile(rf"(?:ENABLED|DISABLED|{_NOTHING})(?=\s|\Z)")
_SEVERAL_WORDS = frozenset({_IDS, _REVISION, _PARTITIONS, _LANES})
_LONGEST_LINE = 400


@dataclass(frozen=True, slots=True)
class Column:
    """A heading: its key, empty if it has no reading, and the pattern of its values."""

    key: str
    cell: re.Pattern[str]

    @property
    def one_word(self) -> bool:
        """Return whether its cells contain no blanks."""
        return self.cell not in _SEVERAL_WORDS


@dataclass(frozen=True, slots=True)
class _Placed:
    """A column of one table: its heading as printed, and where that begins and ends in the line."""

    column: Column
    heading: str
    start: int
    end: int


_INDEX = Column("index", _INDEX_CELL)
# The longer headings first, since `SCLK OD` begins like `SCLK`.
_HEADINGS: tuple[tuple[str, Column], ...] = (
    ("[model : revision]", Column("revision", _REVISION)),
    ("partition id", Column("partition id", _COUNT)),
    ("gfx ver", Column("gfx version", _WORD)),
    ("gfx ras", Column("", _ON)),
    ("sdma ras", Column("", _ON)),
    ("umc ras", Column("umc ras", _ON)),
    ("sclk od", Column("", _PERCENT)),
    ("mclk od", Column("", _PERCENT)),
    ("overdrive", Column("", _PERCENT)),
    ("ecc", Column("", _WORD)),
    ("partitions", Column("partitions", _PARTITIONS)),
    ("device", _INDEX),
    ("avgpwr", Column("average graphics package power", _WATTS)),
    ("pwrcap", Column("max graphics package power", _WATTS)),
    ("power cap", Column("max graphics package power", _WATTS)),
    ("power", Column("power", _WATTS)),
    ("vram%", Column("vram", _PERCENT)),
    ("gpu%", Column("gpu use", _PERCENT)),
    ("dcu%", Column("gpu use", _PERCENT)),
    ("hcu%", Column("gpu use", _PERCENT)),
    ("dec%", Column("decoder use", _PERCENT)),
    ("enc%", Column("encoder use", _PERCENT)),
    ("vbios", Column("vbios version", _WORD)),
    ("guid", Column("", _COUNT)),
    ("node", Column("", _COUNT)),
    ("temp", Column("temp", _CELSIUS)),
    ("sclk", Column("sclk clock speed", _CLOCK)),
    ("mclk", Column("mclk clock speed", _CLOCK)),
    ("pclk", Column("", _LANES)),
    ("perf", Column("performance level", _WORD)),
    ("mode", Column("mode", _WORD)),
    ("ids", Column("ids", _IDS)),
    ("did", Column("device id", _WORD)),
    ("bus", Column("pci bus", _BUS)),
    ("fan", Column("fan speed", _PERCENT)),
    ("gpu", _INDEX),
    ("dcu", _INDEX),
    ("hcu", _INDEX),
)
_SENSOR = re.compile(r"temp \(([a-z0-9 ]{1,16})\)(?=\s|\Z)", re.IGNORECASE)
# The key of an unknown heading.
UNKNOWN = "?"
# A line with an index and one of these is a heading.
_TYPICAL = ("temperature (sensor ", "temp", "device id", "average graphics", "gpu use")


def _columns_of(line: str) -> tuple[_Placed, ...]:
    """Return the columns of a heading line; none for any other line."""
    if len(line) > _LONGEST_LINE:
        return ()
    columns: list[_Placed] = []
    position = _after_blanks(line, 0)
    while position < len(line):
        placed = _column_at(line, position)
        if not columns and placed.column is not _INDEX:
            return ()
        columns.append(placed)
        position = _after_blanks(line, placed.end)
    return tuple(columns) if any(item.column.key.startswith(_TYPICAL) for item in columns) else ()


def _column_at(line: str, start: int) -> _Placed:
    sensor = _SENSOR.match(line, start)
    if sensor is not None:
        column = Column(f"temperature (sensor {sensor[1].strip().lower()})", _CELSIUS)
        return _Placed(column, sensor[0], start, sensor.end())
    rest = line[start : start + 20].lower()
    for name, column in _HEADINGS:
        if rest.startswith(name) and (len(rest) == len(name) or rest[len(name)].isspace()):
            return _Placed(column, line[start : start + len(name)], start, start + len(name))
    text = line[start:].split(None, 1)[0]
    return _Placed(Column(UNKNOWN, _WORD), text, start, start + len(text))


def _cells_of(line: str, columns: Sequence[_Placed]) -> list[str] | None:
    """Return the text of each cell of a row; None unless all cells look like their columns, are below their headings, or are as many as the columns."""
    if len(line) > _LONGEST_LINE:
        return None
    return _by_look(line, columns) or _by_place(line, columns) or _by_count(line, columns)


def _by_look(line: str, columns: Sequence[_Placed]) -> list[str] | None:
    cells: list[str] = []
    position = 0
    for placed in columns:
        match = placed.column.cell.match(line, _after_blanks(line, position))
        if match is None:
            return None
        cells.append(match[0])
        position = match.end()
    return cells if _after_blanks(line, position) == len(line) else None


def _by_place(line: str, columns: Sequence[_Placed]) -> list[str] | None:
    """Return the cells of a padded table: each begins under its heading, after a blank."""
    spread = all(after.start - before.end > 1 for before, after in pairwise(columns))
    if not spread or "\t" in line:
        return None
    starts = [placed.start for placed in columns[1:]]
    if any(start <= len(line) and not line[start - 1].isspace() for start in starts):
        return None
    ends = [*starts, len(line)]
    return _plausible([line[start:end].strip() for start, end in zip([0, *starts], ends, strict=True)], columns)


def _by_count(line: str, columns: Sequence[_Placed]) -> list[str] | None:
    """Return the cells of a row whose blanks were collapsed, if no cell is missing."""
    words = line.split()
    if len(words) != len(columns) or not all(placed.column.one_word for placed in columns):
        return None
    return _plausible(words, columns)


def _plausible(cells: list[str], columns: Sequence[_Placed]) -> list[str] | None:
    """Return the cells if the first is an index, most others match their columns, and no cell contains its neighbour's value."""
    if any(placed.column.one_word and " " in text for text, placed in zip(cells, columns, strict=True)):
        return None
    fits = [_fits_column(text, placed.column) for text, placed in zip(cells, columns, strict=True)]
    filled = [fit for fit, text in zip(fits[1:], cells[1:], strict=True) if text]
    return cells if fits[0] and filled and 2 * sum(filled) > len(filled) else None


def _fits_column(text: str, column: Column) -> bool:
    """Return whether a cell looks like its column's values."""
    return column.cell.fullmatch(text) is not None


def celsius(text: str) -> str:
    """Return a temperature's text with its degree sign repaired."""
    match = re.match(rf"({_NUMBER}){_DEGREE}[cC]?\Z", text)
    return f"{match[1]}C" if match is not None and _fits_column(text, Column("temp", _CELSIUS)) else text


def _after_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position].isspace():
        position += 1
    return position


_SUB_HEADING = re.compile(r"\((edge|dieedge|junction|hotspot|memory|avg|socket)\)")
_NAME_HEADING = "(20 chars)"
_POWER = {"avg": "average graphics package power", "socket": "current socket graphics package power"}
_RULE = re.compile(r"\s{0,40}[=\-]{3,400}(.{0,400})\Z")
_ROW_START = re.compile(r"\s{0,40}([0-9]{1,4})(?=\s)")
_GAP = re.compile(r"\s{2,}")

_NO_SECOND_LINE = "the second line of headings, which names the sensor and the power of the rows below, is missing"
# The first heading of tables whose headings have a second line.
_TWO_LINES = "device"
# If /dev/mkfd cannot be opened, hy-smi prints `N/A` for utilization and `0%` for memory, which may be in use.
_BLIND = ("gpu use", "vram")


@dataclass(slots=True)
class _Table:
    """The headings above the rows, and the sensor and power that the second heading line adds."""

    columns: tuple[_Placed, ...]
    sensor: str = ""
    power: str = ""
    has_name_rows: bool = False
    has_rows: bool = False
    is_closed: bool = False
    below_row: bool = False
    unnamed: int | None = None


def read_concise(lines: Sequence[Line], plain_sensor: str) -> Listing | None:
    """Return the listing of the tables in these lines, None without a heading. `plain_sensor` is the sensor of an unnamed temperature."""
    table: _Table | None = None
    listing = Listing()
    seen = False
    for line in lines:
        heading = _columns_of(line.text) if line.ended else ()
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
    """Report an error printed beside the tables: `Open mkfd failed`, a traceback."""
    if messages.is_error(line):
        listing.complain(line.where, quote(line.text))


def _take(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Read one line below a heading. Return the table, or None once it has ended."""
    rule = _RULE.match(line.text)
    if rule is not None:
        # A title in the rule begins another part. A bare rule may be between rows, around a message.
        has_title = bool(rule[1].strip(" =-"))
        table.is_closed = table.has_rows and (has_title or table.below_row or table.is_closed)
        return None if has_title else table
    if not line.text.strip():
        return table
    table.below_row = False
    if not line.ended:
        # The card exists, but the cells of its truncated row may be incomplete.
        table.is_closed = False
        if (row := _ROW_START.match(line.text)) is not None:
            listing.card(int(row[1]))
    elif not table.has_rows and (_NAME_HEADING in line.text or _SUB_HEADING.search(line.text.lower())):
        _refine(table, line.text.lower())
    elif not _take_row(line, table, listing) and not _take_name(line, table, listing):
        return _passed_over(line, table, listing)
    return table


def _refine(table: _Table, text: str) -> None:
    """Set what the second heading line shows: the sensor, the power, and whether a name is below each row."""
    for word in _SUB_HEADING.findall(text):
        if word in _POWER:
            table.power = _POWER[word]
        else:
            table.sensor = word
    table.has_name_rows = table.has_name_rows or _NAME_HEADING in text


def _take_name(line: Line, table: _Table, listing: Listing) -> bool:
    """Keep the name of the card whose row stands above, if this line may be one."""
    text = line.text.strip()
    is_message = messages.is_notice(text) or messages.absent_of(text) is not None or messages.is_error(line)
    if table.unnamed is None or not table.has_name_rows or is_message:
        return False
    listing.cards[table.unnamed].append(Entry("name", text, line.where))
    table.unnamed, table.below_row = None, True
    return True


def _passed_over(line: Line, table: _Table, listing: Listing) -> _Table | None:
    """Report a line that is not a row. Below the rule that closes a table, any line but a message ends the table."""
    if table.is_closed:
        _keep_error(line, listing)
        return table if messages.is_notice(line.text) or messages.absent_of(line.text) is not None else None
    row = _ROW_START.match(line.text)
    if row is not None:
        table.has_rows = True
        listing.card(int(row[1]))
        listing.complain(line.where, f"does not fit the headings, and is not read: {quote(line.text)}")
    elif _is_like_a_row(line, table) or not (messages.is_notice(line.text) or messages.is_unsupported(line.text)):
        listing.complain(line.where, quote(line.text))
    return table


def _is_like_a_row(line: Line, table: _Table) -> bool:
    """Return whether a line has as many cells as a row that lost one or two."""
    return len(_GAP.split(line.text.strip())) > max(3, len(table.columns) - 3)


def _take_row(line: Line, table: _Table, listing: Listing) -> bool:
    """Read a row. Return False if the line is no row, or its cells cannot be separated."""
    cells = _cells_of(line.text, table.columns)
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


def _meanings(placed: _Placed, text: str, table: _Table, line: Line, listing: Listing) -> list[tuple[str, str]]:
    """Return a cell as keys and texts of the listing."""
    key = placed.column.key
    if key == UNKNOWN:
        listing.unknown[placed.heading] = None
        return []
    if key == "temp":
        return [(f"temperature (sensor {table.sensor})", celsius(text))] if table.sensor else []
    if key.startswith("temperature"):
        return [(key, celsius(text))]
    if placed.column.one_word:
        return [(table.power or key if key == "power" else key, text)] if key else []
    if not _fits_column(text, placed.column):
        if text:
            listing.complain(f"{line.where} {placed.heading}", f'"{quote(text)}" is not_understood')
        return []
    return _several(key, text)


def _several(key: str, text: str) -> list[tuple[str, str]]:
    """Return the parts of a cell that contains blanks, as keys and texts."""
    if key in ("ids", "revision"):
        return [("device id", re.split(r"[,:]", text.strip("[] "))[0].strip())]
    if key == "partitions":
        names = ("memory partition", "compute partition", "partition id")
        return list(zip(names, (part.strip() for part in text.split(",")), strict=False))
    return []


def _doubt(entries: list[Entry], table: _Table) -> None:
    """Make a memory share of 0 % absent if hy-smi could not read the card's utilization, or the row ends before it."""
    texts = {entry.key: entry.text for entry in entries}
    is_hygons = table.columns[0].heading.lower() in ("dcu", "hcu")
    has_use = any(placed.column.key == _BLIND[0] for placed in table.columns)
    use, memory = (texts.get(key, "N/A" if has_use else "") for key in _BLIND)
    if is_hygons and use == "N/A" and memory in ("0%", "0.0%"):
        entries[:] = [Entry(entry.key, "N/A", entry.where) if entry.key == _BLIND[1] else entry for entry in entries]
