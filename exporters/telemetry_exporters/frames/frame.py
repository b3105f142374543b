"""The frame of a state: header, as much of the view as there is room for, footer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from telemetry_exporters.frames import card, cards, help_page, nodes, processes, sources
from telemetry_exporters.frames.body import Body
from telemetry_exporters.frames.footer import Hidden, cursor_column, footer
from telemetry_exporters.frames.header import header
from telemetry_exporters.frames.lines import clipped
from telemetry_exporters.frames.model import Frame, Line, Piece, Size, State, View
from telemetry_exporters.text import clean

VIEWS: Mapping[View, Callable[[State, Size], Body]] = {
    View.NODES: nodes.body,
    View.CARDS: cards.body,
    View.CARD: card.body,
    View.PROCESSES: processes.body,
    View.SOURCES: sources.body,
    View.HELP: help_page.body,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How the screen is divided: `room` is the number of the view's lines that fit, `first` the first of them."""

    above: list[Line]
    body: Body
    room: int
    first: int


def layout(state: State, size: Size) -> Layout:
    """How a screen of that size is divided."""
    body = VIEWS[state.view](state, size)
    above = header(state, size)
    room = max(1, size.rows - len(above) - body.heads - len(footer(state, size, Hidden())))
    return Layout(above, body, room, body.first(state.look.scroll, room))


def frame(state: State, size: Size) -> Frame:
    """What the terminal of that size shows."""
    found = layout(state, size)
    body = found.body
    last = min(found.first + found.room, body.count)
    below = footer(state, size, Hidden(found.first, body.count - last))
    lines = [*found.above, *body.make(found.first, last)]
    lines += [()] * (size.rows - len(lines) - len(below))
    lines = [_painted(line, state, size.columns) for line in (*lines, *below)][: size.rows]
    selected = None if body.chosen is None else len(found.above) + body.heads + body.chosen - found.first
    typed = len(lines) - len(below)
    cursor = (typed, cursor_column(state, size)) if state.is_typing and typed >= 0 else None
    return Frame(tuple(lines), cursor, selected if selected is not None and selected < len(lines) else None)


def _painted(line: Line, state: State, width: int) -> Line:
    """The line with nothing in it that moves a cursor, cut to the width."""
    pieces = clipped(tuple(Piece(clean(piece.text), piece.style) for piece in line), width)
    if not state.glyphs.is_ascii:
        return pieces
    return tuple(Piece(state.glyphs.plain(piece.text), piece.style) for piece in pieces)
