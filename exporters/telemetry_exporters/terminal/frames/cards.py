"""The list of a node's cards, worst first, with as many columns as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import DeviceRow, as_number, source_condition
from telemetry_exporters.judgement.verdict import Severity
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS, Cell, Column, with_visible_vendor
from telemetry_exporters.terminal.frames.drawing import Glyphs, Window, bar, scale_of, sparkline
from telemetry_exporters.terminal.frames.lines import Body, body_of_lines, message_body, wrapped
from telemetry_exporters.terminal.frames.listing import Listing, past_columns
from telemetry_exporters.terminal.frames.model import NO_SERIES, Scene, Size, State, chosen_scene
from telemetry_exporters.terminal.style import Style
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.past import Past, Series

# QUIET and GOOD have the same rank, so that changes in load do not change the order of cards.
SEVERITY_RANKS = {Severity.BAD: 0, Severity.WARNING: 1, Severity.QUIET: 2, Severity.GOOD: 2}
_MAX_DRAWINGS = 4096
_DrawingCache = dict[tuple[str, str, int, Glyphs, Window], str]


@dataclass(frozen=True, slots=True)
class Card:
    """A card in the card list, with the history for its charts."""

    row: DeviceRow
    series: Mapping[str, Series]
    window: Window
    glyphs: Glyphs
    drawings: _DrawingCache = field(compare=False, repr=False)


def cards_of(scene: Scene, glyphs: Glyphs) -> Iterator[Card]:
    """Yield the node's cards with their history, in the snapshot's order."""
    drawings = scene.node.cache.get(_create_drawing_cache, scene.past)
    if len(drawings) > _MAX_DRAWINGS:
        drawings.clear()
    for row in scene.rows:
        yield Card(row, scene.past.devices.get(row.device.id, NO_SERIES), scene.window, glyphs, drawings)


def _create_drawing_cache(_: Past) -> _DrawingCache:
    return {}


def _history_column(heading: str, metric: str, priority: int, style: Style = Style.PLAIN) -> Column[Card]:
    def draw(card: Card, width: int) -> Cell:
        series = card.series.get(metric)
        if series is None:
            return Cell(card.glyphs.gap * width, Style.DIM)
        key = (card.row.device.id, metric, width, card.glyphs, card.window)
        text = card.drawings.get(key)
        if text is None:
            scale = scale_of(metric, card.row, series)
            text = card.drawings[key] = sparkline(series, card.window, width, scale, card.glyphs)
        return Cell(text, style)

    return Column(
        heading, lambda _: Cell(""), lambda _: None, priority, min_width=12, max_width=30, draw=draw, has_history=True
    )


def _bar_column(ratio: Callable[[Card], float | None], style: Style, priority: int) -> Column[Card]:
    def draw(card: Card, width: int) -> Cell:
        value = ratio(card)
        return Cell("") if value is None else Cell(bar(value, width, card.glyphs), style)

    return Column(
        "", lambda _: Cell(""), lambda _: None, priority, min_width=8, max_width=12, draw=draw, has_history=True
    )


def _memory_ratio(card: Card) -> float | None:
    used, total = as_number(card.row.memory_used), as_number(card.row.memory_total)
    return used / total if used is not None and total else None


def _as_card_column(column: Column[DeviceRow]) -> Column[Card]:
    cell, sort_key = column.cell, column.sort_key
    return Column(
        column.heading,
        lambda card: cell(card.row),
        lambda card: sort_key(card.row),
        column.priority,
        min_width=column.min_width,
        name_width=column.name_width,
        usual_width=column.usual_width,
        group=column.group,
        is_text=column.is_text,
        has_history=column.has_history,
    )


# Maps the heading of a column to the drawings that are inserted after this column.
_DRAWINGS: Mapping[str, tuple[Column[Card], ...]] = {
    "TEMP": (_history_column("TEMP 30 MIN", "temperature_celsius", 16),),
    "POWER / CAP": (_history_column("POWER 30 MIN", "power_watts", 19),),
    "MEMORY": (_bar_column(_memory_ratio, Style.ACCENT, 14),),
    "UTIL": (
        _bar_column(lambda card: as_number(card.row.utilization), Style.GOOD, 13),
        _history_column("UTIL 30 MIN", "utilization_ratio", 12, Style.GOOD),
    ),
}
_CARD_COLUMNS = tuple(
    item for column in DEVICE_COLUMNS for item in (_as_card_column(column), *_DRAWINGS.get(column.heading, ()))
)
_PAST_COLUMNS = past_columns(_CARD_COLUMNS)


def _listing(scene: Scene) -> Listing[Card]:
    columns = _CARD_COLUMNS if scene.past_slot is None else _PAST_COLUMNS
    if len({row.model for row in scene.rows}) == 1:  # the header shows a model that all cards share
        columns = tuple(
            replace(column, priority=15, min_width=0) if column.heading == "MODEL" else column for column in columns
        )
    return Listing(
        with_visible_vendor(columns, {row.device.vendor for row in scene.rows}),
        lambda card: card.row.device.id,
        _search_text,
        _severity_rank,
        lambda _: Style.DIM if scene.is_old else Style.PLAIN,
    )


def _severity_rank(card: Card) -> int:
    return SEVERITY_RANKS[card.row.condition.severity]


def _search_text(card: Card) -> str:
    device = card.row.device
    identity = "/".join(filter(None, (device.id, device.serial, device.uuid)))
    texts = (device.vendor, device.device, card.row.model, identity, device.bus_id, device.partition)
    owners = (human.owners_search_text(device.allocations), *(process.user for process in device.processes))
    return " ".join(filter(None, (*texts, *(finding.word for finding in card.row.findings), *owners)))


def body(state: State, size: Size) -> Body:
    """Return a view of the chosen node's cards, or a message if there are none."""
    scene = chosen_scene(state)
    if scene is None:
        return message_body("No node is known yet.", size.columns)
    if scene.content is None:
        return message_body(scene.node.trouble or f"Waiting for {scene.node.name or 'the node'}.", size.columns)
    if not scene.content.rows:
        return _body_without_devices(scene, size.columns)
    return _listing(scene).body(cards_of(scene, state.glyphs), state.options, state.card, size.columns, state.glyphs)


def _body_without_devices(scene: Scene, width: int) -> Body:
    sources = scene.content.snapshot.sources if scene.content else ()
    source_names = ", ".join(f"{status.source} ({source_condition(status).word})" for status in sources)
    text = f"No devices. Sources tried: {source_names}." if source_names else "No devices, and no source was tried."
    return body_of_lines(list(wrapped(text, width, Style.DIM)))


def chosen_card(state: State, scene: Scene) -> Card | None:
    """Return the chosen card, by default the node's worst card."""
    cards = sorted(cards_of(scene, state.glyphs), key=_severity_rank)
    return next((card for card in cards if card.row.device.id == state.card), cards[0] if cards else None)
