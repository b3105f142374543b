"""The headings of the tables that rocm-smi and hy-smi print: what each stands for, and what its cells look like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_NOTHING = r"N/A|n/a|None|Unsupported|unsupported|-"
_NUMBER = r"-?[0-9]{1,24}(?:\.[0-9]{1,6})?"
# A degree sign that a wrong encoding has eaten: latin-1 read as UTF-8, UTF-8 read as latin-1, ASCII.
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
    """A heading: the key that it stands for, empty when it gives nothing, and what its values look like."""

    key: str
    cell: re.Pattern[str]

    @property
    def one_word(self) -> bool:
        """Whether its cells have no blank inside."""
        return self.cell not in _SEVERAL_WORDS


@dataclass(frozen=True, slots=True)
class Placed:
    """A column of one table: its heading as printed, and where that begins and ends in the line."""

    column: Column
    heading: str
    start: int
    end: int


INDEX = Column("index", _INDEX_CELL)
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
    ("device", INDEX),
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
    ("gpu", INDEX),
    ("dcu", INDEX),
    ("hcu", INDEX),
)
_SENSOR = re.compile(r"temp \(([a-z0-9 ]{1,16})\)(?=\s|\Z)", re.IGNORECASE)
# The key of a heading that nobody knows.
UNKNOWN = "?"
# A line with an index and one of these is a heading.
_TELLING = ("temperature (sensor ", "temp", "device id", "average graphics", "gpu use")


def columns_of(line: str) -> tuple[Placed, ...]:
    """The columns of a heading line; none for any other line."""
    if len(line) > _LONGEST_LINE:
        return ()
    columns: list[Placed] = []
    position = _after_blanks(line, 0)
    while position < len(line):
        placed = _column_at(line, position)
        if not columns and placed.column is not INDEX:
            return ()
        columns.append(placed)
        position = _after_blanks(line, placed.end)
    return tuple(columns) if any(item.column.key.startswith(_TELLING) for item in columns) else ()


def _column_at(line: str, start: int) -> Placed:
    sensor = _SENSOR.match(line, start)
    if sensor is not None:
        column = Column(f"temperature (sensor {sensor[1].strip().lower()})", _CELSIUS)
        return Placed(column, sensor[0], start, sensor.end())
    rest = line[start : start + 20].lower()
    for name, column in _HEADINGS:
        if rest.startswith(name) and (len(rest) == len(name) or rest[len(name)].isspace()):
            return Placed(column, line[start : start + len(name)], start, start + len(name))
    text = line[start:].split(None, 1)[0]
    return Placed(Column(UNKNOWN, _WORD), text, start, start + len(text))


def cells_of(line: str, columns: Sequence[Placed]) -> list[str] | None:
    """The text of each cell of a row, as far as that is certain; None for a line that does not fit the headings.

    Certain is a row whose cells all look like their columns, or one that stands under its headings, or one that has as
    many words as there are columns. A cell that does not look like its column is given all the same, for others to judge.
    """
    if len(line) > _LONGEST_LINE:
        return None
    return _by_look(line, columns) or _by_place(line, columns) or _by_count(line, columns)


def _by_look(line: str, columns: Sequence[Placed]) -> list[str] | None:
    cells: list[str] = []
    position = 0
    for placed in columns:
        match = placed.column.cell.match(line, _after_blanks(line, position))
        if match is None:
            return None
        cells.append(match[0])
        position = match.end()
    return cells if _after_blanks(line, position) == len(line) else None


def _by_place(line: str, columns: Sequence[Placed]) -> list[str] | None:
    """The cells of a padded table: each begins under its heading, with a blank before it."""
    spread = all(after.start - before.end > 1 for before, after in pairwise(columns))
    if not spread or "\t" in line:
        return None
    starts = [placed.start for placed in columns[1:]]
    if any(start <= len(line) and not line[start - 1].isspace() for start in starts):
        return None
    ends = [*starts, len(line)]
    return _plausible([line[start:end].strip() for start, end in zip([0, *starts], ends, strict=True)], columns)


def _by_count(line: str, columns: Sequence[Placed]) -> list[str] | None:
    """The cells of a table whose blanks somebody has removed, where no cell is missing."""
    words = line.split()
    if len(words) != len(columns) or not all(placed.column.one_word for placed in columns):
        return None
    return _plausible(words, columns)


def _plausible(cells: list[str], columns: Sequence[Placed]) -> list[str] | None:
    """The cells, if the first is an index, most of the others look like their columns, and none holds its neighbour's."""
    if any(placed.column.one_word and " " in text for text, placed in zip(cells, columns, strict=True)):
        return None
    fits = [fits_column(text, placed.column) for text, placed in zip(cells, columns, strict=True)]
    filled = [fit for fit, text in zip(fits[1:], cells[1:], strict=True) if text]
    return cells if fits[0] and filled and 2 * sum(filled) > len(filled) else None


def fits_column(text: str, column: Column) -> bool:
    """Whether a cell looks like its column's values."""
    return column.cell.fullmatch(text) is not None


def celsius(text: str) -> str:
    """A temperature's text with its degree sign mended."""
    match = re.match(rf"({_NUMBER}){_DEGREE}[cC]?\Z", text)
    return f"{match[1]}C" if match is not None and fits_column(text, Column("temp", _CELSIUS)) else text


def _after_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position].isspace():
        position += 1
    return position
