"""The lines above a view: which node, which time, its figures, and what must be known before a number is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from telemetry_exporters import human
from telemetry_exporters.frames.lines import spread, time_of_day, wrapped, wrapped_parts
from telemetry_exporters.frames.model import Line, Piece, Size, State, View
from telemetry_exporters.frames.scene import Scene, chosen_scene, latest, scene
from telemetry_exporters.overview import (
    Tile,
    inventory,
    maintenance_note,
    replay_note,
    simulation_note,
    source_condition,
    tiles_of,
)
from telemetry_exporters.past import SLOT_SECONDS
from telemetry_exporters.style import Style
from telemetry_exporters.text import clean
from telemetry_exporters.verdict import Severity

# What the view has at least below the header: headings, three lines, and two of the footer.
_BELOW = 6
_NARROW, _WIDE = 60, 80
_SHORT = {"Devices up": "up", "Memory used": "memory", "Mean utilization": "util"}


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about what is shown."""

    text: str
    style: Style = Style.WARNING


def header(state: State, size: Size) -> list[Line]:
    """The lines above the view; where there are too many, the last one says how many are missing."""
    scenes = scenes_of(state)
    lines = [_first_line(state, scenes, size)]
    lines += [line for note in _urgent(state, scenes) for line in wrapped(note.text, size.columns, note.style)]
    lines += [line for note in _further(state, scenes) for line in wrapped(note.text, size.columns, note.style)]
    lines += _totals(state, scenes, size)
    most = max(1, size.rows - _BELOW)
    if len(lines) <= most:
        return lines
    note = Piece(f"▼ {len(lines) - most + 1} more lines in a higher terminal", Style.DIM)
    return [*lines[: max(1, most - 1)], (note,)][:most]


def scenes_of(state: State) -> Sequence[Scene]:
    """The nodes that the view is about."""
    if state.view is View.NODES:
        return [scene(node, state.moment) for node in state.nodes]
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
    times = [one.seen.snapshot.wall_time for one in scenes if one.seen is not None]
    if state.moment is None and not times:
        return ""
    shown = max(times) if state.moment is None else state.moment
    text = human.utc(shown) if size.columns >= _WIDE else f"{time_of_day(shown)} UTC"
    return text if state.moment is None else f"PAST {text}"


def _totals(state: State, scenes: Sequence[Scene], size: Size) -> Iterator[Line]:
    found = tiles_of([one.figures for one in scenes])
    # Of the past nobody knows which devices were up.
    labels = _SHORT if size.columns < _NARROW else {}
    words = [_tile_text(tile, labels) for tile in (found if state.moment is None else found[1:])]
    for line in wrapped_parts(words, size.columns):
        yield (Piece(line),)


def _tile_text(tile: Tile, labels: Mapping[str, str]) -> str:
    note = tile.note if tile.note.startswith("of ") or not tile.note else f"({tile.note})"
    return " ".join(filter(None, (labels.get(tile.label, tile.label.lower()), tile.value, note)))


def _urgent(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    """What says that the numbers are not those of now, or not real."""
    if state.moment is not None:
        yield Note(_past_note(state, state.moment))
    if state.is_paused:
        yield Note("Paused: nothing new is shown. p: go on")
    if state.view is View.NODES:
        silent = [one for one in scenes if one.is_old or (one.seen is None and one.node.trouble)]
        if silent and state.moment is None:
            yield Note(f"{len(silent)} of {len(scenes)} nodes do not answer.", Style.BAD)
        yield from _unreal(scenes)
        return
    for one in scenes:
        if state.moment is None:
            yield from _silence(one)
        if one.seen is not None:
            told = (simulation_note(one.seen.snapshot), replay_note(one.seen.snapshot))
            yield from (Note(note) for note in told if note)


def _unreal(scenes: Sequence[Scene]) -> Iterator[Note]:
    """What is not real or not of now on some nodes, each thing once."""
    told = Counter(note for one in scenes if one.seen is not None for note in one.seen.notes)
    for note, count in told.most_common(1):
        nodes = sum(1 for one in scenes if one.seen is not None and one.seen.notes)
        yield Note(note if nodes == count == len(scenes) else f"{nodes} of {len(scenes)} nodes: {note}")


def _past_note(state: State, moment: float) -> str:
    newest = latest(state)
    ago = "" if newest is None else f", {human.seconds(round(max(0.0, newest + SLOT_SECONDS - moment)))} back"
    return f"PAST{ago}. n: back to now"


def _silence(one: Scene) -> Iterator[Note]:
    if one.seen is None or (not one.node.trouble and not one.is_old):
        return
    age = human.seconds(round(one.node.age_seconds or 0.0))
    what = "The values are no longer valid" if one.is_old else "The newest values"
    why = f": {clean(one.node.trouble)}" if one.node.trouble else ""
    yield Note(f"{what}, {age} old{why}", Style.BAD if one.is_old else Style.WARNING)


def _further(state: State, scenes: Sequence[Scene]) -> Iterator[Note]:
    """What is wrong with the sources just now, and whether somebody works on the node."""
    if state.view is View.NODES or state.moment is not None:
        return
    for one in scenes:
        if one.seen is None:
            continue
        bad = [source for source in one.seen.snapshot.sources if source_condition(source).severity is Severity.BAD]
        if bad and state.view is not View.SOURCES:
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            yield Note(f"✗ {bad[0].source}: {source_condition(bad[0]).word}{more} (5: sources)", Style.BAD)
        if note := maintenance_note(one.seen.snapshot):
            yield Note(note)
