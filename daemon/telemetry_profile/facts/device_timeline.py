"""Intervals on devices become splits, steps and kernels. It keeps device intervals only, as arrays of numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from operator import le

from telemetry_parsers.model import Problem
from telemetry_profile.facts.kernel_kinds import is_data_wait, is_step
from telemetry_profile.format_contract import (
    Call,
    Card,
    Clock,
    Device,
    Facts,
    FirstCollective,
    Kernel,
    Link,
    Split,
    Step,
    Work,
)

MOST_NAME_CHARACTERS = 1000
MOST_NAMES = 100_000
OTHERS = "(others)"
LONGEST_NS = 400 * 86_400 * 10**9  # no run is longer; what broken times give
_EARLIEST_NS, _LATEST_NS = -(2**62), 2**62
_FAR_LONGER = 2
"""No collective of the same program takes so many times as long as each of the others without a reason outside it."""

Interval = tuple[int, int]


@dataclass(slots=True)
class _Runs:
    """Begins and ends of one kind of work, in the order of the file, and their union when it is asked for."""

    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))

    def add(self, begin: int, end: int) -> None:
        """Keep one interval."""
        self.begins.append(begin)
        self.ends.append(end)

    def union(self) -> Union:
        """The time in which any of them ran."""
        return Union.of_ordered((self.begins[number], self.ends[number]) for number in _ascending(self.begins))


@dataclass(frozen=True, slots=True)
class Union:
    """Disjoint intervals in ascending order, and the time covered before each."""

    begins: Sequence[int]
    ends: Sequence[int]
    before: Sequence[int]

    @staticmethod
    def of(intervals: Iterable[Interval]) -> Union:
        """The union of any intervals."""
        return Union.of_ordered(sorted(intervals))

    @staticmethod
    def of_ordered(intervals: Iterable[Interval]) -> Union:
        """The union of intervals in the order of their begins."""
        begins, ends = array("q"), array("q")
        for begin, end in intervals:
            if ends and begin <= ends[-1]:
                if end > ends[-1]:
                    ends[-1] = end
            else:
                begins.append(begin)
                ends.append(end)
        before = array("q", [0])
        for begin, end in zip(begins, ends, strict=True):
            before.append(before[-1] + end - begin)
        return Union(begins, ends, before)

    def within(self, begin: int, end: int) -> int:
        """How much of a span is covered."""
        return self._until(end) - self._until(begin)

    def _until(self, time: int) -> int:
        number = bisect_right(self.begins, time)
        if not number:
            return 0
        return self.before[number] - max(0, self.ends[number - 1] - time)

    def joined(self, *others: Union) -> Union:
        """The union of several."""
        unions = [union for union in (self, *others) if union.begins]
        if len(unions) == 1:
            return unions[0]
        return Union.of_ordered(merge(*(zip(union.begins, union.ends, strict=True) for union in unions)))


def _ascending(numbers: Sequence[int]) -> Sequence[int]:
    """The places of numbers from the smallest to the largest; most files have them so, which takes no memory."""
    if all(map(le, numbers, islice(numbers, 1, None))):
        return range(len(numbers))
    return sorted(range(len(numbers)), key=numbers.__getitem__)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    total_ns: int = 0
    longest_ns: int = -1
    grid: str = ""
    block: str = ""
    occupancy_ratio: float | None = None


@dataclass(slots=True)
class _Lane:
    """What one device did."""

    card: Card
    rank: int | None = None
    processes: set[Hashable] = field(default_factory=set)
    runs: dict[Work, _Runs] = field(
        default_factory=lambda: {"compute": _Runs(), "communication": _Runs(), "copy": _Runs()}
    )
    tallies: defaultdict[tuple[Work, str], _Tally] = field(default_factory=lambda: defaultdict(_Tally))

    def tally(self, work: Work, name: str) -> _Tally:
        key = (work, name[:MOST_NAME_CHARACTERS])
        if key not in self.tallies and len(self.tallies) >= MOST_NAMES:
            key = (work, OTHERS)
        return self.tallies[key]


class LinkSums:
    """Adds up what went over each link."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], list[int]] = {}

    def add(self, kind: str, source: str, target: str, size: int, length_ns: int | None) -> None:
        """One transfer; one without a length, or with an impossible one, tells no speed."""
        key = (kind, source, target)
        if (
            length_ns is None
            or not 0 < length_ns < LONGEST_NS
            or (key not in self._sums and len(self._sums) >= MOST_NAMES)
        ):
            return
        counted = self._sums.setdefault(key, [0, 0])
        counted[0] += size
        counted[1] += length_ns

    def links(self) -> tuple[Link, ...]:
        """All links, in the order of the file."""
        return tuple(Link(*key, *counted) for key, counted in self._sums.items())


class Timeline:
    """Collects the intervals of one file; `devices()` says what they come to.

    A device is named by any key. Steps and waits for data belong to a process of the host, thus to the devices that this
    process used; those of no process that is told belong to every device of the file.
    """

    def __init__(self) -> None:
        self._lanes: dict[Hashable, _Lane] = {}
        self._steps: list[tuple[Hashable, str, int, int, bool]] = []
        self._data_waits: dict[Hashable, _Runs] = {}
        self._calls: dict[str, list[int]] = {}
        self._launches: array[int] = array("q")
        self._launches_in_order = True
        self._impossible = 0

    def card(self, key: Hashable, card: Card, rank: int | None = None, process: Hashable = None) -> None:
        """Say which card a key means, and which rank and process used it; before or after its first interval."""
        lane = self._lanes.setdefault(key, _Lane(card))
        lane.card, lane.rank = card, rank
        if process is not None:
            lane.processes.add(process)

    def add(  # the columns of one row, called for each event
        self,
        key: Hashable,
        work: Work,
        begin_ns: int | None,
        length_ns: int | None,
        name: str,
        grid: str = "",
        block: str = "",
        occupancy_ratio: float | None = None,
    ) -> None:
        """Something ran on a device; what has impossible times is counted as a problem and adds nothing."""
        span = self._span(begin_ns, length_ns)
        if span is None:
            return
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(Card(index=key if isinstance(key, int) else None))
        lane.runs[work].add(*span)
        tally = lane.tally(work, name)
        length_ns = span[1] - span[0]
        tally.calls += 1
        tally.total_ns += length_ns
        if length_ns > tally.longest_ns:
            tally.longest_ns, tally.grid, tally.block, tally.occupancy_ratio = length_ns, grid, block, occupancy_ratio

    def step(  # the columns of one row
        self,
        name: str,
        begin_ns: int | None,
        length_ns: int | None,
        *,
        is_cut: bool = False,
        process: Hashable = None,
    ) -> None:
        """The host ran one step."""
        span = self._span(begin_ns, length_ns)
        if span is not None and len(self._steps) < MOST_NAMES:
            self._steps.append((process, name[:MOST_NAME_CHARACTERS], *span, is_cut))

    def data_wait(self, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> None:
        """The host waited for its data."""
        span = self._span(begin_ns, length_ns)
        if span is not None:
            self._data_waits.setdefault(process, _Runs()).add(*span)

    def marked(self, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> bool:
        """The program marked a range; whether it is a step or a wait for data, which alone are kept."""
        if is_step(name):
            self.step(name.strip(), begin_ns, length_ns, process=process)
            return True
        if is_data_wait(name):
            self.data_wait(begin_ns, length_ns, process)
            return True
        return False

    def call(self, name: str, length_ns: int | None, calls: int = 1) -> None:
        """The host called a function, or did so many times in this time."""
        if length_ns is None or not 0 <= length_ns < LONGEST_NS:
            self._impossible += calls
            return
        name = name[:MOST_NAME_CHARACTERS]
        if name not in self._calls and len(self._calls) >= MOST_NAMES:
            name = OTHERS
        counted = self._calls.setdefault(name, [0, 0])
        counted[0] += calls
        counted[1] += length_ns

    def launch(self, begin_ns: int | None) -> None:
        """The host launched a kernel, or a graph of them."""
        if begin_ns is not None and _EARLIEST_NS < begin_ns < _LATEST_NS:
            self._launches.append(begin_ns)
            self._launches_in_order = False

    def facts(self, format_name: str, tool: str, clock: Clock) -> Facts:
        """All that the file says where it says nothing else."""
        return Facts(format_name, tool, clock, devices=self.devices(), calls=self.calls(), problems=self.problems())

    def devices(self) -> tuple[Device, ...]:
        """Each device on which something ran, in the order of their numbers."""
        found = [self._device(lane) for lane in self._lanes.values() if lane.tallies]
        return tuple(
            sorted(found, key=lambda device: (device.rank or 0, device.card.index is None, device.card.index or 0))
        )

    def calls(self) -> tuple[Call, ...]:
        """The calls of the host, largest total first."""
        return tuple(
            sorted((Call(name, *counted) for name, counted in self._calls.items()), key=lambda call: -call.total_ns)
        )

    def problems(self) -> tuple[Problem, ...]:
        """What was left out."""
        if not self._impossible:
            return ()
        return (Problem("events", f"{self._impossible} have an impossible time or length, and are left out"),)

    def _span(self, begin_ns: int | None, length_ns: int | None) -> Interval | None:
        """Begin and end; None, and counted, where they are impossible."""
        if (
            begin_ns is None
            or length_ns is None
            or not 0 <= length_ns < LONGEST_NS
            or not _EARLIEST_NS < begin_ns < _LATEST_NS
        ):
            self._impossible += 1
            return None
        return begin_ns, begin_ns + length_ns

    def _launched(self, split: Split, begin: int, end: int) -> Split:
        """The split of a step with what the host launched in it; of several cards nobody knows on which."""
        if not self._launches or sum(bool(lane.tallies) for lane in self._lanes.values()) > 1:
            return split
        if not self._launches_in_order:
            self._launches = array("q", sorted(self._launches))
            self._launches_in_order = True
        return replace(split, launches=bisect_left(self._launches, end) - bisect_left(self._launches, begin))

    def _device(self, lane: _Lane) -> Device:
        waits = [runs.union() for process, runs in self._data_waits.items() if _used(process, lane)]
        splitter = _Splitter(lane, waits[0].joined(*waits[1:]) if waits else None)
        begin, end = splitter.span()
        steps = tuple(
            Step(name, self._launched(splitter.split(since, until), since, until), since, is_cut)
            for process, name, since, until, is_cut in sorted(self._steps, key=lambda step: step[2])
            if _used(process, lane)
        )
        whole, kernels = splitter.split(begin, end), _kernels(lane)
        first = _first_collective(lane, splitter)
        return Device(lane.card, lane.rank, begin, end, whole, steps, kernels, first_collective=first)


def _used(process: Hashable, lane: _Lane) -> bool:
    """Whether a process may have used a device: not where both are told, and it is none of those that did."""
    return process is None or not lane.processes or process in lane.processes


class _Splitter:
    """Divides any span of one device."""

    def __init__(self, lane: _Lane, waits: Union | None) -> None:
        self.compute = lane.runs["compute"].union()
        self.communication = lane.runs["communication"].union()
        self.copy = lane.runs["copy"].union()
        self.kernels = self.compute.joined(self.communication)
        self.busy = self.kernels.joined(self.copy)
        self.waits = waits
        begins = lane.runs["compute"].begins + lane.runs["communication"].begins
        self.launches = array("q", (begins[number] for number in _ascending(begins)))

    def span(self) -> Interval:
        return self.busy.begins[0], self.busy.ends[-1]

    def split(self, begin: int, end: int) -> Split:
        compute, kernels, busy = (union.within(begin, end) for union in (self.compute, self.kernels, self.busy))
        return Split(
            span_ns=end - begin,
            compute_ns=compute,
            communication_ns=self.communication.within(begin, end),
            exposed_communication_ns=kernels - compute,
            copy_ns=self.copy.within(begin, end),
            exposed_copy_ns=busy - kernels,
            idle_ns=end - begin - busy,
            data_wait_ns=None if self.waits is None else self.waits.within(begin, end),
            launches=bisect_left(self.launches, end) - bisect_left(self.launches, begin),
        )


def waiting_first(begins: Sequence[int], lengths: Sequence[int]) -> int | None:
    """Which of these collectives is the first and far longer than each of the others; None where that one is not."""
    if len(begins) < 2:
        return None
    first = min(range(len(begins)), key=begins.__getitem__)
    longest = max(length for number, length in enumerate(lengths) if number != first)
    return first if lengths[first] > _FAR_LONGER * longest else None


def _first_collective(lane: _Lane, splitter: _Splitter) -> FirstCollective | None:
    runs = lane.runs["communication"]
    lengths = [end - begin for begin, end in zip(runs.begins, runs.ends, strict=True)]
    first = waiting_first(runs.begins, lengths)
    if first is None:
        return None
    begin, end = splitter.span()
    rest = splitter.split(begin, runs.begins[first]).joined(splitter.split(runs.ends[first], end))
    return FirstCollective(lengths[first], rest)


def _kernels(lane: _Lane) -> tuple[Kernel, ...]:
    found = (
        Kernel(
            name, work, tally.calls, tally.total_ns, tally.longest_ns, tally.grid, tally.block, tally.occupancy_ratio
        )
        for (work, name), tally in lane.tallies.items()
    )
    return tuple(sorted(found, key=lambda kernel: (-kernel.total_ns, kernel.name)))
