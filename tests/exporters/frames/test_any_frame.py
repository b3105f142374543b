"""Frames of any state in any size always fit, accept all keys, and truncate no number."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.frames.seen import lines_of
from kits import looked_at
from kits import snapshots as kit
from telemetry_exporters.terminal.frames.drawing import ASCII, UNICODE
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.keys import press
from telemetry_exporters.terminal.frames.model import Key, NodeState, Size, State, View, ViewOptions
from telemetry_exporters.text import clean, display_width
from telemetry_parsers.past import KEPT

CHARACTERS = [*"123456?qsSr/pmMn[]<> x", "é", "卡", "\x1b", "\u202e"]
keys = st.sampled_from([*Key, *CHARACTERS])
sizes = st.builds(Size, st.integers(1, 260), st.integers(1, 70))
hostile = st.sampled_from(["", "卡" * 50, "\x1b[2J\r\n", "\u202eevil", "a" * 10_000, "e\u0301" * 60, "7" * 90])


@st.composite
def nodes(draw):
    snapshot = draw(st.none() | kit.snapshots() | st.just(looked_at.node(5).snapshot))
    past = draw(st.sampled_from([None, looked_at.past(5), looked_at.past(5, 7), looked_at.past(0, 0)]))
    age = draw(st.none() | st.floats(0, 1e6))
    return NodeState(draw(hostile | st.text(max_size=9)), snapshot, past, draw(hostile), age)


@st.composite
def states(draw):
    options_by_view = st.builds(
        ViewOptions, draw(st.just(st.sampled_from(["", "8", "nvidia 1"]))), st.sampled_from(["", "TEMP", "NODE", "STATE", "NAME", "no"]),
        st.booleans(), st.integers(0, 300),
    )  # fmt: skip
    return State(
        nodes=tuple(draw(st.lists(nodes(), max_size=3))),
        title=draw(hostile),
        view=draw(st.sampled_from(View)),
        glyphs=draw(st.sampled_from([UNICODE, ASCII])),
        node=draw(hostile),
        card=draw(st.sampled_from(["", "GPU-00000003", "no such card"])),
        metric=draw(st.sampled_from(KEPT)),
        options_by_view=draw(st.dictionaries(st.sampled_from(View), options_by_view)),
        past_time=draw(st.none() | st.floats(kit.WALL_TIME - 4000, kit.WALL_TIME + 100) | st.floats(0, 4e9)),
        is_typing=draw(st.booleans()),
        is_paused=draw(st.booleans()),
    )


def fits(shown, size, glyphs):
    lines = ["".join(piece.text for piece in line) for line in shown.lines]
    assert len(lines) == size.rows
    for line in lines:
        assert display_width(line) <= size.columns
        assert clean(line) == line
        assert line.isascii() or not glyphs.is_ascii
    assert shown.chosen_row is None or 0 <= shown.chosen_row < size.rows
    if shown.cursor is not None:
        row, column = shown.cursor
        assert 0 <= row < size.rows
        assert 0 <= column < size.columns


@settings(max_examples=40)
@given(states(), sizes)
def test_any_state_fits_any_size(state, size):
    fits(frame(state, size), size, state.glyphs)


@settings(max_examples=25)
@given(states(), st.lists(st.tuples(keys, sizes), max_size=8))
def test_any_keys_give_valid_frames(state, pressed):
    for key, size in pressed:
        state = press(state, key, size)
        fits(frame(state, size), size, state.glyphs)


@pytest.mark.parametrize("view", View)
def test_simulated_cards_are_marked_in_every_view(view):
    made_up = kit.snapshot(replace(looked_at.card(0), simulated=True))
    state = State(nodes=(NodeState("a", made_up, looked_at.past(1)), looked_at.node(1, "b")), view=view)
    for past_time in (None, kit.WALL_TIME - 60):
        text = " ".join(lines_of(replace(state, past_time=past_time), Size(80, 24)))
        assert "Simulated: these devices do not exist." in text
        assert ("do not exist. On 1 of 2 nodes: a." in text) == (view is View.NODES)
