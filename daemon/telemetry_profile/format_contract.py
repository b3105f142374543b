"""The contract of a format, an entry point of the group `telemetry.profiles`: how it recognises and reads files, and the `Facts` it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

from telemetry_parsers.model import Problem

# In facts, times are integer nanoseconds; None and "" mean that the file does not contain the value.

# What a kernel does. `fused` computes and communicates, and counts as both. `wait` waits for another stream: its time is not counted.
Work = Literal["compute", "communication", "copy", "fused", "wait"]
# What `begin_ns` counts from: 1970, the boot of the node (CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME), or an unknown moment.
Clock = Literal["unix", "boot", "none"]
# What assigns a kernel to a step: its launch, or the host's clock when it ran; "" where the tool itself states the step.
StepBasis = Literal["launch", "host", ""]
# Where FLOPs come from: the file states them, or the shapes of its matrix operators give a lower bound.
Basis = Literal["told", "shapes"]


@dataclass(frozen=True, slots=True)
class Card:
    """The card as the profiler names it; `index` counts the devices that the job saw."""

    index: int | None = None
    model: str = ""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """How one device spent one span; each time is the length of a union of intervals."""

    span_ns: int | None = None
    compute_ns: int | None = None
    communication_ns: int | None = None
    exposed_communication_ns: int | None = None
    copy_ns: int | None = None
    exposed_copy_ns: int | None = None
    idle_ns: int | None = None
    wait_ns: int | None = None  # the part of communication that waits for other ranks
    data_wait_ns: int | None = None  # for which the host waited for its data
    launches: int | None = None
    graph_launches: int | None = None
    launching_ns: int | None = None  # from the first launch to the last
    gaps: int | None = None
    gap_ns: int | None = None  # the part of idle time in long gaps
    fused_ns: int | None = None

    def values(self) -> list[int | None]:
        """Return the parts in the order of the fields."""
        return [getattr(self, field.name) for field in fields(Split)]

    def joined(self, other: Split) -> Split:
        """Return the sums of two splits; a part that is unknown in either is unknown."""
        pairs = zip(self.values(), other.values(), strict=True)
        return Split(*(None if left is None or right is None else left + right for left, right in pairs))

    def without(self, *parts: str) -> Split:
        """Return the split with these parts unknown."""
        return replace(self, **dict.fromkeys(parts))


@dataclass(frozen=True, slots=True)
class Step:
    """One training step; `begin_ns` is None where the file has lengths only. `is_mean` marks the tool's own mean of many."""

    name: str
    split: Split
    begin_ns: int | None = None
    is_cut: bool = False
    is_mean: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """All runs of one kernel, copy or collective on one device; grid, block and occupancy are those of its longest run."""

    name: str
    work: Work
    calls: int
    total_ns: int
    longest_ns: int | None = None
    grid: str = ""
    block: str = ""
    occupancy_ratio: float | None = None  # an estimate of the profiler from the launch shape, not a measurement

    def joined(self, other: Kernel) -> Kernel:
        """Return the sums of two kernels; the longest run is unknown if it is unknown for either."""
        longest = max(self, other, key=lambda kernel: -1 if kernel.longest_ns is None else kernel.longest_ns)
        longest_ns = None if None in (self.longest_ns, other.longest_ns) else longest.longest_ns
        calls, total_ns = self.calls + other.calls, self.total_ns + other.total_ns
        return replace(longest, calls=calls, total_ns=total_ns, longest_ns=longest_ns)


def largest_first(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels in descending order of their total times."""
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_ns))


@dataclass(frozen=True, slots=True)
class FirstCollective:
    """A first collective that takes far longer than the others, since ranks wait in it for each other's profiler; `rest` excludes it."""

    length_ns: int
    rest: Split


@dataclass(frozen=True, slots=True)
class Gap:
    """A long time without work on a device; `since_ns` counts from the device's first interval."""

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
    """What one file contains about one device or rank; `begin_ns` and `end_ns` enclose all its work."""

    card: Card = Card()
    rank: int | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    split: Split = Split()
    steps: tuple[Step, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # largest total first
    flops: Flops | None = None
    dtype: str = ""  # of most of the matrix work
    first_collective: FirstCollective | None = None
    step_basis: StepBasis = ""
    gaps: tuple[Gap, ...] = ()
    without_gaps: Split | None = None  # excludes the gaps and the first collective

    def without_first_collective(self) -> Split | None:
        """Return the split that excludes the first collective; None if the device has no such collective."""
        return None if self.first_collective is None else self.limited(self.first_collective.rest)

    def without(self, *parts: str) -> Device:
        """Return the device with these parts of its splits unknown."""
        steps = tuple(replace(step, split=step.split.without(*parts)) for step in self.steps)
        return replace(self, split=self.split.without(*parts), steps=steps)

    def limited(self, part: Split) -> Split:
        """Return the split of a part of the time without the figures that are unknown for the whole time."""
        pairs = zip(self.split.values(), part.values(), strict=True)
        return Split(*(None if whole is None else value for whole, value in pairs))


THIS_RANK = "this rank"  # the source of a link in a file without a rank number


@dataclass(frozen=True, slots=True)
class Link:
    """The sums of the transfers over one link; its ends are rank or device numbers as the file prints them."""

    kind: str
    source: str
    target: str
    bytes_moved: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """The calls of one host function, added up: of a runtime's API, or of a range that the program marked."""

    name: str
    calls: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class Hint:
    """A sentence that supports a cause of slowness; `share` is the part of the step that it explains."""

    cause: Literal["data", "communication", "host", "compute", "copy"]
    text: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class RankCard:
    """The card of a rank; `node` is a digest of the node's address, which is never shown."""

    node: str
    index: int
    rank: int


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """The folder that contains the results of a node."""

    node: str
    folder: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of one file; `remarks` are sentences for the user, `problems` describe what could not be read."""

    format: str
    tool: str
    clock: Clock = "none"
    ranks: int | None = None  # the size of the job
    boot_to_unix_ns: int | None = None  # what to add to the node's boot clock to get Unix time
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    calls: tuple[Call, ...] = ()
    hints: tuple[Hint, ...] = ()
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    rank_cards: tuple[RankCard, ...] = ()
    node_folders: tuple[NodeFolder, ...] = ()


HEAD_BYTES = 65_536
# The stored columns of each table of a database. Views are left out: they are programs of the file.
Schema = Mapping[str, tuple[str, ...]]


class NotReadError(ValueError):
    """A recognised file cannot be read; the message states the reason and the remedy in one line."""


@dataclass(frozen=True, slots=True)
class Clue:
    """The data by which a format recognises a file: its name, the names of its folders, the nearest last, and its unpacked beginning."""

    name: str
    folders: tuple[str, ...]
    head: bytes

    @property
    def text(self) -> str:
        """Return the beginning as text, without a byte order mark."""
        return self.head.decode("utf-8-sig", "replace")


class TraceEvent(Protocol):
    """One event of a Chrome trace; of the kinds `ph`, X has a length, i is a moment and M names a lane, which is a process and a thread."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str

    def begin_ns(self) -> int | None:
        """Return the begin in the trace's own clock; None if it is not a number."""

    def length_ns(self) -> int | None:
        """Return the length; None if it is not a number."""

    def args(self) -> Mapping[str, Any]:
        """Return the arguments, which may be empty."""

    def correlation(self) -> int | None:
        """Return the number that a launch and the launched work have in common; None if there is none."""


@dataclass(frozen=True, slots=True)
class TraceSample:
    """The beginning of a Chrome trace: its first events, and the keys of the document that precede them."""

    clue: Clue
    keys: Mapping[str, Any]
    events: Sequence[TraceEvent]


class TraceReader(Protocol):
    """Reads the events of one trace in the order of the file."""

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Read a key of the document, which may precede or follow the events."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        """Read the next events."""

    def facts(self) -> Facts:
        """Return the facts of the whole trace."""


class Tables(Protocol):
    """A database that is open for reading."""

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
    """A format of sqlite databases."""

    name: str
    tool: str
    recognises: Callable[[Schema], bool]
    read: Callable[[Tables], Facts]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A closed format, which is recognised and never read; `remedy` names the export to make."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    remedy: str


ProfileFormat = TextFormat | TraceFormat | DatabaseFormat | Refusal
