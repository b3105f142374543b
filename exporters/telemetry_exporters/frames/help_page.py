"""The keys of `telemetry top`, in words."""

from __future__ import annotations

from telemetry_exporters.frames.body import Body, of_lines
from telemetry_exporters.frames.lines import wrapped
from telemetry_exporters.frames.model import Size, State

_WIDEST_KEY = 13
# It shows and never acts: there is no key that ends a process or changes a card.
KEYS = (
    ("↑ ↓", "choose a line, or scroll"),
    ("PgUp PgDn", "the same by a page"),
    ("Home End", "the first line, the last line"),
    ("Enter", "open the node or card"),
    ("Esc", "end the filter, then go back"),
    ("1 2 3 4 5", "nodes, cards, one card, processes, sources"),
    ("Tab", "the next of these; Shift Tab: the one before"),
    ("/", "show only lines that have these words; Enter keeps them, Esc ends it"),
    ("s S", "sort by the next column, or the one before; without a column the worst come first"),
    ("r", "reverse the order"),
    ("← →", "back and forth through the last 30 minutes, by 5 seconds; < and > do the same"),
    ("[ ]", "the same by a minute, as Shift ← and Shift →"),
    ("n", "back to now"),
    ("m M", "one card: the next metric of the chart, or the one before"),
    ("p Space", "pause: nothing new is shown; a recording stands still"),
    (", .", "a recording: 10 seconds back or forth; { } by a minute"),
    ("- +", "a recording: half as fast, or twice"),
    ("?", "this help"),
    ("q", "quit"),
)


def body(_: State, size: Size) -> Body:
    """A line for each key, or more where it takes them."""
    indent = " " * (_WIDEST_KEY + 1)
    lines = [
        line for key, text in KEYS for line in wrapped(f"{key:<{_WIDEST_KEY}} {text}", size.columns, indent=indent)
    ]
    return of_lines(lines)
