"""The lines below a view: how it is filtered and sorted, the keys, and how much is out of sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_exporters.frames.lines import parts_that_fit, spread
from telemetry_exporters.frames.model import Line, Piece, Size, State, View
from telemetry_exporters.style import Style
from telemetry_exporters.text import display_width

_LISTS = frozenset({View.NODES, View.CARDS, View.PROCESSES})
_EVERY = frozenset(View)
# What the line of keys says, the most important first, and in which views.
_KEYS = (
    ("? help", _EVERY - {View.HELP}),
    ("q quit", _EVERY),
    ("Enter open", {View.NODES, View.CARDS}),
    ("Esc back", {View.CARD, View.PROCESSES, View.SOURCES, View.HELP}),
    ("← → past", {View.NODES, View.CARDS, View.CARD}),
    ("m metric", {View.CARD}),
    ("/ filter", _LISTS),
    ("s sort", _LISTS),
    ("p pause", _EVERY - {View.HELP}),
    ("Tab view", _EVERY - {View.HELP}),
    ("r reverse", _LISTS),
)
_PROMPT = "filter: "


@dataclass(frozen=True, slots=True)
class Hidden:
    """How many lines are out of sight, above and below."""

    above: int = 0
    below: int = 0


def footer(state: State, size: Size, hidden: Hidden) -> list[Line]:
    """The lines below the view."""
    counts = " ".join(f"{mark} {count}" for mark, count in (("▲", hidden.above), ("▼", hidden.below)) if count)
    right = (Piece(f"{counts} more", Style.BOLD),) if counts else ()
    room = size.columns - sum(display_width(piece.text) + 1 for piece in right)
    keys = parts_that_fit([text for text, views in _KEYS if state.view in views], room, "  ")
    last = spread((Piece(keys, Style.DIM),), right, size.columns)
    return [*_status(state, size), last]


def _status(state: State, size: Size) -> Sequence[Line]:
    """How the list is filtered and sorted, if it is."""
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


def cursor_column(state: State, size: Size) -> int:
    """Where the next character of the filter comes."""
    room = max(0, size.columns - len(_PROMPT) - 1)
    return min(len(_PROMPT) + display_width(_end_of(state.look.filter, room)), max(0, size.columns - 1))


def _end_of(text: str, width: int) -> str:
    while display_width(text) > width:
        text = text[1:]
    return text
