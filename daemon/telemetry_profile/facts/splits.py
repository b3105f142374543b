"""Divides the time of one device into parts, steps and long gaps."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from telemetry_profile.facts.intervals import Interval, Intervals, Runs, ascending
from telemetry_profile.format_contract import FirstCollective, Gap, Split, Work

_FAR_LONGER = 2  # times each other collective: the reason must be outside of the collective
# The least part of the span of a long gap, and its least length, which exceeds those that a single call of the host causes.
_LONG_GAP, _LEAST_GAP_NS = 0.05, 1_000_000
_LEAST_LAUNCHED = 0.5  # with fewer the host's clock decides


class Splitter:
    """Divides spans of one device into their parts."""

    def __init__(self, runs: Mapping[Work, Runs], waits: Intervals | None) -> None:
        self._fused = runs["fused"].union()
        self._compute = runs["compute"].union().joined(self._fused)
        self._communication = runs["communication"].union().joined(self._fused)
        self._copy = runs["copy"].union()
        self._kernels = self._compute.joined(self._communication)
        self._busy = self._kernels.joined(self._copy)
        self._waits = waits
        begins = runs["compute"].begins + runs["communication"].begins + runs["fused"].begins
        self._begins = array("q", (begins[number] for number in ascending(begins)))

    def span(self) -> Interval:
        """Return the span from the first begin to the last end of the device's work."""
        return self._busy.begins[0], self._busy.ends[-1]

    def split(self, begin: int, end: int, host: Interval | None = None) -> Split:
        """Return the parts of a span; `host` is the corresponding span of the host's clock if it differs."""
        compute, kernels, busy = (union.within(begin, end) for union in (self._compute, self._kernels, self._busy))
        gaps = self.long_gaps(begin, end)
        first, last = bisect_left(self._begins, begin), bisect_left(self._begins, end)
        return Split(
            span_ns=end - begin,
            compute_ns=compute,
            communication_ns=self._communication.within(begin, end),
            exposed_communication_ns=kernels - compute,
            copy_ns=self._copy.within(begin, end),
            exposed_copy_ns=busy - kernels,
            idle_ns=end - begin - busy,
            data_wait_ns=None if self._waits is None else self._waits.within(*(host or (begin, end))),
            launches=last - first,
            launching_ns=self._begins[last - 1] - self._begins[first] if last > first else 0,
            gaps=len(gaps),
            gap_ns=sum(until - since for since, until in gaps),
            fused_ns=self._fused.within(begin, end),
        )

    def long_gaps(self, begin: int, end: int) -> list[Interval]:
        """Return the times without work that are a large part of the span."""
        least = _least_gap(begin, end)
        return [(since, until) for since, until in self._busy.gaps(begin, end) if until - since >= least]

    def without(self, left_out: Sequence[Interval]) -> Split:
        """Return the split of the whole time without these intervals."""
        begin, end = self.span()
        edges = [begin, *(time for interval in sorted(left_out) for time in interval), end]
        rest = Split(*(0 for _ in range(len(Split.__dataclass_fields__))))
        for since, until in zip(edges[::2], edges[1::2], strict=True):
            if until > since:
                rest = rest.joined(self.split(since, until))
        # A gap that is long in a piece is not long in the whole time.
        return replace(rest, gaps=0, gap_ns=0)


def _least_gap(begin: int, end: int) -> int:
    return max(_LEAST_GAP_NS, round((end - begin) * _LONG_GAP))


def waiting_first(begins: Sequence[int], lengths: Sequence[int]) -> int | None:
    """Return the number of the first collective; None if it is not far longer than each of the others."""
    if len(begins) < 2:
        return None
    first = min(range(len(begins)), key=begins.__getitem__)
    longest = max(length for number, length in enumerate(lengths) if number != first)
    return first if lengths[first] > _FAR_LONGER * longest else None


def first_collective_of(runs: Runs, splitter: Splitter) -> tuple[Interval, FirstCollective] | None:
    """Return the span of an unusually long first collective and the rest of the time; None if there is none."""
    lengths = [end - begin for begin, end in zip(runs.begins, runs.ends, strict=True)]
    first = waiting_first(runs.begins, lengths)
    if first is None:
        return None
    span = runs.begins[first], runs.ends[first]
    return span, FirstCollective(lengths[first], splitter.without([span]))


def gaps_of(splitter: Splitter, first: Interval | None) -> tuple[tuple[Gap, ...], Split | None]:
    """Return the long gaps of the whole time, and the split without them and the first collective."""
    begin, end = splitter.span()
    gaps = splitter.long_gaps(begin, end)
    if not gaps:
        return (), None
    rest = splitter.without(gaps if first is None else [*gaps, first])
    return tuple(Gap(since - begin, until - since) for since, until in gaps), rest


class Launches:
    """The launches of a file: their times by their numbers, which assign work to steps."""

    def __init__(self) -> None:
        self._numbers, self._times = array("q"), array("q")
        self._is_ordered = True

    def add(self, number: int, time: int) -> None:
        """Add a launch."""
        self._numbers.append(number)
        self._times.append(time)
        self._is_ordered = False

    def windows(self, runs: Mapping[Work, Runs], steps: Sequence[Interval]) -> list[Interval] | None:
        """Return the spans of a device's work on the host's steps; None if steps overlap or most launches are unknown."""
        if not self._numbers or not steps or any(before[1] > after[0] for before, after in pairwise(steps)):
            return None
        work_of_steps, total, launched = _WorkOfSteps(steps), 0, 0
        for work, run in runs.items():
            for begin, end, number in zip(run.begins, run.ends, run.launches, strict=True):
                time = self._time(number)
                if time is not None or work != "copy":  # DMA requests of MTIA have no launch
                    total, launched = total + 1, launched + (time is not None)
                work_of_steps.add(begin, end, time)
        return work_of_steps.windows() if launched and launched >= total * _LEAST_LAUNCHED else None

    def _time(self, number: int) -> int | None:
        if not self._is_ordered:
            order = ascending(self._numbers)
            self._times = array("q", (self._times[index] for index in order))
            self._numbers = array("q", (self._numbers[index] for index in order))
            self._is_ordered = True
        index = bisect_left(self._numbers, number)
        return self._times[index] if index < len(self._numbers) and self._numbers[index] == number else None


class _WorkOfSteps:
    """The ends of the work that was launched in each step."""

    def __init__(self, steps: Sequence[Interval]) -> None:
        self._steps = steps
        self._begins = [begin for begin, _ in steps]
        self._work_ends = list(self._begins)
        self._first: int | None = None
        self._before = steps[0][0]
        self._unlaunched: list[Interval] = []

    def add(self, begin: int, end: int, launched: int | None) -> None:
        """Add work, with the time of its launch."""
        if launched is None:
            self._unlaunched.append((begin, end))
            return
        step = bisect_left(self._begins, launched + 1) - 1
        if step < 0:
            self._before = max(self._before, end)
        elif launched < self._steps[step][1]:
            self._work_ends[step] = max(self._work_ends[step], end)
            self._first = begin if self._first is None else min(self._first, begin)

    def windows(self) -> list[Interval]:
        """Return a span for each step, each from the end of the previous span."""
        first = self._first if self._first is not None else self._steps[0][0]
        since = max([self._before, *(end for begin, end in self._unlaunched if begin < first)])
        ends = [max(end, work_end) for (_, end), work_end in zip(self._steps, self._work_ends, strict=True)]
        tails = [end - work_end for end, work_end in zip(ends, self._work_ends, strict=True)]
        # The profiler ends in the last step: 80 ms after the work in samples of Kineto with steps of 120 ms.
        excess = tails[-1] - max(tails[:-1], default=tails[-1])
        if excess >= _least_gap(self._begins[-1], ends[-1]) and self._work_ends[-1] > self._begins[-1]:
            ends[-1] -= excess
        found = []
        for begin, end in zip(self._begins, ends, strict=True):
            window = max(begin, since), max(begin, since, end)
            found.append(window)
            since = window[1]
        return found
