"""The processes of one node's cards, those with most memory first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import source_condition
from telemetry_exporters.terminal.columns import (
    OPTIONAL,
    SEVERITY_STYLES,
    Cell,
    Column,
    text_cell,
    text_rank,
    value_cell,
)
from telemetry_exporters.terminal.frames.cards import BADNESS
from telemetry_exporters.terminal.frames.lines import Body, of_lines, saying, wrapped
from telemetry_exporters.terminal.frames.listing import Listing
from telemetry_exporters.terminal.frames.model import Line, Piece, Size, State
from telemetry_exporters.terminal.frames.scene import Scene, chosen_scene
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import cut, display_width, pad_right
from telemetry_parsers.model import Health, MergedDevice, Process, SourceStatus

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
    _text("OWNER", lambda use: human.of_process(use.process), OPTIONAL + 1, 18),
    _text("COMMAND", _command, OPTIONAL + 3, 6),
    _text("MODEL", lambda use: use.device.model, OPTIONAL + 4, 12),
)


def _searched(use: Use) -> str:
    process = use.process
    owner = process.owner
    account = "" if owner is None else f"{owner.name} {owner.account}"
    words = (process.name, process.command, process.user, human.of_process(process), account, process.container)
    return " ".join(filter(None, (str(process.pid), *words, use.card, use.device.model, use.device.id)))


def _listing(scene: Scene) -> Listing[Use]:
    return Listing(
        _COLUMNS,
        lambda use: f"{use.device.id} {use.process.pid}",
        _searched,
        lambda _: 0,
        lambda _: scene.is_old,
    )


def process_list(state: State, size: Size) -> Body:
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


_INDENT = "  "


def source_list(state: State, size: Size) -> Body:
    """The sources of the chosen node, those in trouble first."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None:
        return saying("No node has answered yet.", size.columns)
    if scene.slot is not None:
        return saying("Not kept: how the sources did in the past. n: back to now", size.columns)
    snapshot = scene.seen.snapshot
    if not snapshot.sources:
        return saying("Nothing is known of the sources.", size.columns)
    widest = max(display_width(source.source) for source in snapshot.sources)
    ordered = sorted(snapshot.sources, key=lambda source: BADNESS[source_condition(source).severity])
    lines = [
        line
        for source in ordered
        for line in _lines(source, min(widest, size.columns // 3), snapshot.monotonic_time, size.columns)
    ]
    return of_lines(lines)


def _lines(source: SourceStatus, widest: int, now: float, width: int) -> Iterator[Line]:
    found = source_condition(source)
    name = Piece(pad_right(source.source, widest) + "  ", Style.BOLD)
    version = (Piece(f"  {source.version}"),) if source.version else ()
    yield (name, Piece(found.word, SEVERITY_STYLES[found.severity]), *version)
    texts = [(text, Style.BAD) for text in (source.detail, found.remedy and f"→ {found.remedy}") if text]
    texts += [(_poll_words(poll, now), Style.PLAIN) for poll in source.polls]
    texts += [(f"{problem.where}: {problem.text}", Style.WARNING) for problem in source.problems]
    if source.unknown_fields:
        texts.append((f"{len(source.unknown_fields)} unknown fields", Style.DIM))
    for text, style in texts:
        yield from wrapped(text, width, style, _INDENT * 2, _INDENT)


def _poll_words(poll: Health, now: float) -> str:
    state = f"{poll.state}: {poll.reason}" if poll.reason else poll.state
    if not poll.attempted:
        return f"{poll.poll}: {state}, not tried yet".replace("_", " ")
    age = human.seconds(max(0.0, round(now - poll.attempted_monotonic, 1)))
    return f"{poll.poll}: {state}, took {human.seconds(poll.seconds)}, {age} ago".replace("_", " ")
