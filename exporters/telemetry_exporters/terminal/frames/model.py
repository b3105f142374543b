"""The types of `telemetry top`: what it knows, what it shows, and the keys that it understands."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from telemetry_exporters.terminal.frames.drawing import UNICODE, Glyphs
from telemetry_exporters.terminal.style import Style
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import KEPT, Past

_T = TypeVar("_T")


class Memory:
    """Holds results for the newest things that they were made of. Things never change, and are compared by identity, numbers by value."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Callable[..., object], tuple[tuple[object, ...], object]] = {}

    def of(self, make: Callable[..., _T], *things: object) -> _T:
        """What `make` makes of these things; it is called once for the same ones."""
        found = self._results.get(make)
        if found is None or not all(map(_is_same, found[0], things)):
            found = self._results[make] = (things, make(*things))
        return cast("_T", found[1])


def _is_same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int) and one == other)


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal's size in characters."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole screen: exactly as many lines as the terminal has rows, none wider than it.

    `cursor` is the row and column at which a text is typed, `selected` the line that is shown in reverse.
    """

    lines: tuple[Line, ...]
    cursor: tuple[int, int] | None = None
    selected: int | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is known of a node. `trouble` says why it does not answer, and is empty if it does.

    `age_seconds` is the time since the snapshot was made. `memory` goes on from one state of the node to the next by
    `dataclasses.replace`, so that an equal snapshot is looked through once.
    """

    name: str
    snapshot: Snapshot | None = None
    past: Past | None = None
    trouble: str = ""
    age_seconds: float | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)


class View(enum.Enum):
    """What is looked at; the value is what people call it."""

    NODES = "nodes"
    CARDS = "cards"
    CARD = "card"
    PROCESSES = "processes"
    SOURCES = "sources"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Look:
    """How one view is looked at; an empty `sort` is worst first."""

    filter: str = ""
    sort: str = ""
    is_reversed: bool = False
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """All that decides what is on the screen, but its size.

    `title` says where the readings come from. `node` is the name of the chosen node, `card` the id of the chosen card; if there is
    none of that name, the first of the list is chosen. `moment` is the Unix time that is looked at, None for now.
    `before` is the view to which help goes back.
    """

    nodes: tuple[NodeState, ...] = ()
    title: str = ""
    view: View = View.CARDS
    glyphs: Glyphs = UNICODE
    node: str = ""
    card: str = ""
    metric: str = KEPT[0]
    looks: Mapping[View, Look] = field(default_factory=dict)
    moment: float | None = None
    before: View = View.CARDS
    is_typing: bool = False
    is_paused: bool = False
    is_over: bool = False

    @property
    def look(self) -> Look:
        """How the present view is looked at."""
        return self.looks.get(self.view, Look())


class Key(enum.Enum):
    """A key that is no character."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    LEFT = "left"
    RIGHT = "right"
    FAR_LEFT = "shift + left"
    FAR_RIGHT = "shift + right"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"
    TAB = "tab"
    BACK_TAB = "shift + tab"
