"""Computes how one device spent its time, and finds its steps and long gaps."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from telemetry_profile.facts.intervals import Executions, Interval, Intervals, sorted_indices
from telemetry_profile.format_contract import FirstCollective, Gap, Split, Work

_UNUSUAL_FACTOR = 2  # a first collective is unusual if it takes more than this many times as long as any other
# A gap is long if it has at least this share of the span and this length. A single host call causes shorter gaps.
_MIN_GAP_SHARE, _MIN_GAP_NS = 0.05, 1_000_000
_MIN_KNOWN_RATIO = 0.5  # if fewer launch times are known, each step's span on the host is used for the device


class Splitter:
    """Computes how one device spent its time."""

    def __init__(self, executions: Mapping[Work, Executions], data_waits: Intervals | None) -> None:
        self._fused = executions["fused"].union()
        self._compute = executions["compute"].union().union_with(self._fused)
        self._communication = executions["communication"].union().union_with(self._fused)
        self._copy = executions["copy"].union()
        self._kernels = self._compute.union_with(self._communication)
        self._busy = self._kernels.union_with(self._copy)
        self._data_waits = data_waits
        begins = executions["compute"].begins + executions["communication"].begins + executions["fused"].begins
        self._kernel_begins = array("q", (begins[index] for index in sorted_indices(begins)))

    def span(self) -> Interval:
        """Return the span from the start of the first work to the end of the last work."""
        return self._busy.begins[0], self._busy.ends[-1]

    def split(self, begin: int, end: int, host_span: Interval | None = None) -> Split:
        """Return how the device spent the time from `begin` to `end`. `host_span` is the span of this step on the host."""
        compute, kernels, busy = (part.coverage(begin, end) for part in (self._compute, self._kernels, self._busy))
        gaps = self.long_gaps(begin, end)
        begins = self._kernel_begins
        first_index, end_index = bisect_left(begins, begin), bisect_left(begins, end)
        return Split(
            span_ns=end - begin,
            compute_ns=compute,
            communication_ns=self._communication.coverage(begin, end),
            exposed_communication_ns=kernels - compute,
            copy_ns=self._copy.coverage(begin, end),
            exposed_copy_ns=busy - kernels,
            idle_ns=end - begin - busy,
            data_wait_ns=None if self._data_waits is None else self._data_waits.coverage(*(host_span or (begin, end))),
            launches=end_index - first_index,
            launching_ns=begins[end_index - 1] - begins[first_index] if end_index > first_index else 0,
            gaps=len(gaps),
            gap_ns=sum(gap_end - gap_begin for gap_begin, gap_end in gaps),
            fused_ns=self._fused.coverage(begin, end),
        )

    def long_gaps(self, begin: int, end: int) -> list[Interval]:
        """Return the long idle intervals from `begin` to `end`."""
        min_length = _min_gap_length(begin, end)
        return [(since, until) for since, until in self._busy.uncovered(begin, end) if until - since >= min_length]

    def split_without(self, excluded: Sequence[Interval]) -> Split:
        """Return how the device spent its time outside the excluded intervals."""
        begin, end = self.span()
        edges = [begin, *(time for interval in sorted(excluded) for time in interval), end]
        total_split = Split(*(0 for _ in range(len(Split.__dataclass_fields__))))
        for piece_begin, piece_end in zip(edges[::2], edges[1::2], strict=True):
            if piece_end > piece_begin:
                total_split = total_split.plus(self.split(piece_begin, piece_end))
        # Gaps are not added up, because a gap that is long for a piece may not be long for the whole time.
        return replace(total_split, gaps=0, gap_ns=0)


def _min_gap_length(begin: int, end: int) -> int:
    return max(_MIN_GAP_NS, round((end - begin) * _MIN_GAP_SHARE))


def find_unusual_first(begins: Sequence[int], lengths: Sequence[int]) -> int | None:
    """Return the index of the earliest item if it is far longer than all others, else None."""
    if len(begins) < 2:
        return None
    first_index = min(range(len(begins)), key=begins.__getitem__)
    longest = max(length for index, length in enumerate(lengths) if index != first_index)
    return first_index if lengths[first_index] > _UNUSUAL_FACTOR * longest else None


def first_collective_of(executions: Executions, splitter: Splitter) -> tuple[Interval, FirstCollective] | None:
    """Return (span, first collective) if the first collective is unusually long, else None."""
    lengths = [end - begin for begin, end in zip(executions.begins, executions.ends, strict=True)]
    index = find_unusual_first(executions.begins, lengths)
    if index is None:
        return None
    span = executions.begins[index], executions.ends[index]
    return span, FirstCollective(lengths[index], splitter.split_without([span]))


def gaps_and_rest(splitter: Splitter, first_collective: Interval | None) -> tuple[tuple[Gap, ...], Split | None]:
    """Return (long gaps, split of the time outside them and `first_collective`), or ((), None) without long gaps."""
    begin, end = splitter.span()
    gaps = splitter.long_gaps(begin, end)
    if not gaps:
        return (), None
    without_gaps = splitter.split_without(gaps if first_collective is None else [*gaps, first_collective])
    return tuple(Gap(gap_begin - begin, gap_end - gap_begin) for gap_begin, gap_end in gaps), without_gaps


class Launches:
    """The times of launches on the host, found by launch number."""

    def __init__(self) -> None:
        self._launch_numbers, self._times = array("q"), array("q")
        self._is_sorted = True

    def add(self, launch_number: int, time: int) -> None:
        """Add a launch with its time on the host."""
        self._launch_numbers.append(launch_number)
        self._times.append(time)
        self._is_sorted = False

    def step_spans(self, executions: Mapping[Work, Executions], steps: Sequence[Interval]) -> list[Interval] | None:
        """Return the span of each step on the device, or None if steps overlap or too few launches are known."""
        if not self._launch_numbers or not steps or any(step[1] > next_step[0] for step, next_step in pairwise(steps)):
            return None
        work_by_step, total, known_launches = _WorkByStep(steps), 0, 0
        for work, runs in executions.items():
            for begin, end, number in zip(runs.begins, runs.ends, runs.launch_numbers, strict=True):
                launch_time = self._launch_time(number)
                if work != "copy" or launch_time is not None:  # copies may have no launch, such as MTIA's DMA requests
                    total, known_launches = total + 1, known_launches + (launch_time is not None)
                work_by_step.add(begin, end, launch_time)
        return work_by_step.step_spans() if known_launches and known_launches >= total * _MIN_KNOWN_RATIO else None

    def _launch_time(self, launch_number: int) -> int | None:
        if not self._is_sorted:
            order = sorted_indices(self._launch_numbers)
            self._times = array("q", (self._times[index] for index in order))
            self._launch_numbers = array("q", (self._launch_numbers[index] for index in order))
            self._is_sorted = True
        index = bisect_left(self._launch_numbers, launch_number)
        return self._times[index] if index < len(self._times) and self._launch_numbers[index] == launch_number else None


class _WorkByStep:
    """Finds out when the device worked on each step."""

    def __init__(self, steps: Sequence[Interval]) -> None:
        self._steps = steps
        self._step_begins = [begin for begin, _ in steps]
        self._work_ends = list(self._step_begins)
        self._first_work_begin: int | None = None  # the start of the earliest work that a step launched
        self._prior_work_end = steps[0][0]  # the end of the work that was launched before the first step
        self._unassigned: list[Interval] = []  # work whose launch time is unknown

    def add(self, begin: int, end: int, launch_time: int | None) -> None:
        if launch_time is None:
            self._unassigned.append((begin, end))
            return
        step_index = bisect_left(self._step_begins, launch_time + 1) - 1
        if step_index < 0:
            self._prior_work_end = max(self._prior_work_end, end)
        elif launch_time < self._steps[step_index][1]:
            self._work_ends[step_index] = max(self._work_ends[step_index], end)
            self._first_work_begin = begin if self._first_work_begin is None else min(self._first_work_begin, begin)

    def step_spans(self) -> list[Interval]:
        """Return the span of each step on the device. The spans do not overlap."""
        first_begin = self._first_work_begin if self._first_work_begin is not None else self._steps[0][0]
        previous_end = max([self._prior_work_end, *(end for begin, end in self._unassigned if begin < first_begin)])
        ends = [max(end, work_end) for (_, end), work_end in zip(self._steps, self._work_ends, strict=True)]
        idle_tails = [end - work_end for end, work_end in zip(ends, self._work_ends, strict=True)]
        # The profiler stops during the last step, which adds idle time: in Kineto's samples, 80 ms to a step of 120 ms.
        excess = idle_tails[-1] - max(idle_tails[:-1], default=idle_tails[-1])
        if excess >= _min_gap_length(self._step_begins[-1], ends[-1]) and self._work_ends[-1] > self._step_begins[-1]:
            ends[-1] -= excess
        spans = []
        for begin, end in zip(self._step_begins, ends, strict=True):
            span = max(begin, previous_end), max(begin, previous_end, end)
            spans.append(span)
            previous_end = span[1]
        return spans
