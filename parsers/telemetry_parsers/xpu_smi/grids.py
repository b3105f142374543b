"""The grids of xpu-smi 1.x: `discovery`, `topology`, `config`, `stats` and `health`, each `key: value` or label and value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.targets import Target
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.xpu_smi import keys

_BRACKETS = re.compile(r"[ \t]{0,4}\(([^()]{1,20})\)\Z")
_ITEM = re.compile(r"([0-9]{1,2})\.[ \t]{1,4}(\S.{0,60})\Z")
_RANGE = re.compile(r"([0-9.]{1,12})[ \t]{1,4}to[ \t]{1,4}([0-9.]{1,12})\Z")
_THRESHOLD = re.compile(r"([0-9.]{1,12})[ \t]{1,8}Celsius Degree\Z")
_ENGINE = re.compile(r"Engine [0-9]{1,3}: ([0-9.]{1,12})\Z")
_LONGEST = 400
_TITLES = {"device information": "discovery", "topology information": "discovery", "configuration": "config"}


@dataclass(slots=True)
class _Grid:
    """Where the reader stands."""

    page: Page
    kind: str = ""
    device: int | None = None
    section: str = ""
    last: str = ""
    item: str = ""
    # What `health` says of each of a device's items, by their number.
    states: dict[int, dict[str, str]] = field(default_factory=dict)


def is_grid(lines: Sequence[Line]) -> bool:
    """Whether the heading of a grid is in these lines."""
    return any(_kind(_cells(line)) for line in lines if line.ended)


def read_grid(lines: Sequence[Line], page: Page) -> None:
    """Put what the grids say onto the page."""
    grid = _Grid(page)
    for line in lines:
        cells = _cells(line)
        if not cells or is_rule(line.text):
            continue
        if not line.ended:
            page.cut = True
            page.problems.append(Problem(line.where, "the text ends inside this line, which is not read"))
        elif _kind(cells):
            _start(grid, cells)
        elif grid.kind in ("discovery", "config"):
            _take_described(grid, cells, line)
        elif grid.device is not None:
            _take_labelled(grid, cells[0], cells[-1], line)
    for device, states in grid.states.items():
        _judge_health(page, device, states)


def split_label(text: str) -> tuple[str, str]:
    """A label in lower case and the unit in brackets behind it: `GPU Power (W)`."""
    bare = " ".join(text.lower().split())
    match = _BRACKETS.search(bare)
    return (bare, "") if match is None else (bare[: match.start()], match[1].strip())


def target_of(label: str) -> tuple[Target | None, bool]:
    """What a label of `stats` or `dump` gives, and whether it is known at all."""
    name, unit = split_label(label)
    target = keys.STATS.get(name)
    if target is None:
        return None, name in keys.QUIET_STATS
    return (target, True) if unit in keys.STATS_UNITS[target.unit or ""] else (None, False)


def _cells(line: Line) -> list[str]:
    text = line.text.strip()[:_LONGEST]
    return [part.strip() for part in text.strip("|").split("|")] if text.startswith("|") else []


def _kind(cells: Sequence[str]) -> str:
    """The grid that opens here: by its title, or by the device that `stats` and `health` name in their first line."""
    if len(cells) < 2:
        return ""
    title = _TITLES.get(cells[-1].lower(), "")
    if title and cells[0].lower() in ("device id", "device type"):
        return title
    return "labelled" if cells[0].lower() == "device id" and units.whole(cells[1]) is not None else ""


def _start(grid: _Grid, cells: Sequence[str]) -> None:
    grid.kind, grid.section, grid.last = _kind(cells), "", ""
    grid.device = grid.page.device(int(cells[1])) if grid.kind == "labelled" else None


def _take_described(grid: _Grid, cells: Sequence[str], line: Line) -> None:
    """A line of `discovery` or `config`; those of tiles, `0/1`, speak of no device of their own."""
    place = cells[-2] if len(cells) > 1 else ""
    if place:
        index = units.whole(place)
        grid.device, grid.section, grid.last = (None if index is None else grid.page.device(index)), "", ""
    key, colon, text = cells[-1].partition(":")
    name, _ = split_label(key)
    if grid.device is None or not colon or key.startswith("/"):
        return  # a path goes on in the next line
    if grid.kind == "config":
        _take_setting(grid, name, text.strip(), line)
    elif name in keys.DISCOVERY:
        grid.page.take(grid.device, (keys.DISCOVERY[name],), text, line.where)
    elif name not in keys.QUIET_DISCOVERY:
        grid.page.unknown[quote(key) or "(blank)"] = None


def _take_setting(grid: _Grid, name: str, text: str, line: Line) -> None:
    if grid.device is None:
        return
    span = _RANGE.match(text) if (grid.last, name) == (keys.POWER_LIMIT, keys.POWER_RANGE) else None
    if span is not None:
        for target, number in zip(keys.CAP_RANGE, span.groups(), strict=True):
            grid.page.take(grid.device, (target,), number, line.where)
    elif not text:
        grid.section = name
    else:
        wanted = keys.CONFIG.get((grid.section, name)) or keys.CONFIG.get(("", name))
        grid.page.take(grid.device, (wanted,) if wanted else (), text, line.where)
    grid.last = name


def _take_labelled(grid: _Grid, label: str, text: str, line: Line) -> None:
    """A line of `stats` (a label and its value) or of `health` (an item, then keys of its own)."""
    item = _ITEM.match(label)
    if item is not None:
        grid.item, grid.section = item[1], item[2].lower()
    if grid.section:
        _take_health(grid, text, line)
        return
    target, known = target_of(label)
    if target is not None and grid.device is not None:
        value = _stated(text)
        if value is None:
            grid.page.give(grid.device, target, Absent.NOT_UNDERSTOOD, text, line.where)
        else:
            grid.page.take(grid.device, (target,), value, line.where)
    elif label and not known:
        grid.page.unknown[quote(label) or "(blank)"] = None


def _stated(text: str) -> str | None:
    """The device's own number before its engines', else the highest of the engines; None for anything else."""
    first, _, rest = text.partition(";")
    if rest or ":" not in first:
        return first.strip()
    matches = [_ENGINE.match(part.strip()) for part in first.split(",")]
    numbers = [match[1] for match in matches if match is not None]
    if len(numbers) < len(matches) or any(isinstance(units.number(number), Absent) for number in numbers):
        return None
    return max(numbers, key=float)


def _take_health(grid: _Grid, text: str, line: Line) -> None:
    """Thresholds are read; a state that is not good is told with what the tool says of it."""
    key, _, value = text.partition(":")
    name, value = key.strip().lower(), value.strip()
    target = keys.HEALTH.get((grid.section, name))
    if target is not None and grid.device is not None:
        match = _THRESHOLD.match(value)
        grid.page.take(grid.device, (target,), match[1] if match else value, line.where)
    elif name == "status" and grid.device is not None:
        grid.states.setdefault(grid.device, {})[grid.item] = value.lower()
        if value.lower() not in keys.HEALTHY:
            grid.page.problems.append(Problem(line.where, f"{grid.section}: {quote(value)}"))


def _judge_health(page: Page, device: int, states: Mapping[str, str]) -> None:
    """The worst state of the items once all are told: a text that is cut off would look healthier than the card is."""
    told_of = [state for state in states.values() if state not in keys.NO_STATE]
    if keys.HEALTH_ITEMS - set(states) or not told_of or not set(told_of) <= set(keys.STATES_WORST_FIRST):
        return
    worst = min(told_of, key=keys.STATES_WORST_FIRST.index)
    page.take(device, (keys.HEALTH_STATE,), worst, "health")
