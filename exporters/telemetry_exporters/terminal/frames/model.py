"""The state of `telemetry top`: its types, its keys, and the scene of a node, now or in its last half hour."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from telemetry_exporters.judgement.overview import Figures, Row, device_row, node_figures, rows, simulation_note
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.snapshot_filter import screen
from telemetry_exporters.terminal.frames.counters import Counters
from telemetry_exporters.terminal.frames.drawing import UNICODE, Glyphs, Window
from telemetry_exporters.terminal.style import Style
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import MergedDevice, MergedReading, Snapshot
from telemetry_parsers.past import KEPT, Past, Series

_T = TypeVar("_T")
NOT_KEPT = Finding("not kept", Severity.QUIET)
NO_SERIES: Mapping[str, Series] = {}
_NO_PAST = Past(0.0, 0)
NO_COUNTERS = Counters()
# The label of the current reading. Other readings have no label.
_LABELS = {"clock_hertz": "sm"}


class Memo:
    """Keeps the newest result of each function with its arguments. Arguments are compared by identity, numbers by value."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Callable[..., object], tuple[tuple[object, ...], object]] = {}

    def of(self, make: Callable[..., _T], *things: object) -> _T:
        """Return what `make` returns for these arguments; equal arguments do not call it again."""
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
    """A whole screen. `cursor` is the position of the typed text, `selected` the line that is shown reversed."""

    lines: tuple[Line, ...]
    cursor: tuple[int, int] | None = None
    selected: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The kernel's data about a process: its arguments, and its CPU time as a share of one CPU."""

    command_line: str
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node: its snapshot with age, `trouble` if it does not answer, `running` processes by PID, and a `memory` of derived results."""

    name: str
    snapshot: Snapshot | None = None
    past: Past | None = None
    trouble: str = ""
    age_seconds: float | None = None
    running: Mapping[int, Running] = field(default_factory=dict)
    memory: Memo = field(default_factory=Memo, compare=False, repr=False)


class View(enum.Enum):
    """The views; the value is the name that users know."""

    NODES = "nodes"
    CARDS = "cards"
    CARD = "card"
    PROCESSES = "processes"
    SOURCES = "sources"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Look:
    """The filter, order and scroll position of one view. An empty `sort` means worst first."""

    filter: str = ""
    sort: str = ""
    is_reversed: bool = False
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything that decides what is on the screen, except its size."""

    nodes: tuple[NodeState, ...] = ()
    title: str = ""  # the origin of the readings
    view: View = View.CARDS
    glyphs: Glyphs = UNICODE
    node: str = ""  # the chosen name; by default the first node
    card: str = ""  # the chosen id; by default the worst card
    metric: str = KEPT[0]
    looks: Mapping[View, Look] = field(default_factory=dict)
    counters: Counters = NO_COUNTERS  # of the chosen node
    moment: float | None = None  # a Unix time in the past; None: now
    before: View = View.CARDS  # the view to which help returns
    is_typing: bool = False
    has_pane: bool = True
    is_paused: bool = False
    is_over: bool = False

    @property
    def shows_processes(self) -> bool:
        """Return whether processes are shown."""
        return self.view is View.PROCESSES or (self.view is View.CARDS and self.has_pane and self.moment is None)

    @property
    def look(self) -> Look:
        """Return the look of the current view."""
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot as it is shown, with its rows and figures, and a note if its devices are simulated."""

    snapshot: Snapshot
    rows: tuple[Row, ...]
    figures: Figures
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """What is shown of a node: a `slot` of the past (None: now), the `window` before it, and whether the readings have expired (`is_old`)."""

    node: NodeState
    seen: Seen | None
    past: Past
    slot: int | None
    window: Window
    is_old: bool

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows of the devices, in the node's order."""
        if self.seen is None:
            return ()
        if self.slot is None:
            return self.seen.rows
        return self.node.memory.of(_past_rows, self.seen, self.past, self.slot)

    @property
    def figures(self) -> Figures:
        """Return the figures of the node; no figures if its readings have expired."""
        if self.seen is None or self.is_old:
            return node_figures(())
        return self.seen.figures if self.slot is None else self.node.memory.of(node_figures, self.rows)


def scene_at(node: NodeState, moment: float | None) -> Scene:
    """Return the node at that time, or now for None."""
    seen = None if node.snapshot is None else node.memory.of(_look_through, node.snapshot)
    past = node.past or _NO_PAST
    slot = None if moment is None else math.floor((moment - past.start) / past.slot_seconds + 1e-3)
    end = past.slots if slot is None else min(max(slot + 1, 0), past.slots)
    return Scene(
        node, seen, past, slot, Window(end, round(past.start / past.slot_seconds)), moment is None and _is_old(node)
    )


def _look_through(snapshot: Snapshot) -> Seen:
    shown = screen(snapshot)
    all_rows = rows(shown)
    return Seen(shown, all_rows, node_figures(all_rows), tuple(filter(None, (simulation_note(shown),))))


def _is_old(node: NodeState) -> bool:
    if node.snapshot is None or node.age_seconds is None:
        return False
    return node.age_seconds > node.snapshot.valid_until - node.snapshot.monotonic_time


def _past_rows(seen: Seen, past: Past, slot: int) -> tuple[Row, ...]:
    return tuple(
        device_row(_past_device(row.device, past.devices.get(row.device.id, NO_SERIES), slot), (NOT_KEPT,))
        for row in seen.rows
    )


def _past_device(device: MergedDevice, series: Mapping[str, Series], slot: int) -> MergedDevice:
    """Return the device with the numbers of that slot only. History keeps no owners."""
    readings = tuple(
        MergedReading(metric, _LABELS.get(metric, ""), value, "history")
        for metric, kept in series.items()
        if not math.isnan(value := value_at(kept, slot))
    )
    return replace(device, readings=readings, processes=(), allocations=(), up=bool(readings) or None)


def value_at(series: Series, slot: int) -> float:
    """Return the last number of that slot; NaN if it has none."""
    return series.last[slot] if 0 <= slot < len(series.last) else math.nan


def reason_at(series: Series, slot: int) -> str:
    """Return why that slot has no number."""
    if not 0 <= slot < len(series.last):
        return "no longer kept"
    found = [gap.reason for gap in series.gaps if gap.first <= slot < gap.first + gap.slots]
    return found[0].replace("_", " ") if found else "no reason is known"


def chosen_node(state: State) -> NodeState | None:
    """Return the chosen node, by default the first."""
    found = [node for node in state.nodes if node.name == state.node] or state.nodes
    return found[0] if found else None


def chosen_scene(state: State) -> Scene | None:
    """Return the scene of the chosen node."""
    node = chosen_node(state)
    return None if node is None else scene_at(node, state.moment)


def latest(state: State) -> float | None:
    """Return the Unix time at which the newest slot of any node begins, or None without history."""
    kept = [past.start + (past.slots - 1) * past.slot_seconds for past in _pasts(state)]
    return max(kept, default=None)


def earliest(state: State) -> float | None:
    """Return the Unix time at which the oldest slot of any node begins, or None without history."""
    return min((past.start for past in _pasts(state)), default=None)


def _pasts(state: State) -> list[Past]:
    return [node.past for node in state.nodes if node.past is not None and node.past.slots]
