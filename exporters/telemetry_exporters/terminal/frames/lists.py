"""Lists of `telemetry top`: the nodes, worst first, and the processes and sources of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import Figures, inventory, source_condition
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.terminal.columns import (
    OPTIONAL,
    SEVERITY_STYLES,
    Cell,
    Column,
    condition_column,
    name_column,
    number_column,
    text_cell,
    text_column,
)
from telemetry_exporters.terminal.frames.cards import BADNESS
from telemetry_exporters.terminal.frames.lines import Body, of_lines, saying, wrapped
from telemetry_exporters.terminal.frames.listing import Listing
from telemetry_exporters.terminal.frames.model import (
    NOT_KEPT,
    Line,
    Look,
    Piece,
    Running,
    Scene,
    Seen,
    Size,
    State,
    chosen_scene,
    scene_at,
)
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import cut, display_width, pad_right
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Health, MergedDevice, Process, SourceStatus

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
        """Return whether the node does not answer."""
        return self.scene.slot is None and (bool(self.scene.node.trouble) or self.scene.is_old)


def _condition(scene: Scene) -> Finding:
    node = scene.node
    if scene.slot is not None:
        return NOT_KEPT
    if node.trouble and node.age_seconds is None:
        return Finding(node.trouble, Severity.BAD)
    if node.trouble or scene.is_old:
        age = "" if node.age_seconds is None else f" for {human.seconds(round(node.age_seconds))}"
        return Finding(f"no answer{age}" + (f": {node.trouble}" if node.trouble else ""), Severity.BAD)
    if scene.seen is None:
        return Finding("waiting", Severity.QUIET)
    return node.memory.of(_worst, scene.seen)


def _worst(seen: Seen) -> Finding:
    """Return the worst condition on the node, with the number of cards that have it."""
    for severity in _ORDER:
        found = [row.condition for row in seen.rows if row.condition.severity is severity]
        if found:
            more = f", {len(found)} of {len(seen.rows)} cards" if len(seen.rows) > 1 else ""
            return Finding(found[0].word + more, severity)
        for source in seen.snapshot.sources:
            condition = source_condition(source)
            if condition.severity is severity:
                return Finding(f"{source.source}: {condition.word}", Severity.WARNING)
    if not seen.rows:
        return Finding("no devices", Severity.QUIET)
    return min((row.condition for row in seen.rows), key=lambda condition: condition.severity is not Severity.GOOD)


def _total(index: int, fold: Callable[[tuple[float, ...]], float]) -> Callable[[NodeRow], float | None]:
    """Return a function that reads one figure of a node, combined over its cards."""

    def read(row: NodeRow) -> float | None:
        values = row.figures.values[index]
        return fold(values) if values else None

    return read


def _cards_cell(row: NodeRow) -> Cell:
    whole, up = row.figures.whole, row.figures.up
    if row.scene.slot is not None or not whole:
        return text_cell(str(whole) if whole else "")
    return Cell(str(up) if up == whole else f"{up} / {whole}")


def _models(row: NodeRow) -> str:
    return "" if row.scene.seen is None or row.scene.slot is not None else inventory(row.scene.seen.snapshot)


_NODES: Listing[NodeRow] = Listing(
    (
        name_column("NODE", lambda row: row.scene.node.name, 0),
        Column("CARDS", _cards_cell, lambda row: float(row.figures.whole), 6, usual=3),
        number_column("TEMP", _total(_HOTTEST, max), human.celsius, 2, 6, is_kept=True),
        number_column("POWER", _total(_POWER, sum), human.watts, 4, 7, is_kept=True),
        number_column("MEMORY", _total(_MEMORY, sum), human.byte_size, 5, 8, is_kept=True),
        number_column(
            "UTIL", _total(_UTILIZATION, lambda values: sum(values) / len(values)), human.percent, 3, 5, is_kept=True
        ),
        condition_column(lambda row: row.condition, 1),
        text_column("MODELS", _models, 8, 12),
    ),
    lambda row: row.scene.node.name,
    lambda row: f"{row.scene.node.name} {row.condition.word} {_models(row)}",
    lambda row: -1 if row.is_silent else BADNESS[row.condition.severity],
    lambda row: Style.BAD if row.is_silent else Style.PLAIN,
)


def node_list(state: State, size: Size) -> Body:
    """Return the list of nodes."""
    if not state.nodes:
        return saying("No node is known yet.", size.columns)
    scenes = (scene_at(node, state.moment) for node in state.nodes)
    rows = (NodeRow(scene, _condition(scene), scene.figures) for scene in scenes)
    return _NODES.body(rows, state.look, state.node, size.columns, state.glyphs)


_LONGEST_NAME = 24
# A blank line, the title, the headings and one process.
_LOWEST_PANE = 4


@dataclass(frozen=True, slots=True)
class Use:
    """A process on a card. `running` is the kernel's data about it, if this program may read it."""

    device: MergedDevice
    process: Process
    running: Running | None
    now: float

    @property
    def card(self) -> str:
        """Return vendor and label of the card."""
        return f"{self.device.vendor} {self.device.device}"


def _command(use: Use) -> str:
    """Return the arguments of the process, else its program if the tool reports another name."""
    process = use.process
    if use.running is not None and use.running.command_line:
        return use.running.command_line
    return process.command if process.command != process.name else ""


def _cpu(use: Use) -> float | None:
    return None if use.running is None else use.running.cpu_ratio


def _seconds(use: Use) -> float | None:
    started = use.process.started
    return None if started is None or not human.is_valid_time(started) else max(0.0, float(round(use.now - started)))


_COLUMNS: tuple[Column[Use], ...] = (
    Column("PID", lambda use: Cell(str(use.process.pid)), lambda use: float(use.process.pid), 0, usual=7),
    text_column("USER", lambda use: cut(use.process.user, _LONGEST_NAME), OPTIONAL, 6),
    text_column("OWNER", lambda use: human.process_owner(use.process), OPTIONAL + 1, 18),
    name_column("CARD", lambda use: use.card, 2),
    number_column("MEMORY", lambda use: use.process.memory_used_bytes, human.byte_size, 1, 8),
    number_column("%GPU", lambda use: use.process.utilization_ratio, human.percent, OPTIONAL + 2, 5),
    number_column("%CPU", _cpu, human.percent, OPTIONAL + 3, 6),
    number_column("TIME", _seconds, human.seconds, OPTIONAL + 4, 8),
    text_column("NAME", lambda use: cut(use.process.name, _LONGEST_NAME), 3, 6),
    text_column("COMMAND", _command, OPTIONAL + 5, 12),
)


def _searched(use: Use) -> str:
    process = use.process
    owner = process.owner
    account = "" if owner is None else f"{owner.name} {owner.account}"
    words = (process.name, process.command, process.user, human.process_owner(process), account, process.container)
    return " ".join(filter(None, (str(process.pid), *words, _command(use), use.card, use.device.model, use.device.id)))


def _listing(scene: Scene) -> Listing[Use]:
    return Listing(
        _COLUMNS,
        lambda use: f"{use.device.id} {use.process.pid}",
        _searched,
        lambda _: 0,
        lambda _: Style.DIM if scene.is_old else Style.PLAIN,
    )


def process_list(state: State, size: Size) -> Body:
    """Return the processes of the chosen node."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None:
        return saying("No node has answered yet.", size.columns)
    if scene.slot is not None:
        return saying("The processes of the past are not kept. n: back to now", size.columns)
    if not any(row.device.processes for row in scene.rows):
        return saying("No processes reported.", size.columns)
    return _listing(scene).body(_uses(scene), state.look, None, size.columns, state.glyphs)


def process_pane(state: State, size: Size) -> list[Line]:
    """Return the largest processes of the filtered cards, in the room below the cards; empty if it is too low."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None or size.rows < _LOWEST_PANE:
        return []
    body = _listing(scene).body(_uses(scene), Look(state.look.filter), None, size.columns, state.glyphs)
    if not body.count:
        return []
    shown = min(body.count, size.rows - _LOWEST_PANE + 1)
    count = str(shown) if shown == body.count else f"{shown} of {body.count}"
    title = f"processes: {count}   4: all   P: hide"
    return [(), (Piece(title, Style.DIM),), *body.make(0, shown)]


def _uses(scene: Scene) -> list[Use]:
    """Return the processes of the node, those with the most memory first."""
    now = scene.seen.snapshot.wall_time if scene.seen else 0.0
    uses = [
        Use(row.device, process, scene.node.running.get(process.pid), now)
        for row in scene.rows
        for process in row.device.processes
    ]
    return sorted(uses, key=lambda use: -(use.process.memory_used_bytes or 0.0))


_INDENT = "  "


def source_list(state: State, size: Size) -> Body:
    """Return the sources of the chosen node, failing ones first."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None:
        return saying("No node has answered yet.", size.columns)
    if scene.slot is not None:
        return saying("The state of sources in the past is not kept. n: back to now", size.columns)
    snapshot = scene.seen.snapshot
    if not snapshot.sources:
        return saying("No sources are known.", size.columns)
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
