"""What the keys do."""

from __future__ import annotations

import re

import pytest

from kits import looked_at
from telemetry_exporters.frames.frame import frame
from telemetry_exporters.frames.help_page import KEYS
from telemetry_exporters.frames.keys import press
from telemetry_exporters.frames.model import Key, Size, State, View

SIZE = Size(80, 24)
CARDS = State(nodes=(looked_at.node(128),))
NODES = State(nodes=tuple(looked_at.node(4, f"gpu{each:02d}") for each in range(40)), view=View.NODES)


def after(state, *keys, size=SIZE):
    for key in keys:
        state = press(state, key, size)
    return state


def lines_of(state, size=SIZE):
    return ["".join(piece.text for piece in line).rstrip() for line in frame(state, size).lines]


def chosen(state, size=SIZE):
    """The first word of the line that is shown as chosen."""
    shown = frame(state, size)
    line = "".join(piece.text for piece in shown.lines[shown.selected])
    assert line[0] == "▸"
    return line[1:].split()[0]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ((), "1"),
        ((Key.DOWN,), "3"),
        ((Key.DOWN, Key.DOWN, Key.UP), "3"),
        ((Key.UP,), "1"),
        ((Key.END,), "127"),
        ((Key.END, Key.HOME), "1"),
        ((Key.PAGE_DOWN,), "18"),
        ((Key.PAGE_DOWN, Key.PAGE_UP), "1"),
        ((Key.END, Key.PAGE_DOWN), "127"),
        (("s", Key.DOWN), "1"),
        (("s", Key.HOME), "0"),
        (("s", "s", "r", Key.HOME), "127"),
        (("S", "S", Key.HOME), "0"),
    ],
)
def test_the_choice_moves_and_is_in_sight(keys, wanted):
    assert chosen(after(CARDS, *keys)) == wanted


def test_the_choice_stays_with_its_card_when_the_order_changes():
    state = after(CARDS, Key.DOWN, Key.DOWN, Key.DOWN)
    card = chosen(state)
    for _ in range(12):
        state = after(state, "s")
        assert chosen(state) == card


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        ((Key.ENTER,), View.CARDS),
        ((Key.ENTER, Key.ENTER), View.CARD),
        ((Key.ENTER, Key.ENTER, Key.ENTER), View.CARD),
        ((Key.ENTER, Key.ENTER, Key.ESCAPE), View.CARDS),
        ((Key.ENTER, Key.ESCAPE), View.NODES),
        ((Key.ESCAPE,), View.NODES),
        (("4",), View.PROCESSES),
        (("5", Key.ESCAPE), View.NODES),
        ((Key.TAB,), View.CARDS),
        ((Key.BACK_TAB,), View.SOURCES),
        (("5", Key.TAB), View.NODES),
        (("?",), View.HELP),
        (("2", "?", "?"), View.CARDS),
        (("2", "?", Key.ESCAPE), View.CARDS),
        (("?", "3"), View.CARD),
    ],
)
def test_the_views(keys, view):
    assert after(NODES, *keys).view is view


def test_enter_opens_the_chosen_node_and_its_worst_card():
    state = after(NODES, Key.DOWN, Key.DOWN, Key.ENTER)
    assert lines_of(state)[0].startswith("gpu02, ")
    assert "nvidia 1 " in "\n".join(lines_of(after(state, Key.ENTER)))
    assert chosen(after(state, Key.ESCAPE)) == "gpu02"


def test_another_node_is_looked_at_from_its_beginning():
    state = after(NODES, Key.ENTER, Key.END, "/", "0", Key.ENTER, Key.ESCAPE, Key.ESCAPE, Key.DOWN, Key.ENTER)
    assert chosen(state) == "1"


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("", 128),
        ("12", 9),
        ("nvidia 127", 1),
        ("lost", 1),
        ("GPU-00000003", 1),
        ("no such thing", 0),
    ],
)
def test_the_filter(typed, wanted):
    state = after(CARDS, "/", *typed, size=Size(80, 200))
    assert state.is_typing
    assert sum(bool(re.match(r"[▸ ]\d", line)) for line in lines_of(state, Size(80, 200))) == wanted


def test_the_filter_is_kept_by_enter_and_ended_by_escape():
    state = after(CARDS, "/", *"12q?", Key.BACKSPACE, Key.BACKSPACE)
    assert state.look.filter == "12"
    assert frame(state, SIZE).cursor == (22, len("filter: 12"))
    kept = after(state, Key.ENTER)
    assert not kept.is_typing
    assert frame(kept, SIZE).cursor is None
    assert "filter: 12" in lines_of(kept)[-2]
    assert after(kept, Key.ESCAPE).look.filter == ""
    assert after(state, Key.ESCAPE) == after(CARDS, "/", Key.ESCAPE)


def test_every_column_can_be_sorted_by_and_absences_come_last():
    state, seen = CARDS, set()
    for _ in range(40):
        state = after(state, "s")
        seen.add(state.look.sort)
        if state.look.sort in ("TEMP", "MEMORY"):
            assert chosen(after(state, Key.END)) == chosen(after(state, "r", Key.END)) == "1"
    assert {"", "DEVICE", "TEMP", "POWER / CAP", "MEMORY", "UTIL", "STATE", "CLOCK", "DRIVER"} <= seen
    assert len(seen) < 40


def test_a_sorted_list_says_so():
    assert lines_of(after(CARDS, "s"))[-2] == "by VENDOR"
    assert lines_of(after(CARDS, "s", "r"))[-2] == "by VENDOR, reversed"
    assert lines_of(after(CARDS, "r"))[-2] == "best first"


def test_q_ends_it_but_not_while_a_filter_is_typed():
    assert after(CARDS, "q").is_over
    assert not after(CARDS, "/", "q").is_over
    assert after(CARDS, "?", "q").is_over


def test_the_card_scrolls_to_its_end_and_no_further():
    state = after(CARDS, Key.DOWN, Key.ENTER, *[Key.PAGE_DOWN] * 20)
    assert "▼" not in lines_of(state)[-1]
    assert lines_of(after(state, Key.UP)) != lines_of(state)
    assert "▲" not in lines_of(after(state, Key.HOME))[-1]


# The player takes these: tests/replay/test_player.py.
OF_RECORDINGS = ",.{}-+"


def test_every_key_of_the_help_is_understood():
    """In some view and state it changes something."""
    named = " ".join(keys for keys, _ in KEYS).split()
    for character in [one for one in named if len(one) == 1 and one.isascii()]:
        if character in OF_RECORDINGS:
            continue
        states = (NODES, CARDS, after(CARDS, Key.ENTER), after(CARDS, "[", "["), after(CARDS, "s"))
        assert any(after(state, character) != state for state in states), character


def test_the_help_scrolls_in_a_small_terminal():
    size = Size(40, 10)
    state = after(CARDS, "?", Key.END, size=size)
    assert "quit" in lines_of(state, size)[-2]
