"""Collects the intervals of one file, as arrays of numbers, and makes splits, steps and kernels of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from telemetry_parsers.model import Problem
from telemetry_profile.facts.intervals import Interval, Runs
from telemetry_profile.facts.kernel_kinds import is_data_wait, is_step
from telemetry_profile.facts.splits import Launches, Splitter, first_collective_of, gaps_of
from telemetry_profile.format_contract import (
    Call,
    Card,
    Clock,
    Device,
    Facts,
    Kernel,
    Link,
    Split,
    Step,
    Work,
)

# The longest names of real kernels have some thousands of characters; longer names only fill the memory.
MOST_NAME_CHARACTERS = 1 << 16
MOST_NAMES = 100_000
OTHERS = "(others)"
LONGEST_NS = 400 * 86_400 * 10**9  # longer than any run; the result of broken times
_EARLIEST_NS, _LATEST_NS = -(2**62), 2**62
_WORKS: tuple[Work, ...] = ("compute", "communication", "copy", "fused")
Launched = Literal["kernel", "graph", "copy"]


class _Marked(NamedTuple):
    """A step that the host marked."""

    process: Hashable
    name: str
    begin: int
    end: int


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
    """The work of one device."""

    card: Card
    rank: int | None = None
    processes: set[Hashable] = field(default_factory=set)
    runs: dict[Work, Runs] = field(default_factory=lambda: {work: Runs() for work in _WORKS})
    tallies: defaultdict[tuple[Work, str], _Tally] = field(default_factory=lambda: defaultdict(_Tally))

    def tally(self, work: Work, name: str) -> _Tally:
        key = (work, name[:MOST_NAME_CHARACTERS])
        if key not in self.tallies and len(self.tallies) >= MOST_NAMES:
            key = (work, OTHERS)
        return self.tallies[key]


class LinkSums:
    """Adds up the transfers over each link."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], list[int]] = {}

    def add(self, kind: str, source: str, target: str, size: int, length_ns: int | None) -> None:
        """Add a transfer; one without a possible length is left out, since it has no speed."""
        key = (kind, source, target)
        if length_ns is None or not 0 < length_ns < LONGEST_NS:
            return
        if key in self._sums or len(self._sums) < MOST_NAMES:
            counted = self._sums.setdefault(key, [0, 0])
            counted[0] += size
            counted[1] += length_ns

    def links(self) -> tuple[Link, ...]:
        """Return all links in the order of the file."""
        return tuple(Link(*key, *counted) for key, counted in self._sums.items())


class Timeline:
    """Collects the intervals of one file; keys identify devices. Steps and waits belong to the devices that their process used."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, _Lane] = {}
        self._steps: list[_Marked] = []
        self._data_waits: dict[Hashable, Runs] = {}
        self._calls: dict[str, list[int]] = {}
        self._launches: array[int] = array("q")
        self._graphs: array[int] = array("q")
        self._launched = Launches()
        self._impossible = 0

    def set_card(self, key: Hashable, card: Card, rank: int | None = None, process: Hashable = None) -> None:
        """Set the card of a key, its rank, and a process that used it, before or after its first interval."""
        lane = self._lanes.setdefault(key, _Lane(card))
        lane.card, lane.rank = card, rank
        if process is not None:
            lane.processes.add(process)

    def add(  # separate arguments, because it is called for each event
        self,
        key: Hashable,
        work: Work,
        begin_ns: int | None,
        length_ns: int | None,
        name: str,
        grid: str = "",
        block: str = "",
        occupancy_ratio: float | None = None,
        launch: int = -1,
    ) -> None:
        """Add work of a device, by the launch of this number; an impossible time is only counted as a problem."""
        span = self._span(begin_ns, length_ns)
        if span is None:
            return
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(Card(index=key if isinstance(key, int) else None))
        if work != "wait":
            lane.runs[work].add(*span, launch)
        tally = lane.tally(work, name)
        length_ns = span[1] - span[0]
        tally.calls += 1
        tally.total_ns += length_ns
        if length_ns > tally.longest_ns:
            tally.longest_ns, tally.grid, tally.block, tally.occupancy_ratio = length_ns, grid, block, occupancy_ratio

    def step(self, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> None:
        """Add a step of the host."""
        span = self._span(begin_ns, length_ns)
        if span is not None and len(self._steps) < MOST_NAMES:
            self._steps.append(_Marked(process, name[:MOST_NAME_CHARACTERS], *span))

    def data_wait(self, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> None:
        """Add a wait of the host for its data."""
        span = self._span(begin_ns, length_ns)
        if span is not None:
            self._data_waits.setdefault(process, Runs()).add(*span)

    def marked(self, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> bool:
        """Add a range that the program marked; return whether it was a step or a wait for data, other ranges are dropped."""
        if is_step(name):
            self.step(name.strip(), begin_ns, length_ns, process)
        elif is_data_wait(name):
            self.data_wait(begin_ns, length_ns, process)
        else:
            return False
        return True

    def call(self, name: str, length_ns: int | None, calls: int = 1) -> None:
        """Add calls of a function of the host."""
        if length_ns is None or not 0 <= length_ns < LONGEST_NS:
            self._impossible += calls
            return
        name = name[:MOST_NAME_CHARACTERS]
        if name not in self._calls and len(self._calls) >= MOST_NAMES:
            name = OTHERS
        counted = self._calls.setdefault(name, [0, 0])
        counted[0] += calls
        counted[1] += length_ns

    def launch(self, begin_ns: int | None, kind: Launched, number: int | None = None) -> None:
        """Add a launch of the host, with the number that the launched work also has."""
        if begin_ns is None or not _EARLIEST_NS < begin_ns < _LATEST_NS:
            return
        if number is not None:
            self._launched.add(number, begin_ns)
        if kind != "copy":
            self._launches.append(begin_ns)
        if kind == "graph":
            self._graphs.append(begin_ns)

    def host_steps(self) -> list[Interval]:
        """Return the spans of the steps on the host, in the order of the steps of a device."""
        return [(step.begin, step.end) for step in self._steps]

    def facts(self, name: str, tool: str, clock: Clock, devices: tuple[Device, ...] | None = None) -> Facts:
        """Return the facts of a file; `devices` are those of the timeline with additions of the format."""
        found = self.devices() if devices is None else devices
        return Facts(name, tool, clock, devices=found, calls=self.calls(), problems=self.problems())

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that did any work, in the order of their numbers."""
        self._steps.sort(key=lambda step: step.begin)
        self._launches, self._graphs = (array("q", sorted(times)) for times in (self._launches, self._graphs))
        lanes = [lane for lane in self._lanes.values() if any(runs.begins for runs in lane.runs.values())]
        found = [self._device(lane, is_alone=len(lanes) == 1) for lane in lanes]
        return tuple(
            sorted(found, key=lambda device: (device.rank or 0, device.card.index is None, device.card.index or 0))
        )

    def calls(self) -> tuple[Call, ...]:
        """Return the calls of the host, largest total first."""
        return tuple(
            sorted((Call(name, *counted) for name, counted in self._calls.items()), key=lambda call: -call.total_ns)
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return a problem if events were left out."""
        words = f"{self._impossible} have an impossible time or length, and are left out"
        return (Problem("events", words),) if self._impossible else ()

    def _span(self, begin_ns: int | None, length_ns: int | None) -> Interval | None:
        """Return begin and end; count impossible values and return None for them."""
        if (
            begin_ns is None
            or length_ns is None
            or not (0 <= length_ns < LONGEST_NS and _EARLIEST_NS < begin_ns < _LATEST_NS)
        ):
            self._impossible += 1
            return None
        return begin_ns, begin_ns + length_ns

    def _device(self, lane: _Lane, *, is_alone: bool) -> Device:
        waits = [runs.union() for process, runs in self._data_waits.items() if _used(process, lane)]
        splitter = Splitter(lane.runs, waits[0].joined(*waits[1:]) if waits else None)
        marked = [step for step in self._steps if _used(step.process, lane)]
        windows = self._launched.windows(lane.runs, [(step.begin, step.end) for step in marked])
        steps = []
        for number, step in enumerate(marked):
            host = step.begin, step.end
            window = windows[number] if windows else host
            split = self._with_launches(splitter.split(*window, host), host, is_alone=is_alone)
            steps.append(Step(step.name, split, window[0], window[0] >= window[1]))
        begin, end = splitter.span()
        first = first_collective_of(lane.runs["communication"], splitter)
        gaps, rest = gaps_of(splitter, first and first[0])
        return Device(
            lane.card, lane.rank, begin, end, self._with_launches(splitter.split(begin, end), None, is_alone=is_alone), tuple(steps), _kernels(lane),
            first_collective=first and first[1],
            step_basis="launch" if windows else "host" if marked else "",
            gaps=gaps,
            without_gaps=rest,
        )  # fmt: skip

    def _with_launches(self, split: Split, host: Interval | None, *, is_alone: bool) -> Split:
        """Return the split with the launches in a span of the host's clock, or in all; unchanged if there are several cards."""
        if not self._launches or not is_alone:
            return split
        first, last = _within(self._launches, host)
        graphs = _within(self._graphs, host)
        launching = self._launches[last - 1] - self._launches[first] if last > first else 0
        return replace(split, launches=last - first, graph_launches=graphs[1] - graphs[0], launching_ns=launching)


def _within(times: array[int], span: Interval | None) -> Interval:
    """Return the range of the times that lie in a span."""
    return (0, len(times)) if span is None else (bisect_left(times, span[0]), bisect_left(times, span[1]))


def _used(process: Hashable, lane: _Lane) -> bool:
    """Return whether a process may have used a device, which is true if either is unknown."""
    return process is None or not lane.processes or process in lane.processes


def _kernels(lane: _Lane) -> tuple[Kernel, ...]:
    found = (
        Kernel(
            name, work, tally.calls, tally.total_ns, tally.longest_ns, tally.grid, tally.block, tally.occupancy_ratio
        )
        for (work, name), tally in lane.tallies.items()
    )
    return tuple(sorted(found, key=lambda kernel: (-kernel.total_ns, kernel.name)))
