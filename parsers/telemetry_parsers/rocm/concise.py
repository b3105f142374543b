"""The tables that rocm-smi and hy-smi print without arguments, of every era, as a listing.

Columns are found by their headings, cells by what a column's values look like, from left to right. A row in which some
cell does not look like its column is not read: a blank cell would hand its neighbour's value to the wrong column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry_parsers.model import Problem
from telemetry_parsers.rocm.listing import Card, Entry, Listing
from telemetry_parsers.rocm.words import is_notice, is_unsupported
from telemetry_parsers.text.lines import Line, quote

_NOTHING = r"N/A|n/a|None|Unsupported|unsupported|-"
_PERCENT = re.compile(rf"(?:[0-9]{{1,3}}(?:\.[0-9]{{1,3}})?%|{_NOTHING})(?=\s|\Z)")
_CELSIUS = re.compile(rf"(?:-?[0-9]{{1,3}}(?:\.[0-9]{{1,3}})?(?:°C|℃|c|C)|{_NOTHING})(?=\s|\Z)")
_WATTS = re.compile(rf"(?:[0-9]{{1,5}}(?:\.[0-9]{{1,4}})?W|{_NOTHING})(?=\s|\Z)")
_CLOCK = re.compile(rf"(?:[0-9]{{1,5}}(?:\.[0-9]{{1,3}})?[MG]?[Hh]z|{_NOTHING})(?=\s|\Z)")
_WORD = re.compile(r"\S{1,40}(?=\s|\Z)")
_NUMBER = re.compile(r"[0-9]{1,9}(?=\s|\Z)")
_IDS = re.compile(r"(?:0x[0-9a-fA-F]{1,8}|N/A),\s{1,12}(?:[0-9]{1,9}|N/A)(?=\s|\Z)")
_REVISION = re.compile(r"\[\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}:\s{0,4}(?:0x[0-9a-fA-F]{1,8}|N/A)\s{0,4}\]")
_PARTITIONS = re.compile(r"[A-Z0-9/]{1,8}, {1,4}[A-Z0-9/]{1,8}(?:, {1,4}[0-9]{1,3})?(?=\s|\Z)")
_LANES = re.compile(rf"(?:[0-9]{{1,3}}(?:\.[0-9])?GB, x[0-9]{{1,2}}|{_NOTHING})(?=\s|\Z)")
_BUS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7](?=\s|\Z)")
_ON = re.compile(rf"(?:ENABLED|DISABLED|{_NOTHING})(?=\s|\Z)")
_UNKNOWN = re.compile(r"\S{1,60}(?=\s|\Z)")


@dataclass(frozen=True, slots=True)
class Column:
    """A heading: the key that it stands for, empty when it gives nothing, and what its values look like."""

    key: str
    cell: re.Pattern[str]


_INDEX = Column("index", _NUMBER)
# The headings in lower case; the longer ones first, since `SCLK OD` begins like `SCLK`.
HEADINGS: tuple[tuple[str, Column], ...] = (
    ("[model : revision]", Column("revision", _REVISION)),
    ("temp (dieedge)", Column("temperature (sensor edge)", _CELSIUS)),
    ("temp (junction)", Column("temperature (sensor junction)", _CELSIUS)),
    ("partition id", Column("partition id", _NUMBER)),
    ("gfx ver", Column("gfx version", _WORD)),
    ("gfx ras", Column("", _ON)),
    ("sdma ras", Column("", _ON)),
    ("umc ras", Column("umc ras", _ON)),
    ("sclk od", Column("", _PERCENT)),
    ("mclk od", Column("", _PERCENT)),
    ("partitions", Column("partitions", _PARTITIONS)),
    ("device", _INDEX),
    ("avgpwr", Column("average graphics package power", _WATTS)),
    ("pwrcap", Column("max graphics package power", _WATTS)),
    ("power", Column("power", _WATTS)),
    ("vram%", Column("vram", _PERCENT)),
    ("gpu%", Column("gpu use", _PERCENT)),
    ("dcu%", Column("gpu use", _PERCENT)),
    ("hcu%", Column("gpu use", _PERCENT)),
    ("dec%", Column("decoder use", _PERCENT)),
    ("enc%", Column("encoder use", _PERCENT)),
    ("vbios", Column("vbios version", _WORD)),
    ("guid", Column("", _NUMBER)),
    ("node", Column("", _NUMBER)),
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
_TABLES = ("temp", "did")
_SUB_HEADING = re.compile(r"\((edge|dieedge|junction|hotspot|memory|avg|socket)\)")
_RULE = re.compile(r"\s{0,8}[=\-]{8}")
_ROW_START = re.compile(r"\s{0,8}([0-9]{1,4})(?=\s)")
_LONGEST_ROW = 400


@dataclass(slots=True)
class _Table:
    """The columns under which the rows stand, and what the sub-headings say of two of them."""

    columns: list[Column]
    sensor: str
    power: str = ""
    has_name_rows: bool = False


@dataclass(slots=True)
class _Rows:
    """What is collected line by line."""

    cards: dict[int, list[Entry]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    last: int | None = None
    complete: bool = True


def read_concise(lines: Sequence[Line], plain_sensor: str) -> Listing | None:
    """The listing of the tables in these lines, None when there is no heading of one.

    `plain_sensor` is what the tool means by a temperature whose heading names no sensor.
    """
    table: _Table | None = None
    rows = _Rows()
    seen = False
    for line in lines:
        heading = _heading(line)
        if heading is not None:
            table, seen = _Table(heading, plain_sensor), True
            rows.last = None
        elif table is not None:
            table = _take(line, table, rows)
    if not seen:
        return None
    cards = tuple(Card(index, tuple(entries)) for index, entries in rows.cards.items())
    unknown = tuple(Entry(name, "", "heading") for name in rows.unknown)
    return Listing(cards, (), tuple(rows.problems), rows.complete and table is None, unknown)


def _take(line: Line, table: _Table, rows: _Rows) -> _Table | None:
    """Takes in one line below a heading; the table it belongs to, None once the table has ended."""
    text = line.text
    sub_headings = _SUB_HEADING.findall(text.lower())
    if _RULE.match(text):
        return None if rows.last is not None else table
    if not text.strip():
        return table
    if rows.last is None and (sub_headings or "(20 chars)" in text):
        _name_columns(table, sub_headings, text)
    elif _ROW_START.match(text):
        _take_row(line, table, rows)
    elif rows.last is not None and table.has_name_rows and text[:1].isspace() and line.ended:
        rows.cards[rows.last].append(Entry("name", text.strip(), line.where))
    elif not line.ended:
        rows.problems.append(Problem(line.where, "the table is cut off here; further cards may be missing"))
    elif not is_notice(text) and not is_unsupported(text):
        rows.problems.append(Problem(line.where, quote(text)))
    return table


def _heading(line: Line) -> list[Column] | None:
    """The columns of a heading line: it begins with the device's heading and has the temperature or the id."""
    text = " ".join(line.text.lower().split())
    first = text.split(" ", 1)[0]
    if first not in ("gpu", "dcu", "hcu", "device") or not line.ended or len(text) > _LONGEST_ROW:
        return None
    columns: list[Column] = []
    while text:
        name, column = next(
            ((name, column) for name, column in HEADINGS if text == name or text.startswith(name + " ")),
            (text.split(" ", 1)[0], None),
        )
        columns.append(column or Column(f"?{name}", _UNKNOWN))
        text = text[len(name) :].strip()
    keys = {column.key for column in columns}
    known = keys & {"temp", "temperature (sensor edge)", "temperature (sensor junction)", "device id"}
    return columns if known else None


def _name_columns(table: _Table, sub_headings: Sequence[str], text: str) -> None:
    """What the second heading line says: which sensor, which power, and that a name stands below each row."""
    for word in sub_headings:
        if word in ("avg", "socket"):
            table.power = word
        else:
            table.sensor = {"dieedge": "edge", "hotspot": "junction"}.get(word, word)
    table.has_name_rows = table.has_name_rows or "chars)" in text


def _take_row(line: Line, table: _Table, rows: _Rows) -> None:
    cells = _cells(line, table.columns)
    index = int(cells[0][1]) if cells and cells[0][0].key == "index" else None
    whole = len(cells) == len(table.columns)
    if not line.ended:
        # Which column the last cell belongs to shows only at the row's end.
        rows.problems.append(Problem(line.where, "the table is cut off here; further cards may be missing"))
        rows.complete = False
        return
    if index is None or not whole:
        match = _ROW_START.match(line.text)
        rows.problems.append(Problem(line.where, f"does not fit the headings, and is not read: {quote(line.text)}"))
        if match is not None:
            rows.cards.setdefault(int(match[1]), [])
            rows.last = int(match[1])
        return
    if index in rows.cards and any(entry.key == "index" for entry in rows.cards[index]):
        rows.problems.append(Problem(line.where, f"card {index} is listed a second time; the first is kept"))
        return
    entries = rows.cards.setdefault(index, [])
    rows.last = index
    entries.append(Entry("index", str(index), line.where))
    for column, text in cells[1:]:
        if column.key.startswith("?"):
            rows.unknown[column.key[1:]] = None
        entries.extend(Entry(key, value, line.where) for key, value in _meanings(column.key, text, table))


def _cells(line: Line, columns: Sequence[Column]) -> list[tuple[Column, str]]:
    """The cells from left to right as far as each looks like its column; all of them only if nothing is left over."""
    text = line.text[:_LONGEST_ROW]
    found: list[tuple[Column, str]] = []
    position = 0
    for column in columns:
        while position < len(text) and text[position].isspace():
            position += 1
        match = column.cell.match(text, position)
        if match is None:
            return found
        found.append((column, match[0]))
        position = match.end()
    return found if not text[position:].strip() else found[:-1]


def _meanings(key: str, text: str, table: _Table) -> list[tuple[str, str]]:
    """What a cell says, as keys and texts of the listing."""
    if key == "temp":
        return [(f"temperature (sensor {table.sensor})", text)]
    if key == "power":
        told = {"avg": "average graphics package power", "socket": "current socket graphics package power"}
        return [(told.get(table.power, "power"), text)]
    if key in ("ids", "revision"):
        return [("device id", re.split(r"[,:]", text.strip("[] "))[0].strip())]
    if key == "partitions":
        memory, compute, *number = (part.strip() for part in text.split(","))
        return [("memory partition", memory), ("compute partition", compute), *(("partition id", n) for n in number)]
    return [] if not key or key.startswith("?") else [(key, text)]
