"""Draws bars, sparklines and charts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence

from telemetry_exporters.judgement.overview import DeviceRow, as_number, reading_value, slowdown_celsius
from telemetry_exporters.text import display_width
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import SLOTS, Series

_LEVELS = 8
# A replacement must not be wider than the original character.
_ASCII_REPLACEMENTS = str.maketrans("–…×→←·▸▲▼✗│", "-~x><->^vx|", "°")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters for drawing."""

    levels: str
    gap: str  # the character for a slot without a number
    full: str
    empty: str
    is_ascii: bool

    def displayable(self, text: str) -> str:
        """Return the text in characters that the terminal can show."""
        if not self.is_ascii or text.isascii():
            return text
        visible = "".join(character for character in text.translate(_ASCII_REPLACEMENTS) if display_width(character))
        return visible.encode("ascii", "replace").decode("ascii")


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "█", "░", is_ascii=False)
ASCII = Glyphs("_,-~=+*#", ".", "#", "-", is_ascii=True)
_COOL_CELSIUS, _HOT_CELSIUS = 20.0, 90.0


@dataclass(frozen=True, slots=True)
class Scale:
    """The lower and upper bounds of a chart's value axis."""

    low: float
    high: float

    def ratio(self, value: float) -> float:
        """Return the position of the value between `low` and `high`, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0) if self.high > self.low else 0.0


def bar(ratio: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar of this width, filled to this ratio."""
    filled = min(width, max(round(ratio * width), 1 if ratio > 0 else 0))
    return glyphs.full * filled + glyphs.empty * (width - filled)


@dataclass(frozen=True, slots=True)
class Window:
    """The half hour before the slot `end`. `phase` is the absolute number of slot 0, to which the parts are aligned."""

    end: int
    phase: int

    def parts(self, width: int) -> list[tuple[int, int]]:
        """Divide the window into at most `width` ranges of slots."""
        size = max(1, -(-SLOTS // max(width, 1)))
        last_edge = -(-(self.end + self.phase) // size) * size - self.phase
        first = self.end - SLOTS
        edges = range(last_edge - size * -(-SLOTS // size), last_edge, size)
        return [(max(edge, first), min(edge + size, self.end)) for edge in edges]


def maxima(series: Series, window: Window, width: int) -> list[float]:
    """Return the highest number in each part of the window, or NaN if at least half of the part is gaps."""
    return [_highest_if_mostly_known(series.highest[max(first, 0) : max(end, 0)]) for first, end in window.parts(width)]


def _highest_if_mostly_known(values: array[float]) -> float:
    if values and not math.isnan(sum(values)):
        return max(values)
    numbers = [value for value in values if not math.isnan(value)]
    return max(numbers) if 2 * len(numbers) > len(values) else math.nan


def sparkline(series: Series, window: Window, width: int, scale: Scale, glyphs: Glyphs) -> str:
    """Return a line with one character for each part of the window. The character shows the part's highest number."""
    return "".join(
        glyphs.gap if math.isnan(value) else glyphs.levels[_level_of(scale.ratio(value), _LEVELS) - 1]
        for value in maxima(series, window, width)
    )


def _level_of(ratio: float, levels: int) -> int:
    return min(levels, int(ratio * levels) + 1)


def chart(values: Sequence[float], height: int, scale: Scale, glyphs: Glyphs) -> Iterator[str]:
    """Yield the chart's lines, the top line first."""
    levels = [0 if math.isnan(value) else _level_of(scale.ratio(value), height * _LEVELS) for value in values]
    for row in range(height - 1, -1, -1):
        yield "".join(_chart_cell(level, row, glyphs) for level in levels)


def _chart_cell(level: int, row: int, glyphs: Glyphs) -> str:
    if level == 0:
        return glyphs.gap if row == 0 else " "
    level_in_row = level - row * _LEVELS
    return glyphs.levels[min(level_in_row, _LEVELS) - 1] if level_in_row > 0 else " "


def scale_of(metric: str, row: DeviceRow, series: Series) -> Scale:
    """Return a scale that includes the highest number of the series and the device's limit."""
    highest = max((value for value in series.highest if not math.isnan(value)), default=0.0)
    low = _COOL_CELSIUS if metric == "temperature_celsius" else 0.0
    return Scale(low, max(_device_limit(metric, row), highest))


def _device_limit(metric: str, row: DeviceRow) -> float:
    if metric.endswith("_ratio") or metric == "throttled":
        return 1.0
    limits = {
        "temperature_celsius": slowdown_celsius(row.device) or _HOT_CELSIUS,
        "power_watts": as_number(row.power_cap),
        "power_cap_watts": as_number(row.power_cap),
        "memory_used_bytes": as_number(reading_value(row.device, "memory_total_bytes")),
    }
    return limits.get(metric) or 0.0
