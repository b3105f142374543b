"""Tables with a row per card: repeated output of a monitoring command, and the CSV output of `--query-gpu=…`."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, identity, metric
from telemetry_parsers.text.answers import wrong_cells
from telemetry_parsers.text.lines import Line

_MAX_LINE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class MonitorShape:
    """The format of one tool's monitoring output."""

    heading_starts: tuple[str, ...]  # the beginnings of heading lines
    index_column: str
    columns: Mapping[tuple[str, str], Target]  # maps (heading, unit) to targets
    ignored: frozenset[str]  # known headings without a metric


def is_monitor(line: Line, shape: MonitorShape) -> bool:
    """Return whether monitoring output begins at this line, which is then its first heading line."""
    return _heading_words(line, shape)[:1] == [shape.index_column]


def read_monitor(lines: Sequence[Line], shape: MonitorShape, draft: Draft) -> None:
    """Add the newest row of each card to the draft."""
    headings, rows = _headings_and_newest_rows(lines, shape)
    if len(headings) == 2:
        _report_unknown_columns(headings, shape, draft)
        for row in rows:
            _read_row(row, headings, shape, draft)


def _headings_and_newest_rows(lines: Sequence[Line], shape: MonitorShape) -> tuple[list[list[str]], list[Line]]:
    """Return the words of the two heading lines, which contain names and units, and the newest row of each card."""
    headings: list[list[str]] = []
    row_by_index: dict[str, Line] = {}
    for line in lines:
        words = _split_words(line.text[:_MAX_LINE_LENGTH])
        if heading_words := _heading_words(line, shape):
            headings.append(heading_words)
        elif headings and words and (line.ended or words[0] not in row_by_index):
            row_by_index[words[0]] = line
    return headings[:2], [*row_by_index.values()]


def _heading_words(line: Line, shape: MonitorShape) -> list[str]:
    """Return the words of a heading line, or [] for any other line."""
    text = line.text.strip()
    if not line.ended or not text.startswith(shape.heading_starts) or len(text) > _MAX_LINE_LENGTH:
        return []
    return _split_words(text.lstrip("*").lower())


def _split_words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if "," in text else text.split()


def _report_unknown_columns(headings: Sequence[Sequence[str]], shape: MonitorShape, draft: Draft) -> None:
    names, unit_words = headings
    for name, unit in zip(names[1:], unit_words[1:], strict=False):
        if (name, unit) not in shape.columns and name not in shape.ignored:
            draft.add_unknown(f"{name} ({unit})")


def _read_row(line: Line, headings: Sequence[Sequence[str]], shape: MonitorShape, draft: Draft) -> None:
    names, unit_words = headings
    words = _split_words(line.text[:_MAX_LINE_LENGTH])
    index = units.integer(words[0])
    if len(words) != len(names) or len(names) != len(unit_words) or index is None:
        draft.add_problem(line.where, wrong_cells(line.text))
    else:
        device = draft.device(index)
        complete_words = words[1:] if line.ended else words[1:-1]  # the last word may be a fragment
        for name, unit, word in zip(names[1:], unit_words[1:], complete_words, strict=False):
            target = shape.columns.get((name, unit))
            if target is not None:
                draft.store(device, (target,), word, line.where)


# The fields that identify the card of a row, in order of preference.
_IDENTITY_FIELDS = ("index", "deviceid", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
_HEADING = re.compile(r"([a-z][a-z0-9_.]{0,60})(?:[ \t]{0,4}[\[(]([^\])]{1,12})[\])])?\Z", re.IGNORECASE)
_ALIGNED_HEADING = re.compile(r"[^\s\[(,]{1,60}(?:[ \t]?[\[(][^\])]{1,12}[\])])?")
_MAX_ROW_LENGTH = 4000
_MAX_CELLS = 200
# (name, unit) of each field. The unit is printed in brackets after the name.
_Headings = Sequence[tuple[str, str]]
# Maps each card to its newest row: (line, headings, cells).
_NewestRows = dict[str, tuple[Line, _Headings, list[str]]]

# Fields that several tools share with nvidia-smi.
NVIDIA_SMI_FIELDS: Mapping[str, Target] = {
    "index": identity("index"),
    "name": identity("model"),
    "gpu_name": identity("model"),
    "uuid": identity("uuid"),
    "serial": identity("serial"),
    "driver_version": identity("driver"),
    "pci.bus_id": identity("bus_id"),
    "temperature.gpu": metric("temperature_celsius", "core", unit="C"),
    "temperature.memory": metric("temperature_celsius", "memory", unit="C"),
}


@dataclass(frozen=True, slots=True)
class QueryShape:
    """The fields that one tool's `--query-gpu` prints, by lower-case name."""

    fields: Mapping[str, Target]
    ignored: frozenset[str]


def read_query(lines: Sequence[Line], shape: QueryShape, draft: Draft) -> None:
    """Add the newest row of each card to the draft."""
    headings: _Headings = ()
    newest_rows: _NewestRows = {}
    for line in lines:
        new_headings = query_headings(line, shape)
        if new_headings:
            headings = new_headings
            unknown_fields = [name for name, _ in headings if name not in shape.fields and name not in shape.ignored]
            draft.add_unknown(*unknown_fields)
        elif headings and line.text.strip():
            _update_newest_rows(draft, headings, line, newest_rows)
    for card_id, (line, headings, cells) in newest_rows.items():
        index = units.integer(card_id)
        device = draft.device(card_id if index is None else index)
        for (name, unit), cell in zip(headings, cells, strict=True):
            target = shape.fields.get(name)
            if target is not None:
                draft.store(device, (target,), _with_unit(cell, unit), line.where)


def query_headings(line: Line, shape: QueryShape) -> _Headings:
    """Return the fields and units in a heading line, or () for any other line."""
    if not line.ended or len(line.text) > _MAX_ROW_LENGTH:
        return ()
    cells = csv_cells(line.text) if "," in line.text else _ALIGNED_HEADING.findall(line.text)
    matches = [_HEADING.match(cell) for cell in cells[:_MAX_CELLS]]
    if len(matches) < 2 or not all(matches):
        return ()
    fields = [(match[1].lower(), match[2] or "") for match in matches if match]
    names = {name for name, _ in fields}
    known_names = [name for name in names if name in shape.fields or name in shape.ignored]
    has_known_fields = any("." in name for name in known_names) or len(known_names) == len(names)
    return fields if has_known_fields and names.intersection(_IDENTITY_FIELDS) else ()


def _update_newest_rows(draft: Draft, headings: _Headings, line: Line, newest_rows: _NewestRows) -> None:
    text = line.text[: _MAX_ROW_LENGTH + 1]
    cells = csv_cells(text) if "," in text else text.split()
    if "," not in text and len(cells) == len(headings) + 1 and headings[0][0] == "timestamp":
        cells = [" ".join(cells[:2]), *cells[2:]]  # the date and the time
    names = [name for name, _ in headings]
    is_complete = len(cells) == len(headings)
    card_id = next((cells[names.index(name)] for name in _IDENTITY_FIELDS if name in names), "") if is_complete else ""
    if not card_id:
        draft.add_problem(line.where, wrong_cells(line.text))
    elif line.ended:
        newest_rows[card_id] = (line, headings, cells)
    elif card_id not in newest_rows:
        newest_rows[card_id] = (line, headings, [*cells[:-1], ""])  # the last cell may be a fragment


def csv_cells(text: str, max_length: int = _MAX_ROW_LENGTH, max_commas: int = _MAX_CELLS) -> list[str]:
    """Return the cells of a CSV row, or [] if the row is too long or invalid."""
    if len(text) > max_length or text.count(",") > max_commas:
        return []
    try:
        # NUL, which Python 3.10 refuses, is replaced and not removed: `1<NUL>2` must not become 12.
        rows = list(csv.reader([text.replace("\x00", "\ufffd")], skipinitialspace=True))
    except csv.Error:  # not valid CSV; the caller reports the line
        return []
    return [cell.strip() for cell in rows[0]] if rows else []


def _with_unit(cell: str, unit: str) -> str:
    """Return the cell, followed by the heading's unit if the cell is a bare number."""
    return f"{cell} {unit}" if unit and not isinstance(units.number(cell), Absent) else cell
