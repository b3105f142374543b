"""The processes of one node's cards, those with most memory first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_exporters import human
from telemetry_exporters.columns import Cell, Column, text_cell, text_rank, value_cell
from telemetry_exporters.frames.body import Body, saying
from telemetry_exporters.frames.listing import Listing
from telemetry_exporters.frames.model import Size, State
from telemetry_exporters.frames.scene import Scene, chosen_scene
from telemetry_parsers.model import MergedDevice, Process


@dataclass(frozen=True, slots=True)
class Use:
    """A process on a card."""

    device: MergedDevice
    process: Process

    @property
    def card(self) -> str:
        """The card as people call it."""
        return f"{self.device.vendor} {self.device.device}"


_COLUMNS: tuple[Column[Use], ...] = (
    Column("PID", lambda use: Cell(str(use.process.pid)), lambda use: float(use.process.pid), 0, usual=7),
    Column(
        "MEMORY",
        lambda use: value_cell(use.process.memory_used_bytes, human.byte_size),
        lambda use: use.process.memory_used_bytes,
        1,
        usual=8,
    ),
    Column("CARD", lambda use: text_cell(use.card), lambda use: text_rank(use.card), 2, least=8, is_text=True),
    Column(
        "NAME",
        lambda use: text_cell(use.process.name),
        lambda use: text_rank(use.process.name),
        3,
        least=6,
        is_text=True,
    ),
    Column(
        "MODEL",
        lambda use: text_cell(use.device.model),
        lambda use: text_rank(use.device.model),
        4,
        least=12,
        is_text=True,
    ),
)


def _listing(scene: Scene) -> Listing[Use]:
    return Listing(
        _COLUMNS,
        lambda use: f"{use.device.id} {use.process.pid}",
        lambda use: f"{use.process.pid} {use.process.name} {use.card} {use.device.model} {use.device.id}",
        lambda _: 0,
        lambda _: scene.is_old,
    )


def body(state: State, size: Size) -> Body:
    """The processes of the chosen node."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None:
        return saying("No node has answered yet.", size.columns)
    if scene.slot is not None:
        return saying("Not kept: which processes there were in the past. n: back to now", size.columns)
    uses = sorted(_uses(scene), key=lambda use: -(use.process.memory_used_bytes or 0.0))
    if not uses:
        return saying("No source tells of a process.", size.columns)
    return _listing(scene).body(uses, state.look, None, size.columns, state.glyphs)


def _uses(scene: Scene) -> Iterator[Use]:
    for row in scene.rows:
        for process in row.device.processes:
            yield Use(row.device, process)
