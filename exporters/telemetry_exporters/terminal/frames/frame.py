"""The frame of a state: header, the part of the view that fits, footer."""

from __future__ import annotations

from collections import Counter
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
    clipped,
    of_lines,
    parts_that_fit,
    spread,
    time_of_day,
    wrapped,
    wrapped_parts,
)
from telemetry_exporters.terminal.frames.model import (
    Frame,
    Line,
    Piece,
    Scene,
    Seen,
    Size,
    State,
    View,
    chosen_scene,
    latest,
    scene_at,
)
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import clean, display_width
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.past import SLOT_SECONDS

# The least lines below the header: headings, three lines of the view, and two of the footer.
_BELOW = 6
_SHORT = {"Devices up": "up", "Memory used": "memory", "Mean utilization": "util"}
_LISTS = frozenset({View.NODES, View.CARDS, View.PROCESSES})
_EVERY = frozenset(View)
# The line of keys, the most important first, with the views that have them.
_KEYS = (
    ("? help", _EVERY - {View.HELP}),
    ("q quit", _EVERY),
    ("Enter open", {View.NODES, View.CARDS}),
    ("Esc back", {View.CARD, View.PROCESSES, View.SOURCES, View.HELP}),
    ("← → past", {View.NODES, View.CARDS, View.CARD}),
    ("m metric", {View.CARD}),
    ("/ filter", _LISTS | {View.CARD}),
    ("s sort", _LISTS),
    ("p pause", _EVERY - {View.HELP}),
    ("Tab view", _EVERY - {View.HELP}),
    ("r reverse", _LISTS),
)
_PROMPT = "filter: "
_WIDEST_KEY = 13
# No key ends a process or changes a card: the program only shows.
KEYS = (
    ("↑ ↓", "choose a line, or scroll"),
    ("PgUp PgDn", "the same by a page"),
    ("Home End", "the first line, the last line"),
    ("Enter", "open the node or card"),
    ("Esc", "clear the filter, then go back"),
    ("1 2 3 4 5", "nodes, cards, one card, processes, sources"),
    ("Tab", "the next of these; Shift Tab: the one before"),
    ("/", "show only lines that have these words; Enter keeps the filter, Esc clears it"),
    ("s S", "sort by the next column, or the one before; without a column the worst come first"),
    ("t w g u", "sort by temperature, power (watts), memory (GiB), utilization; the same key again reverses the order"),
    ("o c d", "sort by owner; by CPU (processes); in the usual order, the worst first"),
    ("r", "reverse the order"),
    ("← →", "back and forth through the last 30 minutes, by 5 seconds; < and > do the same"),
    ("[ ]", "the same by a minute, as Shift ← and Shift →"),
    ("n", "back to now"),
    ("m M", "one card: the next metric of the chart, or the one before"),
    ("P", "cards: show or hide the processes below them"),
    ("p Space", "pause: nothing new is shown; a recording stands still"),
    (", .", "a recording: 10 seconds back or forth; { } by a minute"),
    ("- +", "a recording: half as fast, or twice"),
    ("?", "this help"),
    ("q", "quit"),
)
_NARROW, _WIDE = 60, 80
# Terminals with fewer rows keep their lines for the cards.
_HIGH, _MOST_TROUBLES = 20, 3
_LOADS = ("telemetry_host_load1", "telemetry_host_load5", "telemetry_host_load15")


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the readings that are shown."""

    text: str
    style: Style = Style.WARNING


def header(state: State, size: Size) -> list[Line]:
    """Return the lines above the view. If they do not fit, the last line says how many are missing."""
    scenes = _scenes_of(state)
    lines = [_first_line(state, scenes, size)]
    lines += [line for note in _urgent(state, scenes) for line in wrapped(note.text, size.columns, note.style)]
    is_home = state.view is View.CARDS and state.moment is None and size.rows >= _HIGH
    notes = [*(() if is_home else _failing_sources(state, scenes)), *_maintenance(state, scenes)]
    lines += [line for note in notes for line in wrapped(note.text, size.columns, note.style)]
    lines += _totals(state, scenes, size)
    if is_home:
        lines += [*_host(scenes, size), *_ranked(scenes, size)]
    most = max(1, size.rows - _BELOW)
    if len(lines) <= most:
        return lines
    note = Piece(f"▼ {len(lines) - most + 1} more lines in a higher terminal", Style.DIM)
    return [*lines[: max(1, most - 1)], (note,)][:most]


def _scenes_of(state: State) -> Sequence[Scene]:
    """Return the nodes that the view shows."""
    if state.view is View.NODES:
        return [scene_at(node, state.moment) for node in state.nodes]
    found = chosen_scene(state)
    return [] if found is None else [found]


def _first_line(state: State, scenes: Sequence[Scene], size: Size) -> Line:
    parts = [_subject(state, scenes), clean(state.title)]
    if state.view is not View.NODES and state.moment is None and scenes and scenes[0].seen is not None:
        parts.append(inventory(scenes[0].seen.snapshot))
    first, *rest = filter(None, parts)
    left = (Piece(first, Style.BOLD), *(Piece(", " + part) for part in rest))
    return spread(left, (Piece(_clock(state, scenes, size), Style.BOLD),), size.columns)


def _subject(state: State, scenes: Sequence[Scene]) -> str:
    if state.view is View.NODES:
        return f"{len(state.nodes)} nodes"
    if not scenes:
        return "telemetry top"
    seen = scenes[0].seen
    return clean(scenes[0].node.name) or (seen.snapshot.hostname if seen else "") or "this node"


def _clock(state: State, scenes: Sequence[Scene], size: Size) -> str:
    times = [scene.seen.snapshot.wall_time for scene in scenes if scene.seen is not None]
    if state.moment is None and not times:
        return ""
    shown = max(times) if state.moment is None else state.moment
    text = human.utc(shown) if size.columns >= _WIDE else f"{time_of_day(shown)} UTC"
    return text if state.moment is None else f"PAST {text}"


def _totals(state: State, scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    found = node_tiles([scene.figures for scene in scenes])
    # Which devices were up in the past is unknown.
    labels = _SHORT if size.columns < _NARROW else {}
    words = [_tile_text(tile, labels) for tile in (found if state.moment is None else found[1:])]
    for line in wrapped_parts(words, size.columns):
        yield (Piece(line),)


def _host(scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    """Yield the host's load, as far as its source reports it."""
    for scene in scenes:
        host = (
            {}
            if scene.seen is None or scene.is_old
            else {
                reading.metric: reading.value
                for reading in scene.seen.snapshot.host
                if not isinstance(reading.value, Absent)
            }
        )
        cpu, used, total = (
            host.get(f"telemetry_host_{name}")
            for name in ("cpu_utilization_ratio", "memory_used_bytes", "memory_total_bytes")
        )
        loads = [human.digits(host[name]) for name in _LOADS if name in host]
        words = [] if cpu is None else [f"CPU {human.percent(cpu)}"]
        words += [] if used is None or total is None else [f"memory {human.byte_pair(used, total)}"]
        words += [f"load {' '.join(loads)}"] if loads else []
        if words:
            yield (Piece(parts_that_fit(["host", *words], size.columns, "   ")),)


def _tile_text(tile: Tile, labels: Mapping[str, str]) -> str:
    note = tile.note if tile.note.startswith("of ") or not tile.note else f"({tile.note})"
    return " ".join(filter(None, (labels.get(tile.label, tile.label.lower()), tile.value, note)))


def _urgent(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    """Yield the warnings that numbers are old, paused, simulated or recorded."""
    if state.moment is not None:
        yield Note(_past_note(state, state.moment))
    if state.is_paused:
        yield Note("Paused: nothing new is shown. p: go on")
    if state.view is View.NODES:
        silent = [scene for scene in scenes if scene.is_old or (scene.seen is None and scene.node.trouble)]
        if silent and state.moment is None:
            yield Note(f"{len(silent)} of {len(scenes)} nodes do not answer.", Style.BAD)
        yield from _unreal(scenes)
        return
    for scene in scenes:
        if state.moment is None:
            yield from _silence(scene)
        if scene.seen is not None:
            notes_found = (simulation_note(scene.seen.snapshot), replay_note(scene.seen.snapshot))
            yield from (Note(note) for note in notes_found if note)


def _unreal(scenes: Sequence[Scene]) -> Iterator[Note]:
    """Yield the most frequent warning about simulated or recorded nodes, with the number of nodes."""
    notes_found = Counter(note for scene in scenes if scene.seen is not None for note in scene.seen.notes)
    for note, count in notes_found.most_common(1):
        noted = sum(1 for scene in scenes if scene.seen is not None and scene.seen.notes)
        yield Note(note if noted == count == len(scenes) else f"{noted} of {len(scenes)} nodes: {note}")


def _past_note(state: State, moment: float) -> str:
    newest = latest(state)
    ago = "" if newest is None else f", {human.seconds(round(max(0.0, newest + SLOT_SECONDS - moment)))} back"
    return f"PAST{ago}. n: back to now"


def _silence(scene: Scene) -> Iterator[Note]:
    if scene.seen is None or (not scene.node.trouble and not scene.is_old):
        return
    age = human.seconds(round(scene.node.age_seconds or 0.0))
    what = "The values are no longer valid" if scene.is_old else "The newest values"
    why = f": {clean(scene.node.trouble)}" if scene.node.trouble else ""
    yield Note(f"{what}, {age} old{why}", Style.BAD if scene.is_old else Style.WARNING)


def _troubles(seen: Seen) -> tuple[Trouble, ...]:
    return tuple(troubles(seen.snapshot, {row.device.id: row.findings for row in seen.rows}))


def _ranked(scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    """Yield one line for each trouble, worst first."""
    for scene in scenes:
        found = () if scene.seen is None else scene.node.memory.of(_troubles, scene.seen)
        shown = found if len(found) == _MOST_TROUBLES + 1 else found[:_MOST_TROUBLES]
        for trouble in shown:
            yield clipped((Piece(f"✗ {trouble.what}", Style.BAD), Piece(f": {trouble.why}")), size.columns)
        if len(found) > len(shown):
            yield (Piece(f"and {len(found) - len(shown)} more troubles", Style.DIM),)


def _failing_sources(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    """Yield the first failing source, with the number of others."""
    if state.view in (View.NODES, View.SOURCES) or state.moment is not None:
        return
    for scene in scenes:
        sources = () if scene.seen is None else scene.seen.snapshot.sources
        bad = [source for source in sources if source_condition(source).severity is Severity.BAD]
        if bad:
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            yield Note(f"✗ {bad[0].source}: {source_condition(bad[0]).word}{more} (5: sources)", Style.BAD)


def _maintenance(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    if state.view is not View.NODES and state.moment is None:
        notes = (maintenance_note(scene.seen.snapshot) for scene in scenes if scene.seen is not None)
        yield from (Note(note) for note in notes if note)


def footer(state: State, size: Size, above: int = 0, below: int = 0) -> list[Line]:
    """Return the lines below the view, with the numbers of lines out of sight above and below."""
    counts = " ".join(f"{mark} {count}" for mark, count in (("▲", above), ("▼", below)) if count)
    right = (Piece(f"{counts} more", Style.BOLD),) if counts else ()
    room = size.columns - sum(display_width(piece.text) + 1 for piece in right)
    keys = parts_that_fit([text for text, views in _KEYS if state.view in views], room, "  ")
    last = spread((Piece(keys, Style.DIM),), right, size.columns)
    return [*_status(state, size), last]


def _status(state: State, size: Size) -> Sequence[Line]:
    """Return the line with the list's filter and sorting, if there is any."""
    look = state.look
    room = max(0, size.columns - len(_PROMPT) - 1)
    if state.is_typing:
        return [(Piece(_PROMPT, Style.BOLD), Piece(_end_of(look.filter, room)))]
    parts = [_PROMPT + look.filter] if look.filter else []
    if look.sort:
        parts.append(f"by {look.sort}{', reversed' if look.is_reversed else ''}")
    elif look.is_reversed:
        parts.append("best first")
    return [(Piece("   ".join(parts), Style.WARNING),)] if parts else []


def _cursor_column(state: State, size: Size) -> int:
    """Return the column of the next character of the filter."""
    room = max(0, size.columns - len(_PROMPT) - 1)
    return min(len(_PROMPT) + display_width(_end_of(state.look.filter, room)), max(0, size.columns - 1))


def _end_of(text: str, width: int) -> str:
    while display_width(text) > width:
        text = text[1:]
    return text


def _help_page(_: State, size: Size) -> Body:
    """Return the keys with their meaning."""
    indent = " " * (_WIDEST_KEY + 1)
    lines = [
        line for key, text in KEYS for line in wrapped(f"{key:<{_WIDEST_KEY}} {text}", size.columns, indent=indent)
    ]
    return of_lines(lines)


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
    """The division of the screen: `room` lines of the view fit, beginning with the line `first`."""

    above: list[Line]
    body: Body
    room: int
    first: int


def layout(state: State, size: Size) -> Layout:
    """Return the division of a screen of that size."""
    body = VIEWS[state.view](state, size)
    above = header(state, size)
    room = max(1, size.rows - len(above) - body.heads - len(footer(state, size)))
    return Layout(above, body, room, body.first(state.look.scroll, room))


def frame(state: State, size: Size) -> Frame:
    """Return the frame for a terminal of that size."""
    found = layout(state, size)
    body = found.body
    last = min(found.first + found.room, body.count)
    below = footer(state, size, found.first, body.count - last)
    lines = [*found.above, *body.make(found.first, last)]
    if state.view is View.CARDS and state.shows_processes:
        lines += lists.process_pane(state, Size(size.columns, found.room - (last - found.first)))
    lines += [()] * (size.rows - len(lines) - len(below))
    lines = [_painted(line, state, size.columns) for line in (*lines, *below)][: size.rows]
    selected = None if body.chosen is None else len(found.above) + body.heads + body.chosen - found.first
    typed = len(lines) - len(below)
    cursor = (typed, _cursor_column(state, size)) if state.is_typing and typed >= 0 else None
    return Frame(tuple(lines), cursor, selected if selected is not None and selected < len(lines) else None)


def _painted(line: Line, state: State, width: int) -> Line:
    """Return the line cut to the width, without characters that move a cursor."""
    pieces = clipped(tuple(Piece(clean(piece.text), piece.style) for piece in line), width)
    if not state.glyphs.is_ascii:
        return pieces
    return tuple(Piece(state.glyphs.plain(piece.text), piece.style) for piece in pieces)
