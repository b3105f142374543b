"""Bars, sparklines and charts. A slot without a number is drawn as a gap."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence

from telemetry_exporters.judgement.overview import Row, as_number, reading_value, slowdown_celsius
from telemetry_exporters.text import display_width
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import SLOTS, Series

_LEVELS = 8
# Each character becomes one or none, so that a text never grows.
_IN_ASCII = str.maketrans("–…×→←·▸▲▼✗│", "-~x><->^vx|", "°")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters for drawing: `levels` of sparklines and charts, lowest first, and `full` and `empty` cells of bars."""

    levels: str
    gap: str  # a slot without a number
    full: str
    empty: str
    is_ascii: bool

    def plain(self, text: str) -> str:
        """Return the text in the characters that the terminal can show, never wider than before."""
        if not self.is_ascii or text.isascii():
            return text
        seen = "".join(character for character in text.translate(_IN_ASCII) if display_width(character))
        return seen.encode("ascii", "replace").decode("ascii")


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "█", "░", is_ascii=False)
ASCII = Glyphs("_,-~=+*#", ".", "#", "-", is_ascii=True)
_COOL, _HOT = 20.0, 90.0


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers at the bottom and at the top of a drawing."""

    low: float
    high: float

    def part(self, value: float) -> float:
        """Return the position of the number between them, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0) if self.high > self.low else 0.0


def bar(part: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar filled to that part. A part above 0 fills at least one character."""
    filled = min(width, max(round(part * width), 1 if part > 0 else 0))
    return glyphs.full * filled + glyphs.empty * (width - filled)


@dataclass(frozen=True, slots=True)
class Window:
    """The half hour before the slot `end`. `phase` is the number of the first slot since the epoch, which keeps the borders of parts at fixed times."""

    end: int
    phase: int

    def parts(self, width: int) -> list[tuple[int, int]]:
        """Return at most `width` equal parts, each as its first slot and the slot behind its last one. The outer parts may be shorter."""
        size = max(1, -(-SLOTS // max(width, 1)))
        behind = -(-(self.end + self.phase) // size) * size - self.phase
        first = self.end - SLOTS
        edges = range(behind - size * -(-SLOTS // size), behind, size)
        return [(max(edge, first), min(edge + size, self.end)) for edge in edges]


def highest(series: Series, window: Window, width: int) -> list[float]:
    """Return the highest number of each part of the window, NaN if at least half of its slots have no number."""
    return [_highest(series.highest[max(first, 0) : max(end, 0)]) for first, end in window.parts(width)]


def _highest(values: array[float]) -> float:
    if values and not math.isnan(sum(values)):
        return max(values)
    numbers = [value for value in values if not math.isnan(value)]
    return max(numbers) if 2 * len(numbers) > len(values) else math.nan


def sparkline(series: Series, window: Window, width: int, scale: Scale, glyphs: Glyphs) -> str:
    """Return one character for each part of the window."""
    return "".join(
        glyphs.gap if math.isnan(value) else glyphs.levels[_level(scale.part(value), _LEVELS) - 1]
        for value in highest(series, window, width)
    )


def _level(part: float, levels: int) -> int:
    """Return a level from 1 to `levels`."""
    return min(levels, int(part * levels) + 1)


def chart(values: Sequence[float], height: int, scale: Scale, glyphs: Glyphs) -> Iterator[str]:
    """Yield `height` lines, the highest first. A column without a number has the gap mark at the bottom."""
    levels = [0 if math.isnan(value) else _level(scale.part(value), height * _LEVELS) for value in values]
    for row in range(height - 1, -1, -1):
        yield "".join(_part_of_column(level - row * _LEVELS, row, level, glyphs) for level in levels)


def _part_of_column(above: int, row: int, level: int, glyphs: Glyphs) -> str:
    if level == 0:
        return glyphs.gap if row == 0 else " "
    return glyphs.levels[min(above, _LEVELS) - 1] if above > 0 else " "


def scale_of(metric: str, row: Row, series: Series) -> Scale:
    """Return the scale of a metric: from 0, or from a cool card, to the device's limit or the highest number."""
    highest = max((value for value in series.highest if not math.isnan(value)), default=0.0)
    low = _COOL if metric == "temperature_celsius" else 0.0
    return Scale(low, max(_most(metric, row), highest))


def _most(metric: str, row: Row) -> float:
    if metric.endswith("_ratio") or metric == "throttled":
        return 1.0
    bound = {
        "temperature_celsius": slowdown_celsius(row.device) or _HOT,
        "power_watts": as_number(row.power_cap),
        "power_cap_watts": as_number(row.power_cap),
        "memory_used_bytes": as_number(reading_value(row.device, "memory_total_bytes")),
    }
    return bound.get(metric) or 0.0
