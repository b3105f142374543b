"""Changes the state of `telemetry top` when a key is pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from telemetry_exporters.terminal.frames.frame import layout
from telemetry_exporters.terminal.frames.model import (
    Key,
    NodeState,
    Size,
    State,
    View,
    ViewOptions,
    chosen_node,
    newest_slot_time,
    oldest_slot_time,
)
from telemetry_exporters.text import clean
from telemetry_parsers.past import KEPT, SLOT_SECONDS

_MAX_FILTER_LENGTH = 60
_SLOTS_PER_MINUTE = round(60 / SLOT_SECONDS)
_VIEWS = (View.NODES, View.CARDS, View.CARD, View.PROCESSES, View.SOURCES)
_LIST_VIEWS = (View.NODES, View.CARDS, View.PROCESSES)
_ALL_LINES = 1_000_000


def press(state: State, key: Key | str, size: Size) -> State:
    """Return the state after a keypress."""
    if state.is_typing and (isinstance(key, str) or key in _FILTER_KEYS):
        return _after_typing(state, key)
    action = _ACTIONS.get(key)
    return state if action is None else action(state, size)


def with_nodes(state: State, nodes: Sequence[NodeState]) -> State:
    """Return the state with newer nodes. A paused state does not change."""
    if state.is_paused:
        return state
    newer = replace(state, nodes=tuple(nodes))
    node = chosen_node(newer)
    if node is None or node.snapshot is None:
        return newer
    return replace(newer, counters=state.counters.updated(node.name, node.snapshot))


def _with_options(state: State, options: ViewOptions) -> State:
    return replace(state, options_by_view={**state.options_by_view, state.view: options})


def _after_typing(state: State, key: Key | str) -> State:
    text = state.options.filter
    if isinstance(key, str):
        characters = clean(key)
        if not characters.isprintable():
            return state
        return _with_options(state, replace(state.options, filter=(text + characters)[:_MAX_FILTER_LENGTH], scroll=0))
    if key is Key.BACKSPACE:
        return _with_options(state, replace(state.options, filter=text[:-1], scroll=0))
    not_typing = replace(state, is_typing=False)
    return not_typing if key is Key.ENTER else _with_options(not_typing, replace(state.options, filter="", scroll=0))


_FILTER_KEYS = frozenset({Key.BACKSPACE, Key.ENTER, Key.ESCAPE})


def _move_action(line_offset: Callable[[int], int]) -> Callable[[State, Size], State]:
    """Return an action that chooses another line, or scrolls. It moves by `line_offset(height of the view)` lines."""

    def action(state: State, size: Size) -> State:
        current = layout(state, size)
        offset = line_offset(current.view_rows)
        if current.body.chosen is None:
            first = min(max(current.first + offset, 0), max(0, current.body.count - current.view_rows))
            return _with_options(state, replace(state.options, scroll=first))
        index = min(max(current.body.chosen + offset, 0), current.body.count - 1)
        with_choice = _with_choice(state, current.body.keys[index])
        first = replace(current.body, chosen=index).first_visible(current.first, current.view_rows)
        return _with_options(with_choice, replace(state.options, scroll=first))

    return action


def _with_choice(state: State, key: str) -> State:
    if state.view is View.NODES and key != state.node:
        return replace(state, node=key, card="", options_by_view={View.NODES: state.options})
    return replace(state, card=key) if state.view is View.CARDS else state


def _with_highlighted_choice(state: State, size: Size) -> State:
    if state.view not in (View.NODES, View.CARDS):
        return state
    body = layout(state, size).body
    return state if body.chosen is None else _with_choice(state, body.keys[body.chosen])


def _view_opener(view: View) -> Callable[[State, Size], State]:
    return lambda state, size: replace(_with_highlighted_choice(state, size), view=view)


def _view_switcher(step: int) -> Callable[[State, Size], State]:
    def action(state: State, size: Size) -> State:
        index = _VIEWS.index(state.view) if state.view in _VIEWS else 0
        return _view_opener(_VIEWS[(index + step) % len(_VIEWS)])(state, size)

    return action


def _open_choice(state: State, size: Size) -> State:
    children = {View.NODES: View.CARDS, View.CARDS: View.CARD}
    return _view_opener(children[state.view])(state, size) if state.view in children else state


def _go_back(state: State, _: Size) -> State:
    """Close the help, clear the filter, or go to the parent view."""
    if state.view is View.HELP:
        return replace(state, view=state.view_before_help)
    if state.options.filter:
        return _with_options(replace(state, is_typing=False), replace(state.options, filter="", scroll=0))
    parent = View.CARDS if state.view is View.CARD or len(state.nodes) < 2 else View.NODES
    return replace(state, view=parent) if state.view is not View.NODES else state


def _toggle_help(state: State, size: Size) -> State:
    if state.view is View.HELP:
        return _go_back(state, size)
    return replace(state, view_before_help=state.view, view=View.HELP)


def _start_filtering(state: State, _: Size) -> State:
    return replace(state, is_typing=True) if state.view in (*_LIST_VIEWS, View.CARD) else state


def _sort_by_next(step: int) -> Callable[[State, Size], State]:
    """Return an action that sorts by the column `step` positions after the current one."""

    def action(state: State, size: Size) -> State:
        choices = ("", *layout(state, size).body.headings)
        index = choices.index(state.options.sort) if state.options.sort in choices else 0
        sort = choices[(index + step) % len(choices)]
        return _with_options(state, replace(state.options, sort=sort, is_reversed=False, scroll=0))

    return action


def _sort_by(*prefixes: str) -> Callable[[State, Size], State]:
    """Return an action that sorts by the first column with one of these prefixes. No prefix means the default order."""

    def action(state: State, size: Size) -> State:
        headings = layout(state, size).body.headings
        sort = next((heading for heading in headings if prefixes and heading.startswith(prefixes)), "")
        if not headings or (prefixes and not sort):
            return state
        is_reversed = sort == state.options.sort and not state.options.is_reversed
        return _with_options(state, replace(state.options, sort=sort, is_reversed=is_reversed, scroll=0))

    return action


def _reverse_order(state: State, _: Size) -> State:
    if state.view not in _LIST_VIEWS:
        return state
    return _with_options(state, replace(state.options, is_reversed=not state.options.is_reversed))


def _time_mover(slots: int) -> Callable[[State, Size], State]:
    """Return an action that moves the shown time by this number of slots."""

    def action(state: State, _: Size) -> State:
        oldest, newest = oldest_slot_time(state), newest_slot_time(state)
        if oldest is None or newest is None:
            return replace(state, past_time=None)
        shown_time = newest + SLOT_SECONDS if state.past_time is None else state.past_time
        past_time = max(shown_time + slots * SLOT_SECONDS, oldest)
        return replace(state, past_time=None if past_time > newest + SLOT_SECONDS / 2 else past_time)

    return action


def _metric_switcher(step: int) -> Callable[[State, Size], State]:
    def action(state: State, _: Size) -> State:
        if state.view is not View.CARD:
            return state
        return replace(state, metric=KEPT[(KEPT.index(state.metric) + step) % len(KEPT)])

    return action


def _toggle_pause(state: State, _: Size) -> State:
    return replace(state, is_paused=not state.is_paused)


def _toggle_pane(state: State, _: Size) -> State:
    return replace(state, has_process_pane=not state.has_process_pane) if state.view is View.CARDS else state


_ACTIONS: Mapping[Key | str, Callable[[State, Size], State]] = {
    Key.UP: _move_action(lambda _: -1),
    Key.DOWN: _move_action(lambda _: 1),
    Key.PAGE_UP: _move_action(lambda view_rows: -view_rows),
    Key.PAGE_DOWN: _move_action(lambda view_rows: view_rows),
    Key.HOME: _move_action(lambda _: -_ALL_LINES),
    Key.END: _move_action(lambda _: _ALL_LINES),
    Key.LEFT: _time_mover(-1),
    Key.RIGHT: _time_mover(1),
    Key.FAR_LEFT: _time_mover(-_SLOTS_PER_MINUTE),
    Key.FAR_RIGHT: _time_mover(_SLOTS_PER_MINUTE),
    "[": _time_mover(-_SLOTS_PER_MINUTE),
    "]": _time_mover(_SLOTS_PER_MINUTE),
    "n": lambda state, _: replace(state, past_time=None),
    Key.ENTER: _open_choice,
    Key.ESCAPE: _go_back,
    Key.TAB: _view_switcher(1),
    Key.BACK_TAB: _view_switcher(-1),
    **{str(number): _view_opener(view) for number, view in enumerate(_VIEWS, start=1)},
    "/": _start_filtering,
    "<": _time_mover(-1),
    ">": _time_mover(1),
    "s": _sort_by_next(1),
    "S": _sort_by_next(-1),
    "r": _reverse_order,
    "t": _sort_by("TEMP"),
    "w": _sort_by("POWER"),
    "g": _sort_by("MEM"),
    "u": _sort_by("UTIL", "%GPU"),
    "c": _sort_by("%CPU"),
    "o": _sort_by("OWNER"),
    "d": _sort_by(),
    "m": _metric_switcher(1),
    "M": _metric_switcher(-1),
    "p": _toggle_pause,
    "P": _toggle_pane,
    " ": _toggle_pause,
    "?": _toggle_help,
    "q": lambda state, _: replace(state, has_quit=True),
}
