"""The state of `telemetry top` after a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from telemetry_exporters.terminal.frames.frame import layout
from telemetry_exporters.terminal.frames.model import (
    Key,
    Look,
    NodeState,
    Size,
    State,
    View,
    chosen_node,
    earliest,
    latest,
)
from telemetry_exporters.text import clean
from telemetry_parsers.past import KEPT, SLOT_SECONDS

_LONGEST_FILTER = 60
_MINUTE = round(60 / SLOT_SECONDS)
_VIEWS = (View.NODES, View.CARDS, View.CARD, View.PROCESSES, View.SOURCES)
_LISTS = (View.NODES, View.CARDS, View.PROCESSES)
_FAR = 1_000_000


def press(state: State, key: Key | str, size: Size) -> State:
    """Return the state after a key or character. The size decides how far a page goes."""
    if state.is_typing and (isinstance(key, str) or key in _TYPED):
        return _typed(state, key)
    act = _ACTS.get(key)
    return state if act is None else act(state, size)


def fed(state: State, nodes: Sequence[NodeState]) -> State:
    """Return the state with newer nodes; a paused state keeps its nodes."""
    if state.is_paused:
        return state
    newer = replace(state, nodes=tuple(nodes))
    node = chosen_node(newer)
    if node is None or node.snapshot is None:
        return newer
    return replace(newer, counters=state.counters.after(node.name, node.snapshot))


def _looking(state: State, look: Look) -> State:
    return replace(state, looks={**state.looks, state.view: look})


def _typed(state: State, key: Key | str) -> State:
    text = state.look.filter
    if isinstance(key, str):
        typed = clean(key)
        longer = (text + typed)[:_LONGEST_FILTER]
        return _looking(state, replace(state.look, filter=longer, scroll=0)) if typed.isprintable() else state
    if key is Key.BACKSPACE:
        return _looking(state, replace(state.look, filter=text[:-1], scroll=0))
    ended = replace(state, is_typing=False)
    return ended if key is Key.ENTER else _looking(ended, replace(state.look, filter="", scroll=0))


_TYPED = frozenset({Key.BACKSPACE, Key.ENTER, Key.ESCAPE})


def _moved(lines: Callable[[int], int]) -> Callable[[State, Size], State]:
    """Return an action that moves the choice by `lines` of a page, or scrolls if nothing can be chosen."""

    def act(state: State, size: Size) -> State:
        found = layout(state, size)
        step = lines(found.room)
        if found.body.chosen is None:
            first = min(max(found.first + step, 0), max(0, found.body.count - found.room))
            return _looking(state, replace(state.look, scroll=first))
        index = min(max(found.body.chosen + step, 0), found.body.count - 1)
        moved = _with_choice(state, found.body.keys[index])
        first = replace(found.body, chosen=index).first(found.first, found.room)
        return _looking(moved, replace(state.look, scroll=first))

    return act


def _with_choice(state: State, key: str) -> State:
    """Return the state with that line of the view chosen."""
    if state.view is View.NODES and key != state.node:
        return replace(state, node=key, card="", looks={View.NODES: state.look})
    return replace(state, card=key) if state.view is View.CARDS else state


def _settled(state: State, size: Size) -> State:
    """Return the state with the line chosen that is shown as chosen."""
    if state.view not in (View.NODES, View.CARDS):
        return state
    body = layout(state, size).body
    return state if body.chosen is None else _with_choice(state, body.keys[body.chosen])


def _to(view: View) -> Callable[[State, Size], State]:
    return lambda state, size: replace(_settled(state, size), view=view)


def _next_view(step: int) -> Callable[[State, Size], State]:
    def act(state: State, size: Size) -> State:
        index = _VIEWS.index(state.view) if state.view in _VIEWS else 0
        return _to(_VIEWS[(index + step) % len(_VIEWS)])(state, size)

    return act


def _open(state: State, size: Size) -> State:
    below = {View.NODES: View.CARDS, View.CARDS: View.CARD}
    return _to(below[state.view])(state, size) if state.view in below else state


def _back(state: State, _: Size) -> State:
    """Close the help, else clear the filter, else go to the view above."""
    if state.view is View.HELP:
        return replace(state, view=state.before)
    if state.look.filter:
        return _looking(replace(state, is_typing=False), replace(state.look, filter="", scroll=0))
    above = View.CARDS if state.view is View.CARD or len(state.nodes) < 2 else View.NODES
    return replace(state, view=above) if state.view is not View.NODES else state


def _help(state: State, size: Size) -> State:
    return _back(state, size) if state.view is View.HELP else replace(state, before=state.view, view=View.HELP)


def _filter(state: State, _: Size) -> State:
    return replace(state, is_typing=True) if state.view in (*_LISTS, View.CARD) else state


def _sorted(step: int) -> Callable[[State, Size], State]:
    """Return an action that sorts by the next column. After the last column comes the usual order, worst first."""

    def act(state: State, size: Size) -> State:
        choices = ("", *layout(state, size).body.headings)
        index = choices.index(state.look.sort) if state.look.sort in choices else 0
        sort = choices[(index + step) % len(choices)]
        return _looking(state, replace(state.look, sort=sort, is_reversed=False, scroll=0))

    return act


def _sorted_by(*beginnings: str) -> Callable[[State, Size], State]:
    """Return an action that sorts by the column whose heading begins so; a second time, it reverses the order."""

    def act(state: State, size: Size) -> State:
        headings = layout(state, size).body.headings
        sort = next((heading for heading in headings if beginnings and heading.startswith(beginnings)), "")
        if not headings or (beginnings and not sort):
            return state
        is_reversed = sort == state.look.sort and not state.look.is_reversed
        return _looking(state, replace(state.look, sort=sort, is_reversed=is_reversed, scroll=0))

    return act


def _reversed(state: State, _: Size) -> State:
    if state.view not in _LISTS:
        return state
    return _looking(state, replace(state.look, is_reversed=not state.look.is_reversed))


def _in_time(slots: int) -> Callable[[State, Size], State]:
    """Return an action that moves by that many slots. After the newest slot comes the present."""

    def act(state: State, _: Size) -> State:
        oldest, newest = earliest(state), latest(state)
        if oldest is None or newest is None:
            return replace(state, moment=None)
        begun = newest + SLOT_SECONDS if state.moment is None else state.moment
        moment = max(begun + slots * SLOT_SECONDS, oldest)
        return replace(state, moment=None if moment > newest + SLOT_SECONDS / 2 else moment)

    return act


def _metric(step: int) -> Callable[[State, Size], State]:
    def act(state: State, _: Size) -> State:
        if state.view is not View.CARD:
            return state
        return replace(state, metric=KEPT[(KEPT.index(state.metric) + step) % len(KEPT)])

    return act


def _paused(state: State, _: Size) -> State:
    return replace(state, is_paused=not state.is_paused)


def _pane(state: State, _: Size) -> State:
    return replace(state, has_pane=not state.has_pane) if state.view is View.CARDS else state


_ACTS: Mapping[Key | str, Callable[[State, Size], State]] = {
    Key.UP: _moved(lambda _: -1),
    Key.DOWN: _moved(lambda _: 1),
    Key.PAGE_UP: _moved(lambda room: -room),
    Key.PAGE_DOWN: _moved(lambda room: room),
    Key.HOME: _moved(lambda _: -_FAR),
    Key.END: _moved(lambda _: _FAR),
    Key.LEFT: _in_time(-1),
    Key.RIGHT: _in_time(1),
    Key.FAR_LEFT: _in_time(-_MINUTE),
    Key.FAR_RIGHT: _in_time(_MINUTE),
    "[": _in_time(-_MINUTE),
    "]": _in_time(_MINUTE),
    "n": lambda state, _: replace(state, moment=None),
    Key.ENTER: _open,
    Key.ESCAPE: _back,
    Key.TAB: _next_view(1),
    Key.BACK_TAB: _next_view(-1),
    **{str(number): _to(view) for number, view in enumerate(_VIEWS, start=1)},
    "/": _filter,
    "<": _in_time(-1),
    ">": _in_time(1),
    "s": _sorted(1),
    "S": _sorted(-1),
    "r": _reversed,
    "t": _sorted_by("TEMP"),
    "w": _sorted_by("POWER"),
    "g": _sorted_by("MEM"),
    "u": _sorted_by("UTIL", "%GPU"),
    "c": _sorted_by("%CPU"),
    "o": _sorted_by("OWNER"),
    "d": _sorted_by(),
    "m": _metric(1),
    "M": _metric(-1),
    "p": _paused,
    "P": _pane,
    " ": _paused,
    "?": _help,
    "q": lambda state, _: replace(state, is_over=True),
}
