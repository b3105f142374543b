"""The contract of formats, which recognise and read files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

from telemetry_parsers.model import Problem

# In the classes of this module, times are integer nanoseconds. None and "" mean that a file does not contain the value.

# `fused` kernels compute and communicate. `wait` kernels wait for another stream, and are ignored.
Work = Literal["compute", "communication", "copy", "fused", "wait"]
# `begin_ns` counts from 1970, from the boot of the node, or from an unknown time.
Clock = Literal["unix", "boot", "none"]
# How kernels were assigned to steps: by their launches, by the times of the steps on the host, or by the tool ("").
StepBasis = Literal["launch", "host", ""]
# Words of the JSON document. "told": reported by the file. "shapes": a lower bound from the shapes of matrix operators.
FlopsBasis = Literal["told", "shapes"]


@dataclass(frozen=True, slots=True)
class Card:
    """A card, as the profiler identifies it. `index` numbers the devices of the job, not of the node."""

    index: int | None = None
    model: str = ""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """How one device spent a span of time. Work that runs in parallel is counted once."""

    span_ns: int | None = None
    compute_ns: int | None = None
    communication_ns: int | None = None
    exposed_communication_ns: int | None = None  # communication while no kernel computes
    copy_ns: int | None = None
    exposed_copy_ns: int | None = None  # copies while no kernel computes or communicates
    idle_ns: int | None = None
    wait_ns: int | None = None  # the part of communication that waits for other ranks
    data_wait_ns: int | None = None  # the host's wait for data
    launches: int | None = None
    graph_launches: int | None = None
    launching_ns: int | None = None  # the time from the first to the last launch
    gaps: int | None = None
    gap_ns: int | None = None  # the part of idle time in long gaps
    fused_ns: int | None = None  # kernels that compute and communicate; included in both

    def values(self) -> list[int | None]:
        """Return the values in the order of the fields."""
        return [getattr(self, field.name) for field in fields(Split)]

    def plus(self, other: Split) -> Split:
        """Return the sum of two splits. A value is unknown if it is unknown in either split."""
        pairs = zip(self.values(), other.values(), strict=True)
        return Split(*(None if left is None or right is None else left + right for left, right in pairs))

    def without(self, *field_names: str) -> Split:
        """Return the split with these fields set to None."""
        return replace(self, **dict.fromkeys(field_names))


@dataclass(frozen=True, slots=True)
class Step:
    """One training step. `begin_ns` is None if the file contains only the duration."""

    name: str
    split: Split
    begin_ns: int | None = None
    is_cut: bool = False  # whether work of the step may be missing
    is_mean: bool = False  # whether this is the mean of several steps, computed by the tool


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
        """Return a kernel with the executions of both kernels."""
        longest = max(self, other, key=lambda kernel: -1 if kernel.longest_ns is None else kernel.longest_ns)
        longest_ns = None if None in (self.longest_ns, other.longest_ns) else longest.longest_ns
        calls, total_ns = self.calls + other.calls, self.total_ns + other.total_ns
        return replace(longest, calls=calls, total_ns=total_ns, longest_ns=longest_ns)


def sort_kernels(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels in descending order of their total times."""
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_ns))


@dataclass(frozen=True, slots=True)
class FirstCollective:
    """An unusually long first collective, in which ranks wait until all profilers run."""

    length_ns: int
    rest: Split  # how the device spent the other time


@dataclass(frozen=True, slots=True)
class Gap:
    """A long idle period. `offset_ns` is its start, relative to the start of the device's first work."""

    offset_ns: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of one device."""

    basis: FlopsBasis
    total: float | None = None
    per_step: float | None = None
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """The results that one file contains about one device or rank."""

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
    without_gaps: Split | None = None  # how the device spent the time outside `gaps` and `first_collective`

    def split_without_first_collective(self) -> Split | None:
        """Return how the device spent the time outside `first_collective`, or None if there is none."""
        return None if self.first_collective is None else self.known_values_of(self.first_collective.rest)

    def without(self, *field_names: str) -> Device:
        """Return the device with these fields of its split and its steps set to None."""
        steps = tuple(replace(step, split=step.split.without(*field_names)) for step in self.steps)
        return replace(self, split=self.split.without(*field_names), steps=steps)

    def extended_by(self, later: Device) -> Device:
        """Return the results of this part of a session and of a later part, as one device."""
        sums: dict[tuple[str, str], Kernel] = {}
        for kernel in (*self.kernels, *later.kernels):
            previous = sums.get((kernel.work, kernel.name))
            sums[kernel.work, kernel.name] = kernel if previous is None else previous.plus(kernel)
        time_between, split = (later.begin_ns or 0) - (self.end_ns or 0), self.split.plus(later.split)
        names = [name for name in ("span_ns", "idle_ns") if getattr(split, name) is not None]
        return replace(
            self,
            end_ns=later.end_ns,
            split=replace(split, **{name: getattr(split, name) + time_between for name in names}),
            steps=(*self.steps, *later.steps),
            kernels=sort_kernels(sums.values()),
            first_collective=None,
            gaps=(),
            without_gaps=None,
        )

    def known_values_of(self, part: Split) -> Split:
        """Return `part` without the values that are None in the device's `split`."""
        pairs = zip(self.split.values(), part.values(), strict=True)
        return Split(*(None if whole is None else value for whole, value in pairs))


THIS_RANK = "this rank"  # stands for the source of a link if the file does not name its rank


@dataclass(frozen=True, slots=True)
class Link:
    """The sum of all transfers over one link between ranks or devices."""

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
    """The card that a rank uses. `node` is a digest of the node's address, and `index` the card's number on the node."""

    node: str
    index: int
    rank: int


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """The name of the folder with the results of a node. `node` is a digest of the node's address."""

    node: str
    folder: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of one file. `remarks` are sentences for the user."""

    format: str
    tool: str
    clock: Clock = "none"
    job_ranks: int | None = None  # the number of ranks in the job
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
    """A recognised file cannot be read. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class FileSample:
    """The name, the folders and the first bytes of a file, by which its format is recognised."""

    name: str
    folders: tuple[str, ...]
    head: bytes

    @property
    def text(self) -> str:
        """Return the first bytes as text, without a byte order mark."""
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
        """Return the arguments, or {} if the event has none."""

    def correlation(self) -> int | None:
        """Return the correlation ID, which links a launch to the launched work, or None if there is none."""


@dataclass(frozen=True, slots=True)
class TraceSample:
    """The beginning of a Chrome trace: its first events, and the keys before them."""

    file: FileSample
    keys: Mapping[str, Any]
    events: Sequence[TraceEvent]


class TraceReader(Protocol):
    """Reads the events of one trace in the order of the file."""

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Read a key of the document, which may come before or after the events."""

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
        """Yield the readable rows of a query. Raise NotReadError if the query exceeds the time limit."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of text lines."""

    name: str
    tool: str
    recognises: Callable[[FileSample], bool]
    read: Callable[[FileSample, Iterable[str]], Facts]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format of Chrome trace events."""

    name: str
    tool: str
    recognises: Callable[[TraceSample], bool]
    reader: Callable[[FileSample], TraceReader]


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """A format of SQLite databases."""

    name: str
    tool: str
    recognises: Callable[[Schema], bool]
    read: Callable[[Tables], Facts]


@dataclass(frozen=True, slots=True)
class UnsupportedFormat:
    """A format whose files are recognised, but cannot be read."""

    name: str
    tool: str
    recognises: Callable[[FileSample], bool]
    remedy: str  # the message for the user: why the file cannot be read, and what to pass instead


ProfileFormat = TextFormat | TraceFormat | DatabaseFormat | UnsupportedFormat
