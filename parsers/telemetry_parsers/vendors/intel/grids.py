"""Reads the grids that xpu-smi 1.x prints for `discovery`, `topology`, `config`, `stats` and `health`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.like_nvidia_smi.table import ends_inside_rule
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.text.answers import CUT_LINE, value_without_key
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.intel import keys
from telemetry_parsers.vendors.intel.keys import store_health

_UNIT_IN_BRACKETS = re.compile(r"[ \t]{0,4}\(([^()]{1,20})\)\Z")
_ITEM = re.compile(r"([0-9]{1,2})\.[ \t]{1,4}(\S.{0,60})\Z")
_RANGE = re.compile(r"([0-9.]{1,12})[ \t]{1,4}to[ \t]{1,4}([0-9.]{1,12})\Z", re.IGNORECASE)
_THRESHOLD = re.compile(r"([0-9.]{1,12})[ \t]{1,8}Celsius Degree\Z")
_ENGINE = re.compile(r"Engine ([0-9]{1,3}): ([0-9.]{1,12}|N/A)")
_NUMBERED_ENGINE = re.compile(r"([a-z0-9 ]{2,10}) engine(?: [0-9]{1,3})?\Z")
_TILE = re.compile(r"Tile ([0-9]{1,2}):")
# The service prints the average, minimum and maximum before the current value.
_CURRENT_VALUE = re.compile(r"avg: [0-9.]{1,20}, min: [0-9.]{1,20}, max: [0-9.]{1,20}, current: ([0-9.]{1,20})\Z")
# Appended to a value if the next line has no label and does not continue the value. The value is then not understood.
_INVALID_VALUE = "?"
_MAX_LINE_LENGTH = 400
# The only label that continues on the next line.
_WRAPPED_LABEL = "Average % utilization of"
_TITLES = {"device information": "discovery", "topology information": "discovery", "configuration": "config"}


@dataclass(slots=True)
class _GridState:
    """The reader's state between two lines of a grid."""

    draft: Draft
    kind: str = ""
    printed_index: int = 0
    device: int | None = None  # the device's position in the draft
    # In `stats`: the current label, the texts of its value, and the label's line in the output.
    label: str = ""
    texts: list[str] = field(default_factory=list)
    label_position: str = ""
    section: str = ""
    last_key: str = ""
    item_number: str = ""
    # In `health`: the state of each item by device and item number.
    health_states: dict[int, dict[str, str]] = field(default_factory=dict)
    is_after_rule: bool = False
    is_ignoring_lines: bool = False


def is_grid_heading(line: Line) -> bool:
    """Return whether a line starts a grid."""
    return line.ended and bool(_grid_kind(_split_cells(line)))


def read_grids(lines: Sequence[Line], draft: Draft) -> None:
    """Read the grids in these lines into the draft."""
    grid = _GridState(draft)
    for line in lines:
        cells = _split_cells(line)
        if not cells or is_rule(line.text):
            _store_labelled_value(grid)
            grid.is_after_rule = grid.is_after_rule or is_rule(line.text)
            continue
        if not line.ended:
            draft.is_cut = True
            draft.add_problem(line.where, CUT_LINE)
        elif _grid_kind(cells):
            _start_grid(grid, cells)
        elif grid.kind in ("discovery", "config"):
            _read_discovery_or_config(grid, cells, line)
        elif grid.device is not None and not grid.is_ignoring_lines:
            _read_labelled_line(grid, cells[0], cells[-1], line)
        else:
            _ignore_until_next_device(grid, line)
        grid.is_after_rule = False
    _finish_grids(grid, lines)


def _ignore_until_next_device(grid: _GridState, line: Line) -> None:
    grid.device, grid.label, grid.texts = None, "", []
    if not grid.is_ignoring_lines:
        grid.is_ignoring_lines = True
        text = f"this line and the following lines name no device: {quote(line.text)}"
        grid.draft.add_problem(line.where, text)


def _finish_grids(grid: _GridState, lines: Sequence[Line]) -> None:
    _store_labelled_value(grid)
    if lines and (not grid.is_after_rule or ends_inside_rule(lines)) and not grid.draft.is_cut:
        grid.draft.is_cut = True
        grid.draft.add_problem(lines[-1].where, "the text ends inside this line; more lines may be missing")
    for device, states_by_item in grid.health_states.items():
        store_health(grid.draft, device, states_by_item)


def split_label(text: str) -> tuple[str, str]:
    """Split a label such as `GPU Power (W)` into its text and its unit, in lower case."""
    normalized = " ".join(text.lower().split())
    match = _UNIT_IN_BRACKETS.search(normalized)
    return (normalized, "") if match is None else (normalized[: match.start()], match[1].strip())


def find_target(label: str) -> tuple[Target | None, bool]:
    """Return (target, whether the label is known). The target is None if the label has no metric."""
    name, unit = split_label(label)
    engine_match = _NUMBERED_ENGINE.match(name)
    target = keys.STATS.get(f"{engine_match[1]} engine util" if engine_match else name)
    if target is None:
        return None, name in keys.IGNORED_STATS
    return (target, True) if unit in keys.STATS_UNITS[target.unit or ""] else (None, False)


def _split_cells(line: Line) -> list[str]:
    text = line.text.strip()[:_MAX_LINE_LENGTH]
    return [part.strip() for part in text.strip("|").split("|")] if text.startswith("|") else []


def _grid_kind(cells: Sequence[str]) -> str:
    """Return the kind of the grid that starts at this line, or an empty string."""
    if len(cells) < 2:
        return ""
    title = _TITLES.get(cells[-1].lower(), "")
    if title and cells[0].lower() in ("device id", "device type"):
        return title
    return "labelled" if cells[0].lower() == "device id" and units.integer(cells[1]) is not None else ""


def _start_grid(grid: _GridState, cells: Sequence[str]) -> None:
    _store_labelled_value(grid)
    grid.kind = _grid_kind(cells)
    grid.section, grid.last_key, grid.item_number, grid.is_ignoring_lines = "", "", "", False
    grid.printed_index = int(cells[1]) if grid.kind == "labelled" else 0
    grid.device = grid.draft.device(grid.printed_index) if grid.kind == "labelled" else None


def _read_discovery_or_config(grid: _GridState, cells: Sequence[str], line: Line) -> None:
    """Read a line of `discovery` or `config`."""
    printed_index = cells[-2] if len(cells) > 1 else ""
    if printed_index:
        index = units.integer(printed_index)
        grid.device, grid.section, grid.last_key = (None if index is None else grid.draft.device(index)), "", ""
        grid.is_ignoring_lines = False
    elif grid.is_after_rule and any(cells):
        _ignore_until_next_device(grid, line)
    key, colon, text = cells[-1].partition(":")
    name, _ = split_label(key)
    if grid.device is None or not colon or key.startswith("/"):
        return  # a line that begins with `/` continues a path
    if not name:
        grid.draft.add_problem(line.where, value_without_key(cells[-1]))
        return
    if grid.kind == "config":
        _read_setting(grid, name, text.strip(), line)
    elif name in keys.DISCOVERY:
        grid.draft.store(grid.device, (keys.DISCOVERY[name],), text, line.where)
    elif name not in keys.IGNORED_DISCOVERY:
        grid.draft.add_unknown(key)


def _read_setting(grid: _GridState, name: str, text: str, line: Line) -> None:
    if grid.device is None:
        return
    if (grid.last_key, name) == (keys.POWER_LIMIT, keys.POWER_RANGE):
        range_match = _RANGE.match(text)
        for target, limit in zip(keys.CAP_RANGE, range_match.groups() if range_match else (text, text), strict=True):
            grid.draft.store(grid.device, (target,), limit, line.where)
    elif (setting := keys.CONFIG.get((grid.section, name)) or keys.CONFIG.get(("", name))) is not None:
        grid.draft.store(grid.device, (setting,), text, line.where)
    elif not text:
        grid.section = name
    grid.last_key = name


def _read_labelled_line(grid: _GridState, label: str, text: str, line: Line) -> None:
    """Read a line of `stats` or `health`."""
    item = _ITEM.match(label)
    if item is not None and grid.item_number and int(item[1]) <= int(grid.item_number):
        # The item numbers start again, so the heading of the next device is missing.
        _ignore_until_next_device(grid, line)
        return
    if item is not None:
        grid.item_number, grid.section = item[1], item[2].lower()
    if grid.section:
        _read_health(grid, text, line)
        return
    if label and not text and grid.label == _WRAPPED_LABEL:
        grid.label = f"{grid.label} {label}"
    elif label:
        _store_labelled_value(grid)
        grid.label, grid.label_position = label, line.where
    elif not _continues_value(grid.texts, text):
        grid.texts.append(_INVALID_VALUE)
        grid.draft.add_problem(line.where, f"this value has no label: {quote(line.text)}")
    grid.texts.append(text)


def _continues_value(texts: Sequence[str], text: str) -> bool:
    """Return whether a line without a label continues the value in `texts`."""
    if not text:
        return True
    if text.startswith("Engine"):
        engines = [int(number) for number, _ in _ENGINE.findall(_TILE.split(" ".join((*texts, text)))[-1])]
        return bool(texts) and engines == [*range(len(engines))]
    tiles = [int(number) for item in (*texts, text) for number in _TILE.findall(item)]
    return bool(texts) and texts[0].startswith("Tile 0:") and text.startswith("Tile") and tiles == [*range(len(tiles))]


def _store_labelled_value(grid: _GridState) -> None:
    """Store the value of the current label. All its lines have been read."""
    label, text, device = grid.label, " ".join(grid.texts), grid.device
    grid.label, grid.texts = "", []
    target, is_known = find_target(label)
    if target is None or device is None:
        if label and not is_known:
            grid.draft.add_unknown(label)
        return
    for tile, tile_text in _split_tiles(text):
        position = _device_or_tile(grid, device, tile)
        value = _main_number(tile_text)
        if value is None:
            grid.draft.set_value(position, target, Absent.NOT_UNDERSTOOD, tile_text, grid.label_position)
        else:
            grid.draft.store(position, (target,), value, grid.label_position)


def _split_tiles(text: str) -> Iterator[tuple[str, str]]:
    """Yield (tile number, text) for `Tile 0: 143; Tile 1: 97`. The number is empty for a text without a tile."""
    device_text, *numbers_and_texts = _TILE.split(text)
    if device_text.strip() or not numbers_and_texts:
        yield "", device_text.strip()
    for tile_number, tile_text in zip(numbers_and_texts[::2], numbers_and_texts[1::2], strict=True):
        yield tile_number, tile_text.strip(" ;")


def _device_or_tile(grid: _GridState, device: int, tile: str) -> int:
    """Return the position of a tile in the draft, or that of its device if `tile` is empty."""
    if not tile:
        return device
    tile_position = grid.draft.device((grid.printed_index, tile))
    grid.draft.set_partition(tile_position, device, tile)
    return tile_position


def _main_number(text: str) -> str | None:
    """Return the current value, or the highest value of several engines. Return None if an engine is missing."""
    device_text = text.partition(";")[0].strip()
    current = _CURRENT_VALUE.match(text)
    if current is not None or ":" not in device_text:
        return current[1] if current else device_text
    engines = _ENGINE.findall(text)
    number_texts = [number for _, number in engines if number != "N/A"]
    if [int(number) for number, _ in engines] != [*range(len(engines))]:
        return None  # an engine is missing, and it may be the busiest
    if _ENGINE.sub("", text).strip(" ,;") or any(isinstance(units.number(number), Absent) for number in number_texts):
        return None
    return max(number_texts, key=float, default="N/A")


def _read_health(grid: _GridState, text: str, line: Line) -> None:
    """Read a threshold or a state, and report an unhealthy state."""
    key, _, value = text.partition(":")
    name, value = key.strip().lower(), value.strip()
    is_repeated = name == "status" and grid.item_number in grid.health_states.get(grid.device or 0, {})
    if not name or is_repeated or (name == "status" and not value):
        grid.draft.add_problem(line.where, f"{grid.section}: this line has no item, key or state: {quote(text)}")
        return
    target = keys.HEALTH.get((grid.section, name))
    if target is not None and grid.device is not None:
        match = _THRESHOLD.match(value)
        grid.draft.store(grid.device, (target,), match[1] if match else value, line.where)
    elif name == "status" and grid.device is not None:
        grid.health_states.setdefault(grid.device, {})[grid.item_number] = value.lower()
        if value.lower() not in keys.HEALTHY_STATES:
            grid.draft.add_problem(line.where, f"{grid.section}: {quote(value)}")
