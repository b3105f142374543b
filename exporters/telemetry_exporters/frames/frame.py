"""The frame of a state."""

from __future__ import annotations

from telemetry_exporters.frames.model import Frame, Piece, Size, State
from telemetry_exporters.text import cut


def frame(state: State, size: Size) -> Frame:
    """What the terminal of that size shows."""
    lines = [node.name for node in state.nodes][: size.rows]
    lines += [""] * (size.rows - len(lines))
    return Frame(tuple((Piece(cut(line, size.columns)),) for line in lines))
