"""Numbers as pictures: bars, sparklines and charts, in which a gap stays a gap."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from telemetry_exporters.judgement.overview import Row, slowdown_celsius, value_of
from telemetry_exporters.text import display_width
from telemetry_parsers.model import Absent
from telemetry_parsers.past import SLOTS, Series

_LEVELS = 8
# One character each, or none: a text never grows by it.
_IN_ASCII = str.maketrans("–…×→←·▸▲▼✗│", "-~x><->^vx|", "°")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """`levels` are the eight of sparklines and charts, lowest first; a `gap` has no number; bars are `full` and `empty`."""

    levels: str
    gap: str
    full: str
    empty: str
    is_ascii: bool

    def plain(self, text: str) -> str:
        """The text as it can be shown; never wider than before."""
        if not self.is_ascii or text.isascii():
            return text
        seen = "".join(one for one in text.translate(_IN_ASCII) if display_width(one))
        return seen.encode("ascii", "replace").decode("ascii")


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "█", "░", is_ascii=False)
ASCII = Glyphs("_,-~=+*#", ".", "#", "-", is_ascii=True)
_COOL, _HOT = 20.0, 90.0


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers at the bottom and at the top."""

    low: float
    high: float

    def part(self, value: float) -> float:
        """Where the number is between them, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0) if self.high > self.low else 0.0


def bar(part: float, width: int, glyphs: Glyphs) -> str:
    """A bar that is full to that part, at least a character of it if there is anything."""
    filled = min(width, max(round(part * width), 1 if part > 0 else 0))
    return glyphs.full * filled + glyphs.empty * (width - filled)


@dataclass(frozen=True, slots=True)
class Window:
    """The half hour before the slot `end`; `phase` is the number of the first slot since the epoch, so that parts stand still."""

    end: int
    phase: int

    def parts(self, width: int) -> list[tuple[int, int]]:
        """At most so many equal parts, as first slot and the one behind the last; the outer ones may be shorter."""
        size = max(1, -(-SLOTS // max(width, 1)))
        behind = -(-(self.end + self.phase) // size) * size - self.phase
        first = self.end - SLOTS
        edges = range(behind - size * -(-SLOTS // size), behind, size)
        return [(max(edge, first), min(edge + size, self.end)) for edge in edges]


def highest(series: Series, window: Window, width: int) -> list[float]:
    """The highest number of each part of the window; NaN where at least half of the slots that there were have none."""
    return [_highest(series.highest[max(one, 0) : max(end, 0)]) for one, end in window.parts(width)]


def _highest(values: array[float]) -> float:
    if values and not math.isnan(sum(values)):
        return max(values)
    numbers = [value for value in values if not math.isnan(value)]
    return max(numbers) if 2 * len(numbers) > len(values) else math.nan


def sparkline(series: Series, window: Window, width: int, scale: Scale, glyphs: Glyphs) -> str:
    """A character for each part of the window."""
    return "".join(
        glyphs.gap if math.isnan(value) else glyphs.levels[_level(scale.part(value), _LEVELS) - 1]
        for value in highest(series, window, width)
    )


def _level(part: float, levels: int) -> int:
    """From 1 to `levels`."""
    return min(levels, int(part * levels) + 1)


def chart(values: Sequence[float], height: int, scale: Scale, glyphs: Glyphs) -> Iterator[str]:
    """So many lines, the highest first; a column without a number has the mark of a gap at the bottom."""
    levels = [0 if math.isnan(value) else _level(scale.part(value), height * _LEVELS) for value in values]
    for row in range(height - 1, -1, -1):
        yield "".join(_part_of_column(level - row * _LEVELS, row, level, glyphs) for level in levels)


def _part_of_column(above: int, row: int, level: int, glyphs: Glyphs) -> str:
    if level == 0:
        return glyphs.gap if row == 0 else " "
    return glyphs.levels[min(above, _LEVELS) - 1] if above > 0 else " "


def scale_of(metric: str, row: Row, series: Series) -> Scale:
    """From nothing, or a cool card, to the most that the card may have, or to the highest number."""
    highest = max((value for value in series.highest if not math.isnan(value)), default=0.0)
    low = _COOL if metric == "temperature_celsius" else 0.0
    return Scale(low, max(_most(metric, row), highest))


def _most(metric: str, row: Row) -> float:
    if metric.endswith("_ratio") or metric == "throttled":
        return 1.0
    bound = {
        "temperature_celsius": slowdown_celsius(row.device) or _HOT,
        "power_watts": _number(row.power_cap),
        "power_cap_watts": _number(row.power_cap),
        "memory_used_bytes": _number(value_of(row.device, "memory_total_bytes")),
    }
    return bound.get(metric, 0.0)


def _number(value: float | Absent | None) -> float:
    return 0.0 if value is None or isinstance(value, Absent) else value
