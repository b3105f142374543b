"""The view of one card."""

from __future__ import annotations

import math
from collections.abc import Iterator

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import missing_text, slowdown_celsius
from telemetry_exporters.prometheus.labels import info_labels
from telemetry_exporters.terminal.columns import SEVERITY_STYLES
from telemetry_exporters.terminal.frames.card_readings import (
    current_groups,
    group_lines,
    heading,
    matching_entries,
    past_groups,
)
from telemetry_exporters.terminal.frames.cards import Card, chosen_card
from telemetry_exporters.terminal.frames.drawing import Scale, Window, chart, maxima, scale_of
from telemetry_exporters.terminal.frames.lines import (
    Body,
    body_of_lines,
    cut_text,
    in_style,
    left_and_right,
    message_body,
    time_of_day,
    wrapped,
)
from telemetry_exporters.terminal.frames.model import Line, Piece, Scene, Size, State, chosen_scene, reason_at, value_at
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_exporters.text import clean, display_width, pad_left
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent
from telemetry_parsers.past import SLOTS, Gap, Past, Series, kept_value

_MAX_EVENTS, _MAX_GAPS = 20, 8
# (minimum rows of the terminal, rows of the chart)
_CHART_HEIGHTS = ((45, 12), (20, 8), (0, 3))


def body(state: State, size: Size) -> Body:
    """Return a view of the chosen card."""
    scene = chosen_scene(state)
    card = None if scene is None else chosen_card(state, scene)
    if scene is None or card is None:
        return message_body("No card is known yet.", size.columns)
    groups = past_groups(card, scene) if scene.past_slot is not None else current_groups(card, state.counters)
    if state.options.filter:
        matches = {name: matching_entries(entries, state.options.filter) for name, entries in groups.items()}
        lines = [*_heading_lines(card, scene, size.columns), *group_lines(matches, size.columns)]
        if not any(matches.values()):
            return message_body("No reading matches the filter.", size.columns)
        return body_of_lines(lines)
    lines = [
        *_heading_lines(card, scene, size.columns),
        *_owner_lines(card, scene, size.columns),
        *_chart_lines(state, scene, card, size),
        *_event_lines(card, scene, size.columns),
        *group_lines(groups, size.columns),
        *_identity_lines(card, size.columns),
        *_process_lines(card, scene, size.columns),
    ]
    return body_of_lines([in_style(line, Style.DIM) for line in lines] if scene.is_old else lines)


def _heading_lines(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    device, condition = card.row.device, card.row.condition
    name = " ".join(filter(None, (device.vendor, device.device, card.row.model)))
    state = "" if scene.past_slot is not None else f"  {condition.word}"
    short_name = cut_text(name, max(8, width - display_width(state)))
    yield (Piece(short_name, Style.BOLD), Piece(state, SEVERITY_STYLES[condition.severity]))
    shown_remedies: set[str] = set()
    if scene.past_slot is None:
        for finding in card.row.findings:
            text = ": ".join(filter(None, (finding.word, finding.meaning)))
            if finding.meaning or finding.remedy:
                yield from wrapped(text, width, SEVERITY_STYLES[finding.severity], "    ", "  ")
            if finding.remedy and finding.remedy not in shown_remedies:
                shown_remedies.add(finding.remedy)
                yield from wrapped(f"→ {finding.remedy}", width, indent="    ", prefix="  ")


def _event_lines(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    """Yield the card's events, the newest first."""
    end = scene.past.start + card.window.end * scene.past.slot_seconds
    events = [
        event
        for event in scene.past.events
        if event.id == card.row.device.id and (scene.past_slot is None or event.wall_time < end)
    ]
    if not events:
        return
    yield heading("events of the last 30 minutes")
    newest_first = sorted(events, key=lambda event: event.wall_time, reverse=True)
    for event in newest_first[:_MAX_EVENTS]:
        text = clean(f"{time_of_day(event.wall_time)} {event.code} {event.text}".rstrip())
        yield from wrapped(text, width, Style.WARNING, "    ", "  ")
    if len(newest_first) > _MAX_EVENTS:
        yield (Piece(f"and {len(newest_first) - _MAX_EVENTS} older ones", Style.DIM),)


def _identity_lines(card: Card, width: int) -> Iterator[Line]:
    device = card.row.device
    yield heading("identity")
    for name, value in (("id", device.id), *info_labels(device)):
        yield from wrapped(f"{name.replace('_', ' ')}: {value}", width, indent="    ", prefix="  ")


def _process_lines(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    if scene.past_slot is not None:
        yield (Piece("Past processes are not stored.", Style.DIM),)
    elif card.row.device.processes:
        yield heading("processes")
    for process in card.row.device.processes:
        memory = process.memory_used_bytes
        memory_text = "memory unknown" if memory is None else human.byte_size(memory)
        details = human.process_details(process)
        yield from wrapped(f"{process.pid}, {memory_text}, {details}", width, indent="    ", prefix="  ")


def _owner_lines(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    if scene.past_slot is None and card.row.device.allocations:
        yield heading("owners")
        for allocation in card.row.device.allocations:
            yield from wrapped(human.allocation_text(allocation), width, indent="    ", prefix="  ")


def _chart_lines(state: State, scene: Scene, card: Card, size: Size) -> Iterator[Line]:
    metric, past = BY_KEY[state.metric], scene.past
    series = card.series.get(state.metric)
    yield from wrapped(_chart_title(state.metric, scene, card, series), size.columns, Style.BOLD)
    if series is None or not past.slots:
        yield (Piece("The history of this metric is not stored.", Style.DIM),)
        return
    window = Window(past.slots, scene.window.phase)
    scale = scale_of(state.metric, card.row, series)
    labels = [human.value_text(scale.high, metric), human.value_text(scale.low, metric)]
    margin = max(len(label) for label in labels)
    parts = window.parts(size.columns - margin - 1)
    height = next(height for rows, height in _CHART_HEIGHTS if size.rows >= rows)
    yield from _plot_lines(series, window, height, scale, labels, size, state)
    yield from _axis_lines(past, scene, parts, margin)
    yield from _gap_lines(series, past, size.columns)


def _plot_lines(
    series: Series, window: Window, height: int, scale: Scale, labels: list[str], size: Size, state: State
) -> Iterator[Line]:
    margin = max(len(label) for label in labels)
    values = maxima(series, window, size.columns - margin - 1)
    for row, text in enumerate(chart(values, height, scale, state.glyphs)):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        yield (Piece(pad_left(label, margin) + "│", Style.DIM), Piece(text))


def _axis_lines(past: Past, scene: Scene, parts: list[tuple[int, int]], margin: int) -> Iterator[Line]:
    """Yield the chart's time axis, and a line that marks the chosen slot."""
    first_slot = past.slots - SLOTS  # negative if fewer slots are stored than the chart covers
    begin, end = (time_of_day(past.start + slot * past.slot_seconds) for slot in (first_slot, past.slots))
    yield (Piece(" " * (margin + 1)), *left_and_right((Piece(begin, Style.DIM),), (Piece(end, Style.DIM),), len(parts)))
    chosen = scene.past_slot
    positions = [index for index, (first, stop) in enumerate(parts) if chosen is not None and first <= chosen < stop]
    if positions:
        yield (Piece(" " * (margin + 1 + positions[0]) + "▲", Style.WARNING),)


def _chart_title(key: str, scene: Scene, card: Card, series: Series | None) -> str:
    metric = BY_KEY[key]
    phrases = [f"{human.metric_name(metric)} {_current_or_past_text(key, scene, card, series)}"]
    numbers = [] if series is None else [value for value in series.highest if not math.isnan(value)]
    if series is not None and numbers:
        highest = max(numbers)
        time = scene.past.start + series.highest.index(highest) * scene.past.slot_seconds
        phrases.append(f"highest {human.value_text(highest, metric)} at {time_of_day(time)}")
    limit = slowdown_celsius(card.row.device)
    if key == "temperature_celsius" and limit is not None:
        phrases.append(f"slows down at {human.celsius(limit)}")
    return ", ".join(phrases)


def _current_or_past_text(key: str, scene: Scene, card: Card, series: Series | None) -> str:
    if scene.past_slot is None:
        value = kept_value(card.row.device, key)
        if value is not None and not isinstance(value, Absent):
            return human.value_text(value, BY_KEY[key])
        reason = card.row.condition.word if card.row.device.up is False else missing_text(card.row.device)
        return f"{ABSENT} ({value.value.replace('_', ' ') if value else reason})"
    if series is None:
        return f"{ABSENT} (not kept)"
    past_value = value_at(series, scene.past_slot)
    if math.isnan(past_value):
        return f"{ABSENT} ({clean(reason_at(series, scene.past_slot))})"
    return human.value_text(past_value, BY_KEY[key])


def _gap_lines(series: Series, past: Past, width: int) -> Iterator[Line]:
    newest_first = sorted(series.gaps, key=lambda gap: gap.first, reverse=True)
    for gap in newest_first[:_MAX_GAPS]:
        yield from wrapped(_gap_text(gap, past), width, Style.DIM, "    ", "  ")
    if len(newest_first) > _MAX_GAPS:
        yield (Piece(f"and {len(newest_first) - _MAX_GAPS} older gaps", Style.DIM),)


def _gap_text(gap: Gap, past: Past) -> str:
    begin = past.start + gap.first * past.slot_seconds
    end = begin + gap.slots * past.slot_seconds
    return f"{time_of_day(begin)} to {time_of_day(end)}: {clean(gap.reason).replace('_', ' ')}"
