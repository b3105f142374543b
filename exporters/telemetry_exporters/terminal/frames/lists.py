"""Lists of nodes, processes and sources in `telemetry top`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import Figures, inventory, source_condition
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.terminal.columns import (
    FIRST_OPTIONAL,
    SEVERITY_STYLES,
    Cell,
    Column,
    condition_column,
    name_column,
    number_column,
    text_cell,
    text_column,
)
from telemetry_exporters.terminal.frames.cards import SEVERITY_RANKS
from telemetry_exporters.terminal.frames.lines import Body, body_of_lines, message_body, wrapped
from telemetry_exporters.terminal.frames.listing import Listing
from telemetry_exporters.terminal.frames.model import (
    NOT_KEPT,
    Line,
    NodeContent,
    Piece,
    RunningProcess,
    Scene,
    Size,
    State,
    ViewOptions,
    chosen_scene,
    scene_at,
)
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import cut, display_width, pad_right
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Health, MergedDevice, Process, SourceStatus

# Indices in `Figures.values`.
_TEMPERATURE, _POWER, _MEMORY, _UTILIZATION = range(4)
_SERIOUS_SEVERITIES = (Severity.BAD, Severity.WARNING)
_MAX_NAME_LENGTH = 24
# The pane has at least a blank line, the title, the headings and one process.
_MIN_PANE_ROWS = 4
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of the node list."""

    scene: Scene
    condition: Finding
    figures: Figures

    @property
    def is_silent(self) -> bool:
        """Return whether the node does not answer."""
        return self.scene.past_slot is None and (bool(self.scene.node.trouble) or self.scene.is_old)


def _node_condition(scene: Scene) -> Finding:
    node = scene.node
    if scene.past_slot is not None:
        return NOT_KEPT
    if node.trouble and node.age_seconds is None:
        return Finding(node.trouble, Severity.BAD)
    if node.trouble or scene.is_old:
        age = "" if node.age_seconds is None else f" for {human.seconds(round(node.age_seconds))}"
        return Finding(f"no answer{age}" + (f": {node.trouble}" if node.trouble else ""), Severity.BAD)
    if scene.content is None:
        return Finding("waiting", Severity.QUIET)
    return node.cache.get(_worst_finding, scene.content)


def _worst_finding(content: NodeContent) -> Finding:
    for severity in _SERIOUS_SEVERITIES:
        conditions = [row.condition for row in content.rows if row.condition.severity is severity]
        if conditions:
            count = f", {len(conditions)} of {len(content.rows)} cards" if len(content.rows) > 1 else ""
            return Finding(conditions[0].word + count, severity)
        for status in content.snapshot.sources:
            condition = source_condition(status)
            if condition.severity is severity:
                return Finding(f"{status.source}: {condition.word}", Severity.WARNING)
    if not content.rows:
        return Finding("no devices", Severity.QUIET)
    return min((row.condition for row in content.rows), key=lambda condition: condition.severity is not Severity.GOOD)


def _combiner(index: int, combine: Callable[[tuple[float, ...]], float]) -> Callable[[NodeRow], float | None]:
    """Return a function that combines the values of a node's cards. `index` is their index in `Figures.values`."""

    def combined_value(row: NodeRow) -> float | None:
        values = row.figures.values[index]
        return combine(values) if values else None

    return combined_value


def _card_count_cell(row: NodeRow) -> Cell:
    count, up_count = row.figures.whole_count, row.figures.up_count
    if row.scene.past_slot is not None or not count:
        return text_cell(str(count) if count else "")
    return Cell(str(count) if up_count == count else f"{up_count} / {count}")


def _model_counts(row: NodeRow) -> str:
    return "" if row.scene.content is None or row.scene.past_slot is not None else inventory(row.scene.content.snapshot)


_NODE_LISTING: Listing[NodeRow] = Listing(
    (
        name_column("NODE", lambda row: row.scene.node.name, 0),
        Column("CARDS", _card_count_cell, lambda row: float(row.figures.whole_count), 6, usual_width=3),
        number_column("TEMP", _combiner(_TEMPERATURE, max), human.celsius, 2, 6, has_history=True),
        number_column("POWER", _combiner(_POWER, sum), human.watts, 4, 7, has_history=True),
        number_column("MEMORY", _combiner(_MEMORY, sum), human.byte_size, 5, 8, has_history=True),
        number_column(
            "UTIL",
            _combiner(_UTILIZATION, lambda values: sum(values) / len(values)),
            human.percent,
            3,
            5,
            has_history=True,
        ),
        condition_column(lambda row: row.condition, 1),
        text_column("MODELS", _model_counts, 8, 12),
    ),
    lambda row: row.scene.node.name,
    lambda row: f"{row.scene.node.name} {row.condition.word} {_model_counts(row)}",
    lambda row: -1 if row.is_silent else SEVERITY_RANKS[row.condition.severity],
    lambda row: Style.BAD if row.is_silent else Style.PLAIN,
)


def node_list(state: State, size: Size) -> Body:
    """Return a view of all nodes, or a message if no node is known yet."""
    if not state.nodes:
        return message_body("No node is known yet.", size.columns)
    scenes = (scene_at(node, state.past_time) for node in state.nodes)
    rows = (NodeRow(scene, _node_condition(scene), scene.figures) for scene in scenes)
    return _NODE_LISTING.body(rows, state.options, state.node, size.columns, state.glyphs)


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a card, with the kernel's data about the process."""

    device: MergedDevice
    process: Process
    running: RunningProcess | None
    now: float

    @property
    def card(self) -> str:
        """Return the vendor and the `device` label of the card."""
        return f"{self.device.vendor} {self.device.device}"


def _command(row: ProcessRow) -> str:
    """Return the command line if it is known, otherwise the program if it differs from the process name."""
    process = row.process
    if row.running is not None and row.running.command_line:
        return row.running.command_line
    return process.command if process.command != process.name else ""


def _cpu_ratio(row: ProcessRow) -> float | None:
    return None if row.running is None else row.running.cpu_ratio


def _run_seconds(row: ProcessRow) -> float | None:
    started = row.process.started
    return None if started is None or not human.is_valid_time(started) else max(0.0, float(round(row.now - started)))


_PROCESS_COLUMNS: tuple[Column[ProcessRow], ...] = (
    Column("PID", lambda row: Cell(str(row.process.pid)), lambda row: float(row.process.pid), 0, usual_width=7),
    text_column("USER", lambda row: cut(row.process.user, _MAX_NAME_LENGTH), FIRST_OPTIONAL, 6),
    text_column("OWNER", lambda row: human.process_owner_text(row.process), FIRST_OPTIONAL + 1, 18),
    name_column("CARD", lambda row: row.card, 2),
    number_column("MEMORY", lambda row: row.process.memory_used_bytes, human.byte_size, 1, 8),
    number_column("%GPU", lambda row: row.process.utilization_ratio, human.percent, FIRST_OPTIONAL + 2, 5),
    number_column("%CPU", _cpu_ratio, human.percent, FIRST_OPTIONAL + 3, 6),
    number_column("TIME", _run_seconds, human.seconds, FIRST_OPTIONAL + 4, 8),
    text_column("NAME", lambda row: cut(row.process.name, _MAX_NAME_LENGTH), 3, 6),
    text_column("COMMAND", _command, FIRST_OPTIONAL + 5, 12),
)


def _search_text(row: ProcessRow) -> str:
    process = row.process
    owner = process.owner
    account = "" if owner is None else f"{owner.name} {owner.account}"
    texts = (process.name, process.command, process.user, human.process_owner_text(process), account, process.container)
    return " ".join(filter(None, (str(process.pid), *texts, _command(row), row.card, row.device.model, row.device.id)))


def _process_listing(scene: Scene) -> Listing[ProcessRow]:
    return Listing(
        _PROCESS_COLUMNS,
        lambda row: f"{row.device.id} {row.process.pid}",
        _search_text,
        lambda _: 0,
        lambda _: Style.DIM if scene.is_old else Style.PLAIN,
    )


def process_list(state: State, size: Size) -> Body:
    """Return a view of the chosen node's processes, or a message if there are none."""
    scene = chosen_scene(state)
    if scene is None or scene.content is None:
        return message_body("No node has answered yet.", size.columns)
    if scene.past_slot is not None:
        return message_body("Past processes are not stored. Press n to return to the present.", size.columns)
    if not any(row.device.processes for row in scene.rows):
        return message_body("No processes reported.", size.columns)
    return _process_listing(scene).body(_process_rows(scene), state.options, None, size.columns, state.glyphs)


def process_pane(state: State, size: Size) -> list[Line]:
    """Return lines with the processes that use the most memory, as many as fit below the cards."""
    scene = chosen_scene(state)
    if scene is None or scene.content is None or size.rows < _MIN_PANE_ROWS:
        return []
    body = _process_listing(scene).body(
        _process_rows(scene), ViewOptions(state.options.filter), None, size.columns, state.glyphs
    )
    if not body.count:
        return []
    shown_count = min(body.count, size.rows - _MIN_PANE_ROWS + 1)
    count_text = str(shown_count) if shown_count == body.count else f"{shown_count} of {body.count}"
    title = f"processes: {count_text}   4: all   P: hide"
    return [(), (Piece(title, Style.DIM),), *body.render(0, shown_count)]


def _process_rows(scene: Scene) -> list[ProcessRow]:
    now = scene.content.snapshot.wall_time if scene.content else 0.0
    rows = [
        ProcessRow(device_row.device, process, scene.node.running.get(process.pid), now)
        for device_row in scene.rows
        for process in device_row.device.processes
    ]
    return sorted(rows, key=lambda row: -(row.process.memory_used_bytes or 0.0))


def source_list(state: State, size: Size) -> Body:
    """Return a view of the chosen node's sources, the failing sources first."""
    scene = chosen_scene(state)
    if scene is None or scene.content is None:
        return message_body("No node has answered yet.", size.columns)
    if scene.past_slot is not None:
        return message_body("Past states of sources are not stored. Press n to return to the present.", size.columns)
    snapshot = scene.content.snapshot
    if not snapshot.sources:
        return message_body("No sources are known.", size.columns)
    name_width = max(display_width(status.source) for status in snapshot.sources)
    ordered = sorted(snapshot.sources, key=lambda status: SEVERITY_RANKS[source_condition(status).severity])
    lines = [
        line
        for status in ordered
        for line in _source_lines(status, min(name_width, size.columns // 3), snapshot.monotonic_time, size.columns)
    ]
    return body_of_lines(lines)


def _source_lines(status: SourceStatus, name_width: int, now: float, width: int) -> Iterator[Line]:
    condition = source_condition(status)
    name = Piece(pad_right(status.source, name_width) + "  ", Style.BOLD)
    version = (Piece(f"  {status.version}"),) if status.version else ()
    yield (name, Piece(condition.word, SEVERITY_STYLES[condition.severity]), *version)
    texts = [(text, Style.BAD) for text in (status.detail, condition.remedy and f"→ {condition.remedy}") if text]
    texts += [(_poll_text(poll, now), Style.PLAIN) for poll in status.polls]
    texts += [(f"{problem.where}: {problem.text}", Style.WARNING) for problem in status.problems]
    if status.unknown_fields:
        texts.append((f"{len(status.unknown_fields)} unknown fields", Style.DIM))
    for text, style in texts:
        yield from wrapped(text, width, style, _INDENT * 2, _INDENT)


def _poll_text(health: Health, now: float) -> str:
    state = f"{health.state}: {health.reason}" if health.reason else health.state
    if not health.attempted:
        return f"{health.poll}: {state}, not tried yet".replace("_", " ")
    age = human.seconds(max(0.0, round(now - health.attempted_monotonic, 1)))
    return f"{health.poll}: {state}, took {human.seconds(health.seconds)}, {age} ago".replace("_", " ")
