"""The half hour of one metric of one card: a chart, its highest number, and the reason of each gap."""

from __future__ import annotations

import math
from collections.abc import Iterator

from telemetry_exporters import human
from telemetry_exporters.frames.cards import Card
from telemetry_exporters.frames.drawing import Scale, Window, chart, highest, limit_of, scale_of
from telemetry_exporters.frames.lines import spread, time_of_day, wrapped
from telemetry_exporters.frames.model import Line, Piece, Size, State
from telemetry_exporters.frames.scene import Scene, reason_at, value_at
from telemetry_exporters.past import SLOTS, Gap, Past, Series, kept_value
from telemetry_exporters.style import ABSENT, Style
from telemetry_exporters.text import clean, pad_left
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent

_MOST_GAPS = 8
# Height of the chart, and from how many rows on.
_HEIGHTS = ((45, 12), (20, 8), (0, 3))


def chart_lines(state: State, scene: Scene, card: Card, size: Size) -> Iterator[Line]:
    """The chart with its title, its scales and its gaps."""
    metric, past = BY_KEY[state.metric], scene.past
    series = card.series.get(state.metric)
    yield from wrapped(_title(state.metric, scene, card, series), size.columns, Style.BOLD)
    if series is None or not past.slots:
        yield (Piece("Nothing of it is kept.", Style.DIM),)
        return
    window = Window(past.slots, scene.window.phase)
    scale = scale_of(state.metric, card.row, series)
    labels = [human.in_words(scale.high, metric), human.in_words(scale.low, metric)]
    margin = max(len(label) for label in labels)
    parts = window.parts(size.columns - margin - 1)
    height = next(height for rows, height in _HEIGHTS if size.rows >= rows)
    yield from _columns(series, window, height, scale, labels, size, state)
    yield from _axis(past, scene, parts, margin)
    yield from _gaps(series, past, size.columns)


def _columns(
    series: Series, window: Window, height: int, scale: Scale, labels: list[str], size: Size, state: State
) -> Iterator[Line]:
    margin = max(len(label) for label in labels)
    values = highest(series, window, size.columns - margin - 1)
    for row, text in enumerate(chart(values, height, scale, state.glyphs)):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        yield (Piece(pad_left(label, margin) + "│", Style.DIM), Piece(text))


def _axis(past: Past, scene: Scene, parts: list[tuple[int, int]], margin: int) -> Iterator[Line]:
    """The times at both ends, and a mark below the moment that is looked at."""
    begin, end = (time_of_day(past.start + slot * past.slot_seconds) for slot in (past.slots - SLOTS, past.slots))
    yield (Piece(" " * (margin + 1)), *spread((Piece(begin, Style.DIM),), (Piece(end, Style.DIM),), len(parts)))
    found = [
        place for place, (first, last) in enumerate(parts) if scene.slot is not None and first <= scene.slot < last
    ]
    if found:
        yield (Piece(" " * (margin + 1 + found[0]) + "▲", Style.WARNING),)


def _title(key: str, scene: Scene, card: Card, series: Series | None) -> str:
    metric = BY_KEY[key]
    parts = [f"{human.name(metric)} {_value(key, scene, card, series)}"]
    numbers = [] if series is None else [value for value in series.highest if not math.isnan(value)]
    if series is not None and numbers:
        most = max(numbers)
        when = scene.past.start + series.highest.index(most) * scene.past.slot_seconds
        parts.append(f"highest {human.in_words(most, metric)} at {time_of_day(when)}")
    limit = limit_of(card.row)
    if key == "temperature_celsius" and limit is not None:
        parts.append(f"slows down at {human.celsius(limit)}")
    return ", ".join(parts)


def _value(key: str, scene: Scene, card: Card, series: Series | None) -> str:
    """The number of now or of the moment, or why there is none."""
    if scene.slot is None:
        value = kept_value(card.row.device, key)
        if value is not None and not isinstance(value, Absent):
            return human.in_words(value, BY_KEY[key])
        missing = card.row.condition.word if card.row.device.up is False else "no source gives it"
        return f"{ABSENT} ({value.value.replace('_', ' ') if value else missing})"
    if series is None:
        return f"{ABSENT} (not kept)"
    past = value_at(series, scene.slot)
    return (
        f"{ABSENT} ({clean(reason_at(series, scene.slot))})" if math.isnan(past) else human.in_words(past, BY_KEY[key])
    )


def _gaps(series: Series, past: Past, width: int) -> Iterator[Line]:
    newest = sorted(series.gaps, key=lambda gap: gap.first, reverse=True)
    for gap in newest[:_MOST_GAPS]:
        yield from wrapped(_gap_words(gap, past), width, Style.DIM, "    ", "  ")
    if len(newest) > _MOST_GAPS:
        yield (Piece(f"and {len(newest) - _MOST_GAPS} older gaps", Style.DIM),)


def _gap_words(gap: Gap, past: Past) -> str:
    begin = past.start + gap.first * past.slot_seconds
    end = begin + gap.slots * past.slot_seconds
    return f"{time_of_day(begin)} to {time_of_day(end)}: {clean(gap.reason).replace('_', ' ')}"
