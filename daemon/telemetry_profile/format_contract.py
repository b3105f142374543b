"""What a format is: how it knows its files, how it reads them, and the `Facts` that it gives.

Each format is an entry point of the group `telemetry.profiles`. `files/` opens, unpacks and bounds; a format sees a clue and then lines,
events or tables. In facts, times are integer nanoseconds; None and "" stand for what the file does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

from telemetry_parsers.model import Problem

Work = Literal["compute", "communication", "copy", "fused", "wait"]
"""What a kernel does. `fused` computes and communicates, and counts as both; one that waits for another stream is no work, and adds no time."""

Clock = Literal["unix", "boot", "none"]
"""What `begin_ns` counts from: 1970, the boot of the node (CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME), or nothing known."""

StepBasis = Literal["launch", "host", ""]
"""What decides to which step a kernel belongs: its launch, or the host's clock at the time it ran; "" where the tool itself says it."""

Basis = Literal["told", "shapes"]
"""Where FLOPs come from: the file states them, or the shapes of its matrix operators, which gives a lower bound."""


@dataclass(frozen=True, slots=True)
class Card:
    """The card as the profiler names it; `index` counts the devices that the job saw."""

    index: int | None = None
    model: str = ""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """How the time of one device was spent in one span; each figure is a union of intervals.

    `wait_ns` is the part of communication that waits for other ranks, `data_wait_ns` what the host waited for its data. `gap_ns` is the
    part of idle time that lies in `gaps` long gaps, `launching_ns` the time from the first launch to the last.
    """

    span_ns: int | None = None
    compute_ns: int | None = None
    communication_ns: int | None = None
    exposed_communication_ns: int | None = None
    copy_ns: int | None = None
    exposed_copy_ns: int | None = None
    idle_ns: int | None = None
    wait_ns: int | None = None
    data_wait_ns: int | None = None
    launches: int | None = None
    graph_launches: int | None = None
    launching_ns: int | None = None
    gaps: int | None = None
    gap_ns: int | None = None
    fused_ns: int | None = None

    def joined(self, other: Split) -> Split:
        """The split of two spans as that of one; what one of them does not tell is unknown."""
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(Split)}
        return Split(**{name: None if None in pair else sum(pair) for name, pair in pairs.items()})


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
    """All runs of one kernel, copy or collective on one device; grid, block and occupancy are those of its longest run.

    `occupancy_ratio` is what the profiler estimates from the launch shape, not a measurement.
    """

    name: str
    work: Work
    calls: int
    total_ns: int
    longest_ns: int | None = None
    grid: str = ""
    block: str = ""
    occupancy_ratio: float | None = None

    def joined(self, other: Kernel) -> Kernel:
        """The runs of both as those of one kernel, whose longest run is unknown where it is for one of them."""
        longest = max(self, other, key=lambda kernel: -1 if kernel.longest_ns is None else kernel.longest_ns)
        longest_ns = None if None in (self.longest_ns, other.longest_ns) else longest.longest_ns
        calls, total_ns = self.calls + other.calls, self.total_ns + other.total_ns
        return replace(longest, calls=calls, total_ns=total_ns, longest_ns=longest_ns)


def largest_first(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """The kernels as a device has them."""
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_ns))


@dataclass(frozen=True, slots=True)
class FirstCollective:
    """The first collective of a file where it takes far longer than any other: ranks wait there for those whose profiler begins later.

    `rest` is the split of all the time but this.
    """

    length_ns: int
    rest: Split


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing ran on a device, far longer than usual; from the begin of what it did."""

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
    """What one file says of one device, or of one rank. `begin_ns` and `end_ns` enclose all that it did.

    `kernels` has every kernel, largest total first. `dtype` is the data type of most of its matrix work. Where no steps are marked, `gaps`
    has its long gaps, and `without_gaps` is the split of all the time but these and the first collective.
    """

    card: Card = Card()
    rank: int | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    split: Split = Split()
    steps: tuple[Step, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    flops: Flops | None = None
    dtype: str = ""
    first_collective: FirstCollective | None = None
    step_basis: StepBasis = ""
    gaps: tuple[Gap, ...] = ()
    without_gaps: Split | None = None

    def without_first_collective(self) -> Split | None:
        """The split of all the time but this, as far as that of all the time is known; None where nothing is left out."""
        return None if self.first_collective is None else self.known(self.first_collective.rest)

    def known(self, part: Split) -> Split:
        """The split of a part of the time, as far as that of all the time is known."""
        unknown = {field.name: None for field in fields(Split) if getattr(self.split, field.name) is None}
        return replace(part, **unknown)


THIS_RANK = "this rank"
"""The source of a link in a file that does not tell its own rank."""


@dataclass(frozen=True, slots=True)
class Link:
    """What went over one link: size and time, summed; ends are rank or device numbers as the file prints them."""

    kind: str
    source: str
    target: str
    bytes_moved: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """All calls of one function of the host: a runtime's API, or a range that the user marked."""

    name: str
    calls: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class Hint:
    """A sentence that supports a cause of slowness, for the verdict; `share` is how much of the step it explains."""

    cause: Literal["data", "communication", "host", "compute", "copy"]
    text: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Which card a rank had; `node` stands for the node's address, which is never shown."""

    node: str
    index: int
    rank: int


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """In which folder the results of a node lie."""

    node: str
    folder: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that one file says.

    `ranks` is the size of the job. `boot_to_unix_ns` turns the node's boot clock into Unix time. `remarks` are sentences for
    the reader about what is left out or special; `problems` what could not be read. `rank_places` and `node_folders` say together
    which rank's files lie where.
    """

    format: str
    tool: str
    clock: Clock = "none"
    ranks: int | None = None
    boot_to_unix_ns: int | None = None
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    calls: tuple[Call, ...] = ()
    hints: tuple[Hint, ...] = ()
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    rank_places: tuple[RankPlace, ...] = ()
    node_folders: tuple[NodeFolder, ...] = ()


HEAD_BYTES = 65_536
Schema = Mapping[str, tuple[str, ...]]
"""The names of a database's tables, each with its stored columns. Views are left out: they are programs of the file."""


class NotReadError(ValueError):
    """A file was recognised and cannot be read; the text says why, in one line, and what to do."""


@dataclass(frozen=True, slots=True)
class Clue:
    """What is known of a file before it is read; `folders` are the names above it, the nearest last, `head` its unpacked beginning."""

    name: str
    folders: tuple[str, ...]
    head: bytes

    @property
    def text(self) -> str:
        """The beginning as text, without a byte order mark."""
        return self.head.decode("utf-8-sig", "replace")


class TraceEvent(Protocol):
    """One event of a Chrome trace."""

    @property
    def ph(self) -> str:
        """The kind of event: X has a length, i is a moment, M names a lane."""

    @property
    def cat(self) -> str:
        """The category, "" where there is none."""

    @property
    def name(self) -> str:
        """What happened."""

    @property
    def pid(self) -> int | str:
        """The lane's process."""

    @property
    def tid(self) -> int | str:
        """The lane."""

    def begin_ns(self) -> int | None:
        """When it began, in the trace's own clock; None where that is no number."""

    def length_ns(self) -> int | None:
        """How long it took; None where that is no number."""

    def args(self) -> Mapping[str, Any]:
        """The arguments; empty where there are none."""

    def correlation(self) -> int | None:
        """The number that a launch and what it launched have in common; None where there is none."""


@dataclass(frozen=True, slots=True)
class TraceSample:
    """The beginning of a Chrome trace: its first events, and the keys beside them that came before."""

    clue: Clue
    keys: Mapping[str, Any]
    events: Sequence[TraceEvent]


class TraceReader(Protocol):
    """Takes the events of one trace in the order of the file."""

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Take a key beside the events; it may come before or after them."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        """Take the next events."""

    def facts(self) -> Facts:
        """What the whole trace says."""


class Tables(Protocol):
    """A database that is open for reading."""

    @property
    def schema(self) -> Schema:
        """What there is to ask."""

    def rows(self, query: str, parameters: Sequence[int | float | str] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, as far as they can be read; NotReadError where the time is over."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of lines."""

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
    """A format in a sqlite database."""

    name: str
    tool: str
    recognises: Callable[[Schema], bool]
    read: Callable[[Tables], Facts]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A closed format: recognised, never read; `remedy` says which export to make."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    remedy: str


ProfileFormat = TextFormat | TraceFormat | DatabaseFormat | Refusal
