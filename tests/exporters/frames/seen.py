"""The visible lines of a state, and the state after keys."""

from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.keys import press


def lines_of(state, size):
    return ["".join(piece.text for piece in line).rstrip() for line in frame(state, size).lines]


def after(state, *keys, size):
    for key in keys:
        state = press(state, key, size)
    return state
