"""The contract of formats, which recognise and read files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

from telemetry_parsers.model import Problem

# In these classes, times are integer nanoseconds. None and "" mean that the file does not contain the value.

# `fused` kernels compute and communicate. `wait` kernels wait for another stream, and are ignored.
Work = Literal["compute", "communication", "copy", "fused", "wait"]
# `begin_ns` counts from 1970, from the boot of the node, or from an unknown time.
Clock = Literal["unix", "boot", "none"]
# What assigns kernels to steps: launches, the host's clock, or the tool itself ("").
StepBasis = Literal["launch", "host", ""]
# Where FLOPs come from: the file states them, or the shapes of matrix operators give a lower bound.
Basis = Literal["told", "shapes"]


@dataclass(frozen=True, slots=True)
class Card:
    """The card as the profiler identifies it. `index` is its number among the job's devices, not the node's."""

    index: int | None = None
    model: str = ""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """How one device spent a span of time. Overlapping intervals count only once."""

    span_ns: int | None = None
    compute_ns: int | None = None
    communication_ns: int | None = None
    exposed_communication_ns: int | None = None
    copy_ns: int | None = None
    exposed_copy_ns: int | None = None
    idle_ns: int | None = None
    wait_ns: int | None = None  # the part of communication that waits for other ranks
    data_wait_ns: int | None = None  # the host's wait for data
    launches: int | None = None
    graph_launches: int | None = None
    launching_ns: int | None = None  # the time from the first to the last launch
    gaps: int | None = None
    gap_ns: int | None = None  # the part of idle time in long gaps
    fused_ns: int | None = None

    def values(self) -> list[int | None]:
        """Return the values in the order of the fields."""
        return [getattr(self, field.name) for field in fields(Split)]

    def plus(self, other: Split) -> Split:
        """Return the sum of two splits. A value is unknown if it is unknown in either split."""
        pairs = zip(self.values(), other.values(), strict=True)
        return Split(*(None if left is None or right is None else left + right for left, right in pairs))

    def without(self, *parts: str) -> Split:
        """Return the split without the values named `parts`."""
        return replace(self, **dict.fromkeys(parts))


@dataclass(frozen=True, slots=True)
class Step:
    """One training step. `begin_ns` is None if the file has only durations."""

    name: str
    split: Split
    begin_ns: int | None = None
    is_cut: bool = False
    is_mean: bool = False  # whether the tool computed a mean of several steps


@dataclass(frozen=True, slots=True)
class Kernel:
    """All executions of one kernel, copy or collective on a device."""

    name: str
    work: Work
    calls: int
    total_ns: int
    longest_ns: int | None = None
    grid: str = ""  # grid, block and occupancy are those of the longest execution
    block: str = ""
    occupancy_ratio: float | None = None  # the profiler's estimate from the launch shape, not a measurement

    def plus(self, other: Kernel) -> Kernel:
        """Return a kernel that combines the executions of both."""
        longest = max(self, other, key=lambda kernel: -1 if kernel.longest_ns is None else kernel.longest_ns)
        longest_ns = None if None in (self.longest_ns, other.longest_ns) else longest.longest_ns
        calls, total_ns = self.calls + other.calls, self.total_ns + other.total_ns
        return replace(longest, calls=calls, total_ns=total_ns, longest_ns=longest_ns)


def largest_first(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels in descending order of their total times."""
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_ns))


@dataclass(frozen=True, slots=True)
class FirstCollective:
    """An unusually long first collective, in which ranks wait until all profilers run."""

    length_ns: int
    rest: Split


@dataclass(frozen=True, slots=True)
class Gap:
    """A long idle period. `since_ns` is relative to the start of the device's first work."""

    since_ns: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of one device."""

    basis: Basis
    total: float | None = None
    per_step: float | None = None
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """What one file contains about one device or rank."""

    card: Card = Card()
    rank: int | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    split: Split = Split()
    steps: tuple[Step, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # the kernel with the largest total time comes first
    flops: Flops | None = None
    dtype: str = ""  # the data type of most of the matrix work
    first_collective: FirstCollective | None = None
    step_basis: StepBasis = ""
    gaps: tuple[Gap, ...] = ()
    without_gaps: Split | None = None  # excludes long gaps and an unusual first collective

    def without_first_collective(self) -> Split | None:
        """Return how the device spent its time outside an unusually long first collective."""
        return None if self.first_collective is None else self.known_values_of(self.first_collective.rest)

    def without(self, *parts: str) -> Device:
        """Return the device without the values named `parts`."""
        steps = tuple(replace(step, split=step.split.without(*parts)) for step in self.steps)
        return replace(self, split=self.split.without(*parts), steps=steps)

    def followed_by(self, later: Device) -> Device:
        """Combine the results with those of a later part of the session."""
        sums: dict[tuple[str, str], Kernel] = {}
        for kernel in (*self.kernels, *later.kernels):
            previous = sums.get((kernel.work, kernel.name))
            sums[kernel.work, kernel.name] = kernel if previous is None else previous.plus(kernel)
        gap_ns, split = (later.begin_ns or 0) - (self.end_ns or 0), self.split.plus(later.split)
        extended = {key: value + gap_ns for key in ("span_ns", "idle_ns") if (value := getattr(split, key)) is not None}
        return replace(
            self,
            end_ns=later.end_ns,
            split=replace(split, **extended),
            steps=(*self.steps, *later.steps),
            kernels=largest_first(sums.values()),
            first_collective=None,
            gaps=(),
            without_gaps=None,
        )

    def known_values_of(self, part: Split) -> Split:
        """Return `part` without the values that are unknown for the device's whole time."""
        pairs = zip(self.split.values(), part.values(), strict=True)
        return Split(*(None if whole is None else value for whole, value in pairs))


THIS_RANK = "this rank"  # stands for the source of a link if the file does not name its rank


@dataclass(frozen=True, slots=True)
class Link:
    """All transfers over one link between ranks or devices."""

    kind: str
    source: str
    target: str
    bytes_moved: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """All calls of one host function or marked range."""

    name: str
    calls: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class Hint:
    """A sentence with evidence for a cause. `share` is the part of the step that the cause explains."""

    cause: Literal["data", "communication", "host", "compute", "copy"]
    text: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class RankCard:
    """The card of a rank. `node` is a digest of the node's address."""

    node: str
    index: int
    rank: int


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A folder with the results of one node."""

    node: str
    folder: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of one file. `remarks` are sentences for the user."""

    format: str
    tool: str
    clock: Clock = "none"
    ranks: int | None = None  # the number of ranks in the job
    boot_to_unix_ns: int | None = None  # Unix time minus the time of the node's boot clock
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    calls: tuple[Call, ...] = ()
    hints: tuple[Hint, ...] = ()
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    rank_cards: tuple[RankCard, ...] = ()
    node_folders: tuple[NodeFolder, ...] = ()


HEAD_BYTES = 65_536
# Maps tables to their stored columns. Views are excluded, because views are code from the file.
Schema = Mapping[str, tuple[str, ...]]


class NotReadError(ValueError):
    """A recognised file cannot be read. The message includes the remedy."""


@dataclass(frozen=True, slots=True)
class Clue:
    """The data by which a format recognises a file: its name, folders and beginning."""

    name: str
    folders: tuple[str, ...]
    head: bytes

    @property
    def text(self) -> str:
        """Return the beginning of the file as text, without a byte order mark."""
        return self.head.decode("utf-8-sig", "replace")


class TraceEvent(Protocol):
    """One event of a Chrome trace. `ph` is its type, such as X for a duration."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str

    def begin_ns(self) -> int | None:
        """Return the start on the trace's own clock, or None if it is not a number."""

    def length_ns(self) -> int | None:
        """Return the duration, or None if it is not a number."""

    def args(self) -> Mapping[str, Any]:
        """Return the arguments, which may be empty."""

    def correlation(self) -> int | None:
        """Return the correlation ID, which links a launch to its work."""


@dataclass(frozen=True, slots=True)
class TraceSample:
    """The beginning of a Chrome trace: its first events, and the keys before them."""

    clue: Clue
    keys: Mapping[str, Any]
    events: Sequence[TraceEvent]


class TraceReader(Protocol):
    """Reads the events of one trace in the order of the file."""

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Read a key of the document. It may come before or after the events."""

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        """Read the next events."""

    def facts(self) -> Facts:
        """Return the content of the whole trace."""


class Tables(Protocol):
    """The tables of a database that is open for reading."""

    @property
    def schema(self) -> Schema:
        """Return the tables and their columns."""

    def rows(self, query: str, parameters: Sequence[int | float | str] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the readable rows of a query. Raise NotReadError after a timeout."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of text lines."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    read: Callable[[Clue, Iterable[str]], Facts]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format of Chrome trace events."""

    name: str
    tool: str
    recognises: Callable[[TraceSample], bool]
    reader: Callable[[Clue], TraceReader]


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """A format of SQLite databases."""

    name: str
    tool: str
    recognises: Callable[[Schema], bool]
    read: Callable[[Tables], Facts]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A closed format, whose files are recognised but never read."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    remedy: str  # names an export that can be read instead


ProfileFormat = TextFormat | TraceFormat | DatabaseFormat | Refusal
