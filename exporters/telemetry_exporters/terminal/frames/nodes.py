"""The nodes, worst first: a line each, those that do not answer in grey with their age and the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import Figures, inventory, source_condition
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.terminal.columns import (
    Cell,
    Column,
    condition_cell,
    number_of,
    text_cell,
    text_rank,
    value_cell,
)
from telemetry_exporters.terminal.frames.cards import BADNESS
from telemetry_exporters.terminal.frames.lines import Body, saying
from telemetry_exporters.terminal.frames.listing import Listing
from telemetry_exporters.terminal.frames.model import Size, State
from telemetry_exporters.terminal.frames.scene import NOT_KEPT, Scene, Seen, scene

_HOTTEST, _POWER, _MEMORY, _UTILIZATION = range(4)
_ORDER = (Severity.BAD, Severity.WARNING)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as a line."""

    scene: Scene
    condition: Finding
    figures: Figures

    @property
    def is_silent(self) -> bool:
        """Whether it does not answer any more, or never did."""
        return self.scene.slot is None and (bool(self.scene.node.trouble) or self.scene.is_old)


def _row(one: Scene) -> NodeRow:
    return NodeRow(one, _condition(one), one.figures)


def _condition(one: Scene) -> Finding:
    node = one.node
    if one.slot is not None:
        return NOT_KEPT
    if node.trouble and node.age_seconds is None:
        return Finding(node.trouble, Severity.BAD)
    if node.trouble or one.is_old:
        age = "" if node.age_seconds is None else f" for {human.seconds(round(node.age_seconds))}"
        return Finding(f"no answer{age}" + (f": {node.trouble}" if node.trouble else ""), Severity.BAD)
    if one.seen is None:
        return Finding("waiting", Severity.QUIET)
    return node.memory.of(_worst, one.seen)


def _worst(seen: Seen) -> Finding:
    """What is worst on the node, and on how many cards."""
    for severity in _ORDER:
        found = [row.condition for row in seen.rows if row.condition.severity is severity]
        if found:
            more = f", {len(found)} of {len(seen.rows)} cards" if len(seen.rows) > 1 else ""
            return Finding(found[0].word + more, severity)
        for source in seen.snapshot.sources:
            said = source_condition(source)
            if said.severity is severity:
                return Finding(f"{source.source}: {said.word}", Severity.WARNING)
    if not seen.rows:
        return Finding("no devices", Severity.QUIET)
    return min((row.condition for row in seen.rows), key=lambda said: said.severity is not Severity.GOOD)


def _number(
    heading: str,
    place: int,
    fold: Callable[[tuple[float, ...]], float],
    words: Callable[[float], str],
    priority: int,
    usual: int,
) -> Column[NodeRow]:
    def read(row: NodeRow) -> float | None:
        values = row.figures.values[place]
        return fold(values) if values else None

    return Column(
        heading,
        lambda row: value_cell(read(row), words),
        lambda row: number_of(read(row)),
        priority,
        usual=usual,
        is_kept=True,
    )


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


def _cards_cell(row: NodeRow) -> Cell:
    whole, up = row.figures.whole, row.figures.up
    if row.scene.slot is not None or not whole:
        return text_cell(str(whole) if whole else "")
    return Cell(str(up) if up == whole else f"{up} / {whole}")


def _models(row: NodeRow) -> str:
    return "" if row.scene.seen is None or row.scene.slot is not None else inventory(row.scene.seen.snapshot)


def _text(heading: str, read: Callable[[NodeRow], str], priority: int, least: int) -> Column[NodeRow]:
    return Column(
        heading, lambda row: text_cell(read(row)), lambda row: text_rank(read(row)), priority, least=least, is_text=True
    )


def _condition_column(priority: int, least: int) -> Column[NodeRow]:
    return Column(
        "STATE",
        lambda row: condition_cell(row.condition),
        lambda row: text_rank(row.condition.word),
        priority,
        least=least,
        slot="state",
        is_text=True,
    )


_LISTING = Listing(
    (
        _text("NODE", lambda row: row.scene.node.name, 0, 8),
        Column("CARDS", _cards_cell, lambda row: float(row.figures.whole), 6, usual=3),
        _number("TEMP", _HOTTEST, max, human.celsius, 2, 6),
        _number("POWER", _POWER, sum, human.watts, 4, 7),
        _number("MEMORY", _MEMORY, sum, human.byte_size, 5, 8),
        _number("UTIL", _UTILIZATION, _mean, human.percent, 3, 5),
        _condition_column(1, 9),
        _condition_column(7, 28),
        _text("MODELS", _models, 8, 12),
    ),
    lambda row: row.scene.node.name,
    lambda row: f"{row.scene.node.name} {row.condition.word} {_models(row)}",
    lambda row: -1 if row.is_silent else BADNESS[row.condition.severity],
    lambda row: row.is_silent,
)


def body(state: State, size: Size) -> Body:
    """The nodes that are looked at."""
    if not state.nodes:
        return saying("No node is known yet.", size.columns)
    rows = (_row(scene(node, state.moment)) for node in state.nodes)
    return _LISTING.body(rows, state.look, state.node, size.columns, state.glyphs)
