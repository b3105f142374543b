"""Builds the frame of a state: the header, the view and the footer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import (
    Tile,
    Trouble,
    inventory,
    maintenance_note,
    node_tiles,
    replay_note,
    simulation_note,
    source_condition,
    troubles,
)
from telemetry_exporters.judgement.verdict import Severity
from telemetry_exporters.terminal.frames import card, cards, lists
from telemetry_exporters.terminal.frames.lines import (
    Body,
    body_of_lines,
    cut_line,
    join_fitting,
    left_and_right,
    time_of_day,
    wrap_parts,
    wrapped,
)
from telemetry_exporters.terminal.frames.model import (
    Frame,
    Line,
    NodeContent,
    Piece,
    Scene,
    Size,
    State,
    View,
    chosen_scene,
    newest_slot_time,
    scene_at,
)
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import clean, display_width, first_names
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.past import SLOT_SECONDS

# The headings, three lines of the view, and two lines of the footer.
_MIN_ROWS_BELOW_HEADER = 6
_SHORT_LABELS = {"Devices up": "up", "Memory used": "memory", "Mean utilization": "util"}
_LIST_VIEWS = frozenset({View.NODES, View.CARDS, View.PROCESSES})
_ALL_VIEWS = frozenset(View)
# The keys in the footer: (key and meaning, views with the key), the most important first.
_FOOTER_KEYS = (
    ("? help", _ALL_VIEWS - {View.HELP}),
    ("q quit", _ALL_VIEWS),
    ("Enter open", {View.NODES, View.CARDS}),
    ("Esc back", {View.CARD, View.PROCESSES, View.SOURCES, View.HELP}),
    ("← → past", {View.NODES, View.CARDS, View.CARD}),
    ("m metric", {View.CARD}),
    ("/ filter", _LIST_VIEWS | {View.CARD}),
    ("s sort", _LIST_VIEWS),
    ("p pause", _ALL_VIEWS - {View.HELP}),
    ("Tab view", _ALL_VIEWS - {View.HELP}),
    ("r reverse", _LIST_VIEWS),
)
_PROMPT = "filter: "
_KEY_WIDTH = 13
# The keys in the help: (keys, meaning). No key changes a card or ends a process.
HELP = (
    ("↑ ↓", "choose a line, or scroll"),
    ("PgUp PgDn", "move by a page"),
    ("Home End", "go to the first or the last line"),
    ("Enter", "open the node or card"),
    ("Esc", "clear the filter, then go back"),
    ("1 2 3 4 5", "nodes, cards, one card, processes, sources"),
    ("Tab", "open the next view; Shift Tab: the previous view"),
    ("/", "show only lines with the words that you type; Enter keeps the filter, Esc clears it"),
    ("s S", "sort by the next or the previous column, or show the worst first"),
    ("t w g u", "sort by temperature, power (watts), memory (GiB), utilization; press again to reverse the order"),
    ("o c d", "sort by owner, by CPU (only processes), or show the worst first"),
    ("r", "reverse the order"),
    ("← →", "go back or forward by 5 seconds within the last 30 minutes; also: < and >"),
    ("[ ]", "go back or forward by 1 minute; also: Shift ← and Shift →"),
    ("n", "return to the present"),
    ("m M", "one card: show the next or the previous metric in the chart"),
    ("P", "cards: show or hide the processes below the cards"),
    ("p Space", "pause the display, and the recording if there is one"),
    (", .", "recording: go back or forward by 10 seconds; { and }: by a minute"),
    ("- +", "recording: halve or double the speed"),
    ("?", "this help"),
    ("q", "quit"),
)
_NARROW_COLUMNS, _WIDE_COLUMNS = 60, 80
# Only a terminal with this many rows shows the host and the worst problems above the cards.
_TALL_ROWS, _MAX_TROUBLES = 20, 3
_LOADS = ("telemetry_host_load1", "telemetry_host_load5", "telemetry_host_load15")


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the shown readings, such as a warning that they are old."""

    text: str
    style: Style = Style.WARNING


def header(state: State, size: Size) -> list[Line]:
    """Return the lines above the view: the title, notes, totals, and problems if there is room."""
    scenes = _shown_scenes(state)
    lines = [_first_line(state, scenes, size)]
    lines += [line for note in _warning_notes(state, scenes) for line in wrapped(note.text, size.columns, note.style)]
    is_home = state.view is View.CARDS and state.past_time is None and size.rows >= _TALL_ROWS
    notes = [*(() if is_home else _failing_source_notes(state, scenes)), *_maintenance_notes(state, scenes)]
    lines += [line for note in notes for line in wrapped(note.text, size.columns, note.style)]
    lines += _total_lines(state, scenes, size)
    if is_home:
        lines += [*_host_lines(scenes, size), *_trouble_lines(scenes, size)]
    limit = max(1, size.rows - _MIN_ROWS_BELOW_HEADER)
    if len(lines) <= limit:
        return lines
    note = Piece(f"▼ {len(lines) - limit + 1} lines need a taller terminal", Style.DIM)
    return [*lines[: max(1, limit - 1)], (note,)][:limit]


def _shown_scenes(state: State) -> Sequence[Scene]:
    if state.view is View.NODES:
        return [scene_at(node, state.past_time) for node in state.nodes]
    scene = chosen_scene(state)
    return [] if scene is None else [scene]


def _first_line(state: State, scenes: Sequence[Scene], size: Size) -> Line:
    texts = [_subject_text(state, scenes), clean(state.title)]
    if state.view is not View.NODES and state.past_time is None and scenes and scenes[0].content is not None:
        texts.append(inventory(scenes[0].content.snapshot))
    subject, *others = filter(None, texts)
    pieces = (Piece(subject, Style.BOLD), *(Piece(", " + text) for text in others))
    return left_and_right(pieces, (Piece(_time_text(state, scenes, size), Style.BOLD),), size.columns)


def _subject_text(state: State, scenes: Sequence[Scene]) -> str:
    if state.view is View.NODES:
        return "1 node" if len(state.nodes) == 1 else f"{len(state.nodes)} nodes"
    if not scenes:
        return "telemetry top"
    content = scenes[0].content
    return clean(scenes[0].node.name) or (content.snapshot.hostname if content else "") or "this node"


def _time_text(state: State, scenes: Sequence[Scene], size: Size) -> str:
    times = [scene.content.snapshot.wall_time for scene in scenes if scene.content is not None]
    if state.past_time is None and not times:
        return ""
    shown_time = max(times) if state.past_time is None else state.past_time
    text = human.utc(shown_time) if size.columns >= _WIDE_COLUMNS else f"{time_of_day(shown_time)} UTC"
    return text if state.past_time is None else f"PAST {text}"


def _total_lines(state: State, scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    tiles = node_tiles([scene.figures for scene in scenes])
    # The first tile is omitted for the past, because the history does not contain the number of devices up.
    labels = _SHORT_LABELS if size.columns < _NARROW_COLUMNS else {}
    tile_texts = [_tile_text(tile, labels) for tile in (tiles if state.past_time is None else tiles[1:])]
    for line in wrap_parts(tile_texts, size.columns):
        yield (Piece(line),)


def _host_lines(scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    for scene in scenes:
        readings = () if scene.content is None or scene.is_old else scene.content.snapshot.host
        host = {reading.metric: reading.value for reading in readings if not isinstance(reading.value, Absent)}
        cpu, used, total = (
            host.get(f"telemetry_host_{name}")
            for name in ("cpu_utilization_ratio", "memory_used_bytes", "memory_total_bytes")
        )
        loads = [human.number_text(host[name]) for name in _LOADS if name in host]
        figures = [] if cpu is None else [f"CPU {human.percent(cpu)}"]
        figures += [] if used is None or total is None else [f"memory {human.byte_pair(used, total)}"]
        figures += [f"load {' '.join(loads)}"] if loads else []
        if figures:
            yield (Piece(join_fitting(["host", *figures], size.columns, "   ")),)


def _tile_text(tile: Tile, labels: Mapping[str, str]) -> str:
    note = tile.note if tile.note.startswith("of ") or not tile.note else f"({tile.note})"
    return " ".join(filter(None, (labels.get(tile.label, tile.label.lower()), tile.value, note)))


def _warning_notes(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    if state.past_time is not None:
        yield Note(_past_note(state, state.past_time))
    if state.is_paused:
        yield Note("Paused: the display does not change. Press p to continue.")
    if state.view is View.NODES:
        silent = [scene for scene in scenes if scene.is_old or (scene.content is None and scene.node.trouble)]
        if silent and state.past_time is None:
            yield Note(f"{len(silent)} of {len(scenes)} nodes do not answer.", Style.BAD)
        yield from _most_frequent_note(scenes)
        return
    for scene in scenes:
        if state.past_time is None:
            yield from _age_notes(scene)
        if scene.content is not None:
            notes = (simulation_note(scene.content.snapshot), replay_note(scene.content.snapshot))
            yield from (Note(note) for note in notes if note)


def _most_frequent_note(scenes: Sequence[Scene]) -> Iterator[Note]:
    """Yield the note that applies to most nodes, with the names of these nodes."""
    nodes_by_note: dict[str, list[str]] = {}
    for scene in scenes:
        for note in scene.content.notes if scene.content is not None else ():
            nodes_by_note.setdefault(note, []).append(clean(scene.node.name))
    for note, names in sorted(nodes_by_note.items(), key=lambda item: -len(item[1]))[:1]:
        where = f" On {len(names)} of {len(scenes)} nodes: {first_names(names, ', ', 3)}."
        other_nodes = sorted(set().union(*nodes_by_note.values()) - set(names))
        others = f" Nodes with other notes: {first_names(other_nodes, ', ', 3)}." if other_nodes else ""
        yield Note(note if len(names) == len(scenes) else note + where + others)


def _past_note(state: State, past_time: float) -> str:
    newest_time = newest_slot_time(state)
    ago = (
        "" if newest_time is None else f", {human.seconds(round(max(0.0, newest_time + SLOT_SECONDS - past_time)))} ago"
    )
    return f"PAST{ago}. Press n to return"


def _age_notes(scene: Scene) -> Iterator[Note]:
    if scene.content is None or (not scene.node.trouble and not scene.is_old):
        return
    age = human.seconds(round(scene.node.age_seconds or 0.0))
    subject = "The values are no longer valid" if scene.is_old else "The newest values"
    why = f": {clean(scene.node.trouble)}" if scene.node.trouble else ""
    yield Note(f"{subject}, {age} old{why}", Style.BAD if scene.is_old else Style.WARNING)


def _all_troubles(content: NodeContent) -> tuple[Trouble, ...]:
    return tuple(troubles(content.snapshot, {row.device.id: row.findings for row in content.rows}))


def _trouble_lines(scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    for scene in scenes:
        all_troubles = () if scene.content is None else scene.node.cache.get(_all_troubles, scene.content)
        shown_troubles = all_troubles if len(all_troubles) == _MAX_TROUBLES + 1 else all_troubles[:_MAX_TROUBLES]
        for trouble in shown_troubles:
            yield cut_line((Piece(f"✗ {trouble.what}", Style.BAD), Piece(f": {trouble.why}")), size.columns)
        if len(all_troubles) > len(shown_troubles):
            yield (Piece(f"and {len(all_troubles) - len(shown_troubles)} more troubles", Style.DIM),)


def _failing_source_notes(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    """Yield a note for each node with failing sources."""
    if state.view in (View.NODES, View.SOURCES) or state.past_time is not None:
        return
    for scene in scenes:
        sources = () if scene.content is None else scene.content.snapshot.sources
        failing = [source for source in sources if source_condition(source).severity is Severity.BAD]
        if failing:
            more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
            yield Note(f"✗ {failing[0].source}: {source_condition(failing[0]).word}{more} (5: sources)", Style.BAD)


def _maintenance_notes(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    if state.view is not View.NODES and state.past_time is None:
        notes = (maintenance_note(scene.content.snapshot) for scene in scenes if scene.content is not None)
        yield from (Note(note) for note in notes if note)


def footer(state: State, size: Size, above: int = 0, below: int = 0) -> list[Line]:
    """Return the lines below the view: the filter, the keys, and the numbers of hidden lines."""
    counts = " ".join(f"{arrow} {count}" for arrow, count in (("▲", above), ("▼", below)) if count)
    hidden_counts = (Piece(f"{counts} more", Style.BOLD),) if counts else ()
    key_width = size.columns - sum(display_width(piece.text) + 1 for piece in hidden_counts)
    keys = join_fitting([text for text, views in _FOOTER_KEYS if state.view in views], key_width, "  ")
    key_line = left_and_right((Piece(keys, Style.DIM),), hidden_counts, size.columns)
    return [*_filter_lines(state, size), key_line]


def _filter_lines(state: State, size: Size) -> Sequence[Line]:
    """Return a line with the filter and the sort order, if they are not the defaults."""
    options = state.options
    width = max(0, size.columns - len(_PROMPT) - 1)
    if state.is_typing:
        return [(Piece(_PROMPT, Style.BOLD), Piece(_fitting_end(options.filter, width)))]
    phrases = [_PROMPT + options.filter] if options.filter else []
    if options.sort:
        phrases.append(f"by {options.sort}{', reversed' if options.is_reversed else ''}")
    elif options.is_reversed:
        phrases.append("best first")
    return [(Piece("   ".join(phrases), Style.WARNING),)] if phrases else []


def _cursor_column(state: State, size: Size) -> int:
    """Return the cursor's column while the user types a filter."""
    width = max(0, size.columns - len(_PROMPT) - 1)
    return min(len(_PROMPT) + display_width(_fitting_end(state.options.filter, width)), max(0, size.columns - 1))


def _fitting_end(text: str, width: int) -> str:
    while display_width(text) > width:
        text = text[1:]
    return text


def _help_page(_: State, size: Size) -> Body:
    indent = " " * (_KEY_WIDTH + 1)
    lines = [line for key, text in HELP for line in wrapped(f"{key:<{_KEY_WIDTH}} {text}", size.columns, indent=indent)]
    return body_of_lines(lines)


VIEWS: Mapping[View, Callable[[State, Size], Body]] = {
    View.NODES: lists.node_list,
    View.CARDS: cards.body,
    View.CARD: card.body,
    View.PROCESSES: lists.process_list,
    View.SOURCES: lists.source_list,
    View.HELP: _help_page,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The division of a screen into header, view and footer."""

    header: list[Line]
    body: Body
    view_rows: int
    first: int  # the index of the first visible line of the body


def layout(state: State, size: Size) -> Layout:
    """Divide a screen of this size into header, view and footer."""
    body = VIEWS[state.view](state, size)
    header_lines = header(state, size)
    view_rows = max(1, size.rows - len(header_lines) - body.heading_count - len(footer(state, size)))
    return Layout(header_lines, body, view_rows, body.first_visible(state.options.scroll, view_rows))


def frame(state: State, size: Size) -> Frame:
    """Return the frame for a terminal of this size."""
    screen = layout(state, size)
    body = screen.body
    end = min(screen.first + screen.view_rows, body.count)
    footer_lines = footer(state, size, screen.first, body.count - end)
    lines = [*screen.header, *body.render(screen.first, end)]
    if state.view is View.CARDS and state.shows_processes:
        lines += lists.process_pane(state, Size(size.columns, screen.view_rows - (end - screen.first)))
    lines += [()] * (size.rows - len(lines) - len(footer_lines))
    lines = [_displayable_line(line, state, size.columns) for line in (*lines, *footer_lines)][: size.rows]
    chosen_row = None if body.chosen is None else len(screen.header) + body.heading_count + body.chosen - screen.first
    filter_row = len(lines) - len(footer_lines)
    cursor = (filter_row, _cursor_column(state, size)) if state.is_typing and filter_row >= 0 else None
    return Frame(tuple(lines), cursor, chosen_row if chosen_row is not None and chosen_row < len(lines) else None)


def _displayable_line(line: Line, state: State, width: int) -> Line:
    pieces = cut_line(tuple(Piece(clean(piece.text), piece.style) for piece in line), width)
    if not state.glyphs.is_ascii:
        return pieces
    return tuple(Piece(state.glyphs.displayable(piece.text), piece.style) for piece in pieces)
