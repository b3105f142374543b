"""The state after a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_exporters.frames.model import Key, NodeState, Size, State


def press(state: State, key: Key | str, size: Size) -> State:
    """The state after that key or character; a page is as long as the terminal lets it be."""
    return replace(state, is_over=True) if key == "q" and size.rows else state


def fed(state: State, nodes: Sequence[NodeState]) -> State:
    """The state with newer nodes; a paused one keeps its own."""
    return state if state.is_paused else replace(state, nodes=tuple(nodes))
