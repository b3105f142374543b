"""Time intervals and their unions, stored in arrays to save memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from operator import le

Interval = tuple[int, int]


@dataclass(slots=True)
class Executions:
    """The executions of one kind of work. Each array has one item per execution."""

    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    launch_numbers: array[int] = field(default_factory=lambda: array("q"))

    def add(self, begin: int, end: int, launch_number: int = -1) -> None:
        """Add an execution. `launch_number` is -1 if unknown."""
        self.begins.append(begin)
        self.ends.append(end)
        self.launch_numbers.append(launch_number)

    def union(self) -> Intervals:
        """Return the times in which at least one execution ran."""
        return Intervals.from_sorted((self.begins[index], self.ends[index]) for index in sorted_indices(self.begins))


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint intervals in ascending order."""

    begins: Sequence[int]
    ends: Sequence[int]
    lengths_before: Sequence[int]  # item i is the total length of the first i intervals

    @staticmethod
    def from_sorted(intervals: Iterable[Interval]) -> Intervals:
        """Return the union of intervals that are sorted by their starts."""
        begins, ends = array("q"), array("q")
        for begin, end in intervals:
            if ends and begin <= ends[-1]:
                if end > ends[-1]:
                    ends[-1] = end
            else:
                begins.append(begin)
                ends.append(end)
        lengths_before = array("q", [0])
        for begin, end in zip(begins, ends, strict=True):
            lengths_before.append(lengths_before[-1] + end - begin)
        return Intervals(begins, ends, lengths_before)

    def coverage(self, begin: int, end: int) -> int:
        """Return how much of a span the intervals cover, in nanoseconds."""
        return self._covered_before(end) - self._covered_before(begin)

    def uncovered(self, begin: int, end: int) -> Iterator[Interval]:
        """Yield the parts of a span that are not covered, in ascending order."""
        uncovered_begin = begin
        for index in range(max(0, bisect_right(self.begins, begin) - 1), bisect_left(self.begins, end)):
            if self.begins[index] > uncovered_begin:
                yield uncovered_begin, self.begins[index]
            uncovered_begin = max(uncovered_begin, self.ends[index])
        if uncovered_begin < end:
            yield uncovered_begin, end

    def _covered_before(self, time: int) -> int:
        index = bisect_right(self.begins, time)
        if not index:
            return 0
        return self.lengths_before[index] - max(0, self.ends[index - 1] - time)

    def union_with(self, *others: Intervals) -> Intervals:
        """Return the union with other intervals."""
        unions = [union for union in (self, *others) if union.begins]
        if len(unions) == 1:
            return unions[0]
        return Intervals.from_sorted(merge(*(zip(union.begins, union.ends, strict=True) for union in unions)))


def sorted_indices(numbers: Sequence[int]) -> Sequence[int]:
    """Return the indices that sort the numbers."""
    if all(map(le, numbers, islice(numbers, 1, None))):
        return range(len(numbers))
    return sorted(range(len(numbers)), key=numbers.__getitem__)
