"""The keys of `telemetry top`."""

import re
from dataclasses import replace
from functools import cache

import pytest

from exporters.frames.seen import after, lines_of
from kits import looked_at
from telemetry_exporters.terminal.frames.frame import HELP, frame
from telemetry_exporters.terminal.frames.model import Key, RunningProcess, Size, State, View

SIZE = Size(80, 24)


@cache
def cards():
    return State(nodes=(looked_at.node(128),))


@cache
def nodes():
    return State(nodes=tuple(looked_at.node(4, f"gpu{number:02d}") for number in range(40)), view=View.NODES)


def pressed(state, *keys, size=SIZE):
    return after(state, *keys, size=size)


def seen(state, size=SIZE):
    return lines_of(state, size)


def chosen(state, size=SIZE):
    shown = frame(state, size)
    line = "".join(piece.text for piece in shown.lines[shown.chosen_row])
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
        ((Key.PAGE_DOWN,), "15"),
        ((Key.PAGE_DOWN, Key.PAGE_UP), "1"),
        ((Key.END, Key.PAGE_DOWN), "127"),
        (("s", Key.DOWN), "1"),
        (("s", Key.HOME), "0"),
        (("s", "s", "r", Key.HOME), "127"),
        (("S", "S", Key.HOME), "0"),
    ],
)
def test_selected_row_moves_and_stays_visible(keys, wanted):
    assert chosen(pressed(cards(), *keys)) == wanted


def test_selection_stays_with_its_card_when_the_order_changes():
    state = pressed(cards(), Key.DOWN, Key.DOWN, Key.DOWN)
    card = chosen(state)
    for _ in range(12):
        state = pressed(state, "s")
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
def test_keys_open_the_views(keys, view):
    assert pressed(nodes(), *keys).view is view


def test_enter_opens_the_selected_node_and_its_worst_card():
    state = pressed(nodes(), Key.DOWN, Key.DOWN, Key.ENTER)
    assert seen(state)[0].startswith("gpu02, ")
    assert "nvidia 1 " in "\n".join(seen(pressed(state, Key.ENTER)))
    assert chosen(pressed(state, Key.ESCAPE)) == "gpu02"


def test_another_node_is_shown_from_the_top():
    state = pressed(nodes(), Key.ENTER, Key.END, "/", "0", Key.ENTER, Key.ESCAPE, Key.ESCAPE, Key.DOWN, Key.ENTER)
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
    state = pressed(cards(), "/", *typed, size=Size(80, 200))
    assert state.is_typing
    assert (
        sum(
            bool(re.match(r"[▸ ](nvidia +)?\d+ ", line)) for line in seen(pressed(state, Key.ENTER, "P"), Size(80, 200))
        )
        == wanted
    )


def test_enter_keeps_the_filter_and_escape_clears_it():
    state = pressed(cards(), "/", *"12q?", Key.BACKSPACE, Key.BACKSPACE)
    assert state.options.filter == "12"
    assert frame(state, SIZE).cursor == (22, len("filter: 12"))
    kept = pressed(state, Key.ENTER)
    assert not kept.is_typing
    assert frame(kept, SIZE).cursor is None
    assert "filter: 12" in seen(kept)[-2]
    assert pressed(kept, Key.ESCAPE).options.filter == ""
    assert pressed(state, Key.ESCAPE) == pressed(cards(), "/", Key.ESCAPE)


def test_every_column_can_be_sorted_by_and_absences_come_last():
    state, seen = cards(), set()
    for _ in range(40):
        state = pressed(state, "s")
        seen.add(state.options.sort)
        if state.options.sort in ("TEMP", "MEMORY"):
            assert chosen(pressed(state, Key.END)) == chosen(pressed(state, "r", Key.END)) == "1"
    assert {"", "DEVICE", "TEMP", "POWER / CAP", "MEMORY", "UTIL", "STATE", "CLOCK", "DRIVER"} <= seen
    assert len(seen) < 40


@pytest.mark.parametrize(
    ("keys", "column", "heading"),
    [
        ("t", "TEMP", "TEMP▼"),
        ("tt", "TEMP", "TEMP▲"),
        ("ttt", "TEMP", "TEMP▼"),
        ("w", "POWER / CAP", "POWER / CAP▼"),
        ("g", "MEMORY", "MEMORY▼"),
        ("u", "UTIL", "UTIL▼"),
        ("o", "OWNER", ""),
        ("ud", "", ""),
        ("uc", "UTIL", "UTIL▼"),
    ],
)
def test_sort_keys_mark_their_column(keys, column, heading):
    state = pressed(cards(), *keys)
    assert state.options.sort == column
    top = next(line for line in seen(state) if "TEMP" in line)
    assert heading in top
    assert len(re.findall("[▼▲]", top)) == bool(heading)


def test_sorted_list_names_its_order():
    assert seen(pressed(cards(), "s"))[-2] == "by VENDOR"
    assert seen(pressed(cards(), "s", "r"))[-2] == "by VENDOR, reversed"
    assert seen(pressed(cards(), "r"))[-2] == "best first"


def test_the_readings_of_a_card_have_a_filter():
    state = pressed(cards(), Key.DOWN, Key.ENTER, "/", *"slowdown")
    assert state.is_typing
    text = "\n".join(seen(state))
    assert "temperature slowdown core" in text
    assert "power cap" not in text
    assert "temperature 91" not in text
    assert "No reading matches the filter." in "\n".join(seen(pressed(state, *"x")))
    assert "power cap" in "\n".join(seen(pressed(state, Key.ESCAPE, Key.END)))


def test_q_quits_unless_a_filter_is_typed():
    assert pressed(cards(), "q").has_quit
    assert not pressed(cards(), "/", "q").has_quit
    assert pressed(cards(), "?", "q").has_quit


def test_the_card_scrolls_to_its_end_and_no_further():
    state = pressed(cards(), Key.DOWN, Key.ENTER, *[Key.PAGE_DOWN] * 20)
    assert "▼" not in seen(state)[-1]
    assert seen(pressed(state, Key.UP)) != seen(state)
    assert "▲" not in seen(pressed(state, Key.HOME))[-1]


# The player takes these: tests/recordings/test_playback.py.
OF_RECORDINGS = ",.{}-+"


def test_every_key_of_the_help_is_understood():
    """Each key changes something in some view and state."""
    named = " ".join(keys for keys, _ in HELP).split()
    for character in [key for key in named if len(key) == 1 and key.isascii()]:
        if character in OF_RECORDINGS:
            continue
        running = {4000: RunningProcess("python3 train.py", 0.5)}
        busy = pressed(State(nodes=(replace(looked_at.node(8), running=running),)), "4")
        states = (
            nodes(),
            cards(),
            pressed(cards(), Key.ENTER),
            pressed(cards(), "[", "["),
            pressed(cards(), "s"),
            busy,
        )
        assert any(pressed(state, character) != state for state in states), character


def test_the_help_scrolls_in_a_small_terminal():
    size = Size(40, 10)
    state = pressed(cards(), "?", Key.END, size=size)
    assert "quit" in seen(state, size)[-2]
