"""The state of `telemetry top`, and its scenes. A scene is a node at one point in time."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from telemetry_exporters.judgement.overview import DeviceRow, Figures, device_row, node_figures, rows, simulation_note
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.snapshot_filter import clean_snapshot
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
# Maps a labelled metric to the only label value that the history keeps.
_KEPT_LABELS = {"clock_hertz": "sm"}


class ResultCache:
    """Caches the last result of each function."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Callable[..., object], tuple[tuple[object, ...], object]] = {}

    def get(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Return the function's result, from the cache if its last call had the same arguments."""
        cached = self._results.get(function)
        if cached is None or not all(map(_is_same, cached[0], arguments)):
            cached = self._results[function] = (arguments, function(*arguments))
        return cast("_T", cached[1])


def _is_same(first: object, second: object) -> bool:
    return first is second or (isinstance(first, int) and first == second)


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal's size in characters."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A string in one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole screen."""

    lines: tuple[Line, ...]
    cursor: tuple[int, int] | None = None
    chosen_row: int | None = None


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """The kernel's data about a process."""

    command_line: str
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with its snapshot, history and running processes."""

    name: str
    snapshot: Snapshot | None = None
    past: Past | None = None
    trouble: str = ""
    age_seconds: float | None = None
    running: Mapping[int, RunningProcess] = field(default_factory=dict)
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)


class View(enum.Enum):
    """A view of `telemetry top`, with the name that users see."""

    NODES = "nodes"
    CARDS = "cards"
    CARD = "card"
    PROCESSES = "processes"
    SOURCES = "sources"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The filter, the sorted column and the scroll position of a view."""

    filter: str = ""
    sort: str = ""
    is_reversed: bool = False
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything that determines the content of the screen, except its size."""

    nodes: tuple[NodeState, ...] = ()
    title: str = ""  # the origin of the readings
    view: View = View.CARDS
    glyphs: Glyphs = UNICODE
    node: str = ""  # the name of the chosen node; if empty, the first node is chosen
    card: str = ""  # the id of the chosen card; if empty, the worst card is chosen
    metric: str = KEPT[0]
    options_by_view: Mapping[View, ViewOptions] = field(default_factory=dict)
    counters: Counters = NO_COUNTERS  # the counters of the chosen node
    past_time: float | None = None  # the Unix time that is shown, or None for the present
    view_before_help: View = View.CARDS  # the view that is shown when the help is closed
    is_typing: bool = False
    has_process_pane: bool = True
    is_paused: bool = False
    has_quit: bool = False

    @property
    def shows_processes(self) -> bool:
        """Return whether processes are shown."""
        return self.view is View.PROCESSES or (
            self.view is View.CARDS and self.has_process_pane and self.past_time is None
        )

    @property
    def options(self) -> ViewOptions:
        """Return the options of the current view."""
        return self.options_by_view.get(self.view, ViewOptions())


class Key(enum.Enum):
    """A key that does not produce a character."""

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
class NodeContent:
    """A cleaned snapshot with its rows and figures."""

    snapshot: Snapshot
    rows: tuple[DeviceRow, ...]
    figures: Figures
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """A node at present or in a past slot."""

    node: NodeState
    content: NodeContent | None
    past: Past
    past_slot: int | None
    window: Window
    is_old: bool  # whether the readings are no longer valid

    @property
    def rows(self) -> tuple[DeviceRow, ...]:
        """Return the rows of the devices at the scene's time, in the node's order."""
        if self.content is None:
            return ()
        if self.past_slot is None:
            return self.content.rows
        return self.node.cache.get(_past_rows, self.content, self.past, self.past_slot)

    @property
    def figures(self) -> Figures:
        """Return the node's figures, which are empty if the readings are no longer valid."""
        if self.content is None or self.is_old:
            return node_figures(())
        return self.content.figures if self.past_slot is None else self.node.cache.get(node_figures, self.rows)


def scene_at(node: NodeState, past_time: float | None) -> Scene:
    """Return the scene of the node at `past_time`, or at present if `past_time` is None."""
    content = None if node.snapshot is None else node.cache.get(_node_content, node.snapshot)
    past = node.past or _NO_PAST
    slot = None if past_time is None else math.floor((past_time - past.start) / past.slot_seconds + 1e-3)
    end = past.slots if slot is None else min(max(slot + 1, 0), past.slots)
    window = Window(end, round(past.start / past.slot_seconds))
    return Scene(node, content, past, slot, window, past_time is None and _is_old(node))


def _node_content(snapshot: Snapshot) -> NodeContent:
    cleaned = clean_snapshot(snapshot)
    all_rows = rows(cleaned)
    return NodeContent(cleaned, all_rows, node_figures(all_rows), tuple(filter(None, (simulation_note(cleaned),))))


def _is_old(node: NodeState) -> bool:
    if node.snapshot is None or node.age_seconds is None:
        return False
    return node.age_seconds > node.snapshot.valid_until - node.snapshot.monotonic_time


def _past_rows(content: NodeContent, past: Past, slot: int) -> tuple[DeviceRow, ...]:
    return tuple(
        device_row(_past_device(row.device, past.devices.get(row.device.id, NO_SERIES), slot), (NOT_KEPT,))
        for row in content.rows
    )


def _past_device(device: MergedDevice, series: Mapping[str, Series], slot: int) -> MergedDevice:
    """Return the device with its values in a past slot instead of its current values."""
    readings = tuple(
        MergedReading(metric, _KEPT_LABELS.get(metric, ""), value, "history")
        for metric, history in series.items()
        if not math.isnan(value := value_at(history, slot))
    )
    return replace(device, readings=readings, processes=(), allocations=(), up=bool(readings) or None)


def value_at(series: Series, slot: int) -> float:
    """Return the series' last number in the slot, or NaN if the slot has no number."""
    return series.last[slot] if 0 <= slot < len(series.last) else math.nan


def reason_at(series: Series, slot: int) -> str:
    """Return the reason why the slot has no number, in words."""
    if not 0 <= slot < len(series.last):
        return "no longer kept"
    reasons = [gap.reason for gap in series.gaps if gap.first <= slot < gap.first + gap.slots]
    return reasons[0].replace("_", " ") if reasons else "no reason is known"


def chosen_node(state: State) -> NodeState | None:
    """Return the chosen node, by default the first."""
    nodes = [node for node in state.nodes if node.name == state.node] or state.nodes
    return nodes[0] if nodes else None


def chosen_scene(state: State) -> Scene | None:
    """Return the scene of the chosen node."""
    node = chosen_node(state)
    return None if node is None else scene_at(node, state.past_time)


def newest_slot_time(state: State) -> float | None:
    """Return the Unix time at which the newest slot of any node begins."""
    times = [past.start + (past.slots - 1) * past.slot_seconds for past in _histories(state)]
    return max(times, default=None)


def oldest_slot_time(state: State) -> float | None:
    """Return the Unix time at which the oldest slot of any node begins."""
    return min((past.start for past in _histories(state)), default=None)


def _histories(state: State) -> list[Past]:
    return [node.past for node in state.nodes if node.past is not None and node.past.slots]
