"""The list of one node's cards, worst first: a line for each, in as many columns as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import Row, as_number, source_condition
from telemetry_exporters.judgement.verdict import Severity
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS, Cell, Column, of_vendors
from telemetry_exporters.terminal.frames.drawing import Glyphs, Window, bar, scale_of, sparkline
from telemetry_exporters.terminal.frames.lines import Body, of_lines, saying, wrapped
from telemetry_exporters.terminal.frames.listing import Listing, past_columns
from telemetry_exporters.terminal.frames.model import NO_SERIES, Scene, Size, State, chosen_scene
from telemetry_exporters.terminal.style import Style
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.past import Past, Series

# Quiet conditions come and go with the load, so they do not change a card's position.
BADNESS = {Severity.BAD: 0, Severity.WARNING: 1, Severity.QUIET: 2, Severity.GOOD: 2}
_MOST_DRAWINGS = 4096
_Drawings = dict[tuple[str, str, int, Glyphs, Window], str]


@dataclass(frozen=True, slots=True)
class Card:
    """A row with the data for drawing its half hour. `drawings` caches the drawings of the same past."""

    row: Row
    series: Mapping[str, Series]
    window: Window
    glyphs: Glyphs
    drawings: _Drawings = field(compare=False, repr=False)


def cards_of(scene: Scene, glyphs: Glyphs) -> Iterator[Card]:
    """Yield the node's cards in the snapshot's order."""
    drawings = scene.node.memory.of(_no_drawings, scene.past)
    if len(drawings) > _MOST_DRAWINGS:
        drawings.clear()
    for row in scene.rows:
        yield Card(row, scene.past.devices.get(row.device.id, NO_SERIES), scene.window, glyphs, drawings)


def _no_drawings(_: Past) -> _Drawings:
    return {}


def _trend(heading: str, metric: str, priority: int, style: Style = Style.PLAIN) -> Column[Card]:
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

    return Column(heading, lambda _: Cell(""), lambda _: None, priority, least=12, most=30, draw=draw, is_kept=True)


def _drawn_bar(part: Callable[[Card], float | None], style: Style, priority: int) -> Column[Card]:
    def draw(card: Card, width: int) -> Cell:
        found = part(card)
        return Cell("") if found is None else Cell(bar(found, width, card.glyphs), style)

    return Column("", lambda _: Cell(""), lambda _: None, priority, least=8, most=12, draw=draw, is_kept=True)


def _memory_part(card: Card) -> float | None:
    used, total = as_number(card.row.memory_used), as_number(card.row.memory_total)
    return used / total if used is not None and total else None


def _of_row(column: Column[Row]) -> Column[Card]:
    cell, rank = column.cell, column.rank
    return Column(
        column.heading,
        lambda card: cell(card.row),
        lambda card: rank(card.row),
        column.priority,
        least=column.least,
        whole=column.whole,
        usual=column.usual,
        slot=column.slot,
        is_text=column.is_text,
        is_kept=column.is_kept,
    )


# Drawings, by the heading of the column before them.
_DRAWN: Mapping[str, tuple[Column[Card], ...]] = {
    "TEMP": (_trend("TEMP 30 MIN", "temperature_celsius", 16),),
    "POWER / CAP": (_trend("POWER 30 MIN", "power_watts", 19),),
    "MEMORY": (_drawn_bar(_memory_part, Style.ACCENT, 14),),
    "UTIL": (
        _drawn_bar(lambda card: as_number(card.row.utilization), Style.GOOD, 13),
        _trend("UTIL 30 MIN", "utilization_ratio", 12, Style.GOOD),
    ),
}
_COLUMNS = tuple(one for column in DEVICE_COLUMNS for one in (_of_row(column), *_DRAWN.get(column.heading, ())))
_PAST_COLUMNS = past_columns(_COLUMNS)


def _listing(scene: Scene) -> Listing[Card]:
    columns = _COLUMNS if scene.slot is None else _PAST_COLUMNS
    if len({row.model for row in scene.rows}) == 1:  # the heading shows the model
        columns = tuple(
            replace(column, priority=15, least=0) if column.heading == "MODEL" else column for column in columns
        )
    return Listing(
        of_vendors(columns, {row.device.vendor for row in scene.rows}),
        lambda card: card.row.device.id,
        _text,
        _badness,
        lambda _: Style.DIM if scene.is_old else Style.PLAIN,
    )


def _badness(card: Card) -> int:
    return BADNESS[card.row.condition.severity]


def _text(card: Card) -> str:
    device = card.row.device
    identity = "/".join(filter(None, (device.id, device.serial, device.uuid)))
    words = (device.vendor, device.device, card.row.model, identity, device.bus_id, device.partition)
    owners = (human.owners_search_text(device.allocations), *(process.user for process in device.processes))
    return " ".join(filter(None, (*words, *(finding.word for finding in card.row.findings), *owners)))


def body(state: State, size: Size) -> Body:
    """Return the cards of the chosen node, or the reason why there are none."""
    scene = chosen_scene(state)
    if scene is None:
        return saying("No node is known yet.", size.columns)
    if scene.seen is None:
        return saying(scene.node.trouble or f"Waiting for {scene.node.name or 'the node'}.", size.columns)
    if not scene.seen.rows:
        return _no_devices(scene, size.columns)
    return _listing(scene).body(cards_of(scene, state.glyphs), state.look, state.card, size.columns, state.glyphs)


def _no_devices(scene: Scene, width: int) -> Body:
    sources = scene.seen.snapshot.sources if scene.seen else ()
    looked = ", ".join(f"{source.source} ({source_condition(source).word})" for source in sources)
    text = f"No devices. Sources tried: {looked}." if looked else "No devices, and no source was tried."
    return of_lines(list(wrapped(text, width, Style.DIM)))


def chosen_card(state: State, scene: Scene) -> Card | None:
    """Return the chosen card, by default the worst of the node."""
    cards = sorted(cards_of(scene, state.glyphs), key=_badness)
    return next((card for card in cards if card.row.device.id == state.card), cards[0] if cards else None)
