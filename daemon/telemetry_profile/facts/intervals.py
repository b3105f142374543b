"""Intervals of time and their unions, as arrays of numbers."""

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
class Runs:
    """The begins, ends and launches of one kind of work, in the order of the file."""

    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    launches: array[int] = field(default_factory=lambda: array("q"))

    def add(self, begin: int, end: int, launch: int = -1) -> None:
        """Add an interval with the number of its launch, -1 if it is unknown."""
        self.begins.append(begin)
        self.ends.append(end)
        self.launches.append(launch)

    def union(self) -> Intervals:
        """Return the union of the intervals."""
        return Intervals.of_ordered((self.begins[number], self.ends[number]) for number in ascending(self.begins))


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint intervals in ascending order, and the time covered before each of them."""

    begins: Sequence[int]
    ends: Sequence[int]
    before: Sequence[int]

    @staticmethod
    def of_ordered(intervals: Iterable[Interval]) -> Intervals:
        """Return the union of intervals in the order of their begins."""
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
        return Intervals(begins, ends, before)

    def within(self, begin: int, end: int) -> int:
        """Return the covered time of a span."""
        return self._until(end) - self._until(begin)

    def gaps(self, begin: int, end: int) -> Iterator[Interval]:
        """Yield the uncovered parts of a span in ascending order."""
        since = begin
        for number in range(max(0, bisect_right(self.begins, begin) - 1), bisect_left(self.begins, end)):
            if self.begins[number] > since:
                yield since, self.begins[number]
            since = max(since, self.ends[number])
        if since < end:
            yield since, end

    def _until(self, time: int) -> int:
        number = bisect_right(self.begins, time)
        if not number:
            return 0
        return self.before[number] - max(0, self.ends[number - 1] - time)

    def joined(self, *others: Intervals) -> Intervals:
        """Return the union with others."""
        unions = [union for union in (self, *others) if union.begins]
        if len(unions) == 1:
            return unions[0]
        return Intervals.of_ordered(merge(*(zip(union.begins, union.ends, strict=True) for union in unions)))


def ascending(numbers: Sequence[int]) -> Sequence[int]:
    """Return the indices of numbers in ascending order; a range, which takes no memory, if they are ordered, as in most files."""
    if all(map(le, numbers, islice(numbers, 1, None))):
        return range(len(numbers))
    return sorted(range(len(numbers)), key=numbers.__getitem__)
