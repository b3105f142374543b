"""Reads rows of xpu-smi: the CSV of `dump` and `discovery --dump`, and the processes of `ps`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi.monitor import csv_cells
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.text.answers import PROCESS_TABLE, not_a_row, wrong_cells
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.intel import keys
from telemetry_parsers.vendors.intel.grids import find_target, split_label

_INDEX_HEADINGS = ("deviceid", "device id")
_TILE_HEADING = "tileid"
# Maps each device and tile to the newest row: (line, headings, cells).
_NewestRows = dict[tuple[str, str], tuple[Line, Sequence[str], list[str]]]
_PROCESS_ROW = re.compile(
    r"([0-9]{1,18})[ \t]{1,40}(\S.{0,200}?)[ \t]{1,80}([0-9]{1,4})[ \t]{1,40}[0-9]{1,18}[ \t]{1,40}([0-9]{1,18})\Z"
)
_MAX_LINE_LENGTH = 2000


def read_csv(lines: Sequence[Line], draft: Draft) -> None:
    """Add the newest row of each device and tile to the draft."""
    headings: list[str] = []
    newest_rows: _NewestRows = {}
    for line in lines:
        names = csv_headings(line)
        if names:
            headings = names
            draft.add_unknown(*(name for name in headings if not _is_known_column(name)))
        elif headings and line.text.strip():
            _keep_newest_row(draft, headings, line, newest_rows)
    for (index, tile), (line, row_headings, cells) in newest_rows.items():
        _read_row(draft, index, tile, row_headings, cells, line)


def _keep_newest_row(draft: Draft, headings: Sequence[str], line: Line, newest_rows: _NewestRows) -> None:
    cells = _csv_cells(line)
    if len(cells) != len(headings):
        draft.add_problem(line.where, wrong_cells(line.text))
        return
    slot = _device_and_tile(headings, cells)
    if line.ended:
        newest_rows[slot] = (line, headings, cells)
    elif slot not in newest_rows:
        newest_rows[slot] = (line, headings, [*cells[:-1], ""])  # the last cell may be a fragment


def _read_row(draft: Draft, index: str, tile: str, headings: Sequence[str], cells: Sequence[str], line: Line) -> None:
    device_number = units.integer(index)
    if device_number is not None and not tile and any(split_label(name)[0] == _TILE_HEADING for name in headings):
        draft.add_problem(line.where, f"this row has no tile number: {quote(line.text)}")
        return
    if device_number is None:
        draft.add_problem(line.where, f"{quote(index)} is not a device number")
        return
    device = draft.device(device_number)
    if units.integer(tile) is not None:
        parent, device = device, draft.device((device_number, tile))
        draft.set_partition(device, parent, tile)
    for target, cell in _cells_by_target(headings, cells):
        draft.store(device, (target,), cell, line.where)


def _cells_by_target(headings: Sequence[str], cells: Sequence[str]) -> Iterable[tuple[Target, str]]:
    """Return each target with its cell. If several columns have the same target, choose the highest cell."""
    highest_cells: dict[tuple[str, str], tuple[Target, str]] = {}
    for name, cell in zip(headings, cells, strict=True):
        target = _find_column_target(name)
        if target is not None:
            key = (target.key, target.label)
            previous = highest_cells.get(key)
            highest_cells[key] = (target, cell if previous is None else max(previous[1], cell, key=_sort_key))
    return highest_cells.values()


def _sort_key(cell: str) -> float:
    number = units.number(cell)
    return -1.0 if isinstance(number, Absent) else number


def read_ps(lines: Sequence[Line], draft: Draft) -> None:
    """Add the processes in the output of `ps` to the draft."""
    is_below_heading = False
    for line in lines:
        if is_ps_heading(line):
            is_below_heading = True
            continue
        match = _PROCESS_ROW.match(line.text.strip()[:_MAX_LINE_LENGTH]) if line.ended else None
        if match is not None and is_below_heading:
            device = draft.device(int(match[3]))
            draft.processes.append(Process(device, int(match[1]), match[2].strip(), process_bytes(match[4])))
        elif is_below_heading and line.text.strip():
            draft.add_problem(line.where, not_a_row(line.text, PROCESS_TABLE))


def process_bytes(text: str) -> float | None:
    """Convert a process's memory from kB to bytes. Return None if the text is not a number."""
    number = units.number(text)
    return None if isinstance(number, Absent) else number * 1000


def is_ps_heading(line: Line) -> bool:
    """Return whether a line contains the headings of `ps`."""
    words = line.text[:_MAX_LINE_LENGTH].split()
    return line.ended and words[:1] == ["PID"] and "DeviceID" in words and words[-1:] == ["MEM"]


def _csv_cells(line: Line) -> list[str]:
    return csv_cells(line.text, max_length=4 * _MAX_LINE_LENGTH, max_commas=_MAX_LINE_LENGTH)


def csv_headings(line: Line) -> list[str]:
    """Return the headings of CSV with a column for the device index, or [] for any other line."""
    if not line.ended or "," not in line.text[:_MAX_LINE_LENGTH]:
        return []
    cells = _csv_cells(line)
    names = [split_label(cell)[0] for cell in cells]
    is_heading = any(name in _INDEX_HEADINGS for name in names[:2]) and all(names)
    return cells if is_heading else []


def _device_and_tile(headings: Sequence[str], cells: Sequence[str]) -> tuple[str, str]:
    cells_by_name = {split_label(name)[0]: cell for name, cell in zip(headings, cells, strict=True)}
    index = next((cells_by_name[name] for name in _INDEX_HEADINGS if name in cells_by_name), "")
    return index, cells_by_name.get(_TILE_HEADING, "")


def _find_column_target(name: str) -> Target | None:
    target, _ = find_target(name)
    return target or keys.DISCOVERY.get(split_label(name)[0])


def _is_known_column(name: str) -> bool:
    label = split_label(name)[0]
    return find_target(name)[1] or label in keys.DISCOVERY or label in keys.IGNORED_DISCOVERY
