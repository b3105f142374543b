"""The processes of one node's cards, those with most memory first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from telemetry_exporters import human, owner_words
from telemetry_exporters.columns import OPTIONAL, Cell, Column, text_cell, text_rank, value_cell
from telemetry_exporters.frames.body import Body, saying
from telemetry_exporters.frames.listing import Listing
from telemetry_exporters.frames.model import Size, State
from telemetry_exporters.frames.scene import Scene, chosen_scene
from telemetry_exporters.text import cut
from telemetry_parsers.model import MergedDevice, Process

_LONGEST_USER = 24


@dataclass(frozen=True, slots=True)
class Use:
    """A process on a card."""

    device: MergedDevice
    process: Process

    @property
    def card(self) -> str:
        """The card as people call it."""
        return f"{self.device.vendor} {self.device.device}"


def _text(heading: str, read: Callable[[Use], str], priority: int, least: int) -> Column[Use]:
    return Column(
        heading,
        lambda use: text_cell(read(use)),
        lambda use: text_rank(read(use)),
        priority,
        least=least,
        is_text=True,
    )


def _command(use: Use) -> str:
    """Its program, where the tool calls it otherwise."""
    process = use.process
    return process.command if process.command != process.name else ""


_COLUMNS: tuple[Column[Use], ...] = (
    Column("PID", lambda use: Cell(str(use.process.pid)), lambda use: float(use.process.pid), 0, usual=7),
    Column(
        "MEMORY",
        lambda use: value_cell(use.process.memory_used_bytes, human.byte_size),
        lambda use: use.process.memory_used_bytes,
        1,
        usual=8,
    ),
    Column(
        "UTIL",
        lambda use: value_cell(use.process.utilization_ratio, human.percent),
        lambda use: use.process.utilization_ratio,
        OPTIONAL + 2,
        usual=5,
    ),
    _text("CARD", lambda use: use.card, 2, 8),
    _text("NAME", lambda use: use.process.name, 3, 6),
    _text("USER", lambda use: cut(use.process.user, _LONGEST_USER), OPTIONAL, 6),
    _text("OWNER", lambda use: owner_words.of_process(use.process), OPTIONAL + 1, 18),
    _text("COMMAND", _command, OPTIONAL + 3, 6),
    _text("MODEL", lambda use: use.device.model, OPTIONAL + 4, 12),
)


def _searched(use: Use) -> str:
    process = use.process
    owner = process.owner
    account = "" if owner is None else f"{owner.name} {owner.account}"
    words = (process.name, process.command, process.user, owner_words.of_process(process), account, process.container)
    return " ".join(filter(None, (str(process.pid), *words, use.card, use.device.model, use.device.id)))


def _listing(scene: Scene) -> Listing[Use]:
    return Listing(
        _COLUMNS,
        lambda use: f"{use.device.id} {use.process.pid}",
        _searched,
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
