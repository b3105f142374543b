"""The time spans of a card by owner, and each owner's tally: time, integrals and peaks of readings, times the owner's share."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import add, mul, sub
from typing import Generic, TypeVar

from telemetry_daemon.state.accumulate import Increment
from telemetry_parsers.dataclass import dataclass, field

_Holder = TypeVar("_Holder")
# Rounding may make shares add up to slightly more than 1.
_WHOLE = 1.0 + 1e-9
# The numbers of an increment, stored in a row: begin, end, first, last.
WIDTH = 4


class Tenure(Generic[_Holder]):
    """The spans in monotonic seconds. The newest has no end yet, the oldest no begin."""

    def __init__(self) -> None:
        self._begins: list[float] = [-math.inf]
        self._shares: list[Mapping[_Holder, float]] = [{}]

    def __len__(self) -> int:
        return len(self._begins)

    @property
    def now(self) -> Mapping[_Holder, float]:
        """Return the current shares."""
        return self._shares[-1]

    def change(self, moment: float, shares: Mapping[_Holder, float]) -> None:
        """Set the shares from this time on, which is no earlier than the last change."""
        if self._begins[-1] == moment:
            self._shares[-1] = shares
        elif shares != self.now:
            self._begins.append(moment)
            self._shares.append(shares)

    def came(self, holder: _Holder, since: float) -> None:
        """Record that a current holder had the card earlier than it was seen."""
        now = self.now
        for position in self._split_at(since):
            self._shares[position] = _with(self._shares[position], holder, now)

    def left(self, holder: _Holder, since: float) -> None:
        """Record that a holder did not have the card from this time on."""
        for position in self._split_at(since):
            self._shares[position] = {
                other: share for other, share in self._shares[position].items() if other is not holder
            }

    def visited(self, holder: _Holder, since: float, until: float, gives_way: Callable[[_Holder], bool]) -> None:
        """Give a holder the share that others leave in this period. Holders that give way lose their shares."""
        self._split_at(until)
        for position in self._split_at(since):
            if self._begins[position] >= until:
                break
            others = {other: share for other, share in self._shares[position].items() if not gives_way(other)}
            left = max(0.0, 1.0 - sum(others.values()))
            self._shares[position] = {**others, holder: left} if left > 0.0 else others

    def spans(self, begin: float, end: float) -> Iterator[tuple[float, float, Mapping[_Holder, float]]]:
        """Yield the spans within this period, cut to it."""
        position = max(0, bisect_right(self._begins, begin) - 1)
        while position < len(self._begins) and self._begins[position] < end:
            until = self._begins[position + 1] if position + 1 < len(self._begins) else math.inf
            yield max(begin, self._begins[position]), min(end, until), self._shares[position]
            position += 1

    def span_of(self, moment: float) -> tuple[float, float, Mapping[_Holder, float]]:
        """Return the span that contains this time: its begin, the begin of the next span, and its shares."""
        position = max(0, bisect_right(self._begins, moment) - 1)
        until = self._begins[position + 1] if position + 1 < len(self._begins) else math.inf
        return self._begins[position], until, self._shares[position]

    def forget_before(self, moment: float) -> None:
        """Drop the spans that ended by then, and extend the oldest of the others."""
        gone = max(0, bisect_right(self._begins, moment) - 1)
        del self._begins[:gone], self._shares[:gone]
        self._begins[0] = -math.inf

    def _split_at(self, moment: float) -> range:
        """Split the span that contains this time, and return the positions of the spans from then on."""
        position = bisect_right(self._begins, moment)
        if position and self._begins[position - 1] < moment:
            self._begins.insert(position, moment)
            self._shares.insert(position, self._shares[position - 1])
            return range(position, len(self._begins))
        return range(max(0, position - 1), len(self._begins))


def _with(shares: Mapping[_Holder, float], holder: _Holder, now: Mapping[_Holder, float]) -> Mapping[_Holder, float]:
    """Return the shares with another holder. Holders without a current share make room; then all have their current share."""
    if holder in shares:
        return shares
    together = {**shares, holder: now[holder]}
    if sum(together.values()) <= _WHOLE:
        return together
    together = {other: share for other, share in together.items() if other in now}
    if sum(together.values()) <= _WHOLE:
        return together
    return {other: now[other] for other in together}


@dataclass(slots=True)
class Sum:
    """For how long a reading was known, its integral over that time, and its highest value."""

    seconds: float = 0.0
    integral: float = 0.0
    peak: float = -math.inf

    def add(self, other: Sum) -> None:
        """Add another sum."""
        self.seconds += other.seconds
        self.integral += other.integral
        self.peak = max(self.peak, other.peak)


@dataclass(slots=True)
class Tally:
    """All sums of one owner on one card."""

    seconds: float = 0.0
    sums: dict[str, Sum] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)

    def sum_of(self, metric: str) -> Sum:
        """Return the sum of one reading."""
        found = self.sums.get(metric)
        if found is None:
            found = self.sums[metric] = Sum()
        return found

    def add(self, other: Tally) -> None:
        """Add another tally."""
        self.seconds += other.seconds
        self.events.update(other.events)
        for metric, metric_sum in other.sums.items():
            self.sum_of(metric).add(metric_sum)


Tallies = dict[_Holder, Tally]


def tally_of(tallies: Tallies[_Holder], holder: _Holder) -> Tally:
    """Return the holder's tally, creating it if necessary."""
    found = tallies.get(holder)
    if found is None:
        found = tallies[holder] = Tally()
    return found


def count_time(
    tallies: Tallies[_Holder], tenure: Tenure[_Holder], unallocated: _Holder, begin: float, end: float
) -> None:
    """Divide this period among the holders; the rest is unallocated."""
    for start, until, shares in tenure.spans(begin, end):
        for holder, share in _with_unallocated(shares, unallocated):
            tally_of(tallies, holder).seconds += share * (until - start)


def count_increments(
    tallies: Tallies[_Holder],
    tenure: Tenure[_Holder],
    unallocated: _Holder,
    metric: str,
    numbers: array[float],
    start: int = 0,
) -> None:
    """Divide the increments of a reading from this position on among the holders. Readings change linearly."""
    position = start
    while position < len(numbers):
        since, until, shares = tenure.span_of(numbers[position])
        stop = position
        while stop < len(numbers) and numbers[stop] >= since and numbers[stop + 1] < until:
            stop += WIDTH
        if stop > position:
            _count_together(tallies, _with_unallocated(shares, unallocated), metric, numbers[position:stop])
            position = stop
        else:
            _count_divided(tallies, tenure, unallocated, metric, numbers[position : position + WIDTH])
            position += WIDTH


def _count_together(
    tallies: Tallies[_Holder], shares: list[tuple[_Holder, float]], metric: str, numbers: array[float]
) -> None:
    lasts = numbers[3::WIDTH]
    lengths = list(map(sub, numbers[1::WIDTH], numbers[::WIDTH]))
    seconds = sum(lengths)
    area = sum(map(mul, lengths, map(add, numbers[2::WIDTH], lasts))) / 2.0
    peak = max(lasts)
    for holder, share in shares:
        tally_of(tallies, holder).sum_of(metric).add(Sum(share * seconds, share * area, peak))


def _count_divided(
    tallies: Tallies[_Holder], tenure: Tenure[_Holder], unallocated: _Holder, metric: str, numbers: array[float]
) -> None:
    """Count an increment during which the owners changed. Its last value is a peak only of the holders at its end."""
    increment = Increment(*numbers)
    for holder, _ in _with_unallocated(tenure.span_of(increment.end)[2], unallocated):
        tally_of(tallies, holder).sum_of(metric).add(Sum(peak=increment.last))
    count_area(tallies, tenure, unallocated, metric, increment)


def count_area(
    tallies: Tallies[_Holder], tenure: Tenure[_Holder], unallocated: _Holder, metric: str, increment: Increment
) -> None:
    """Divide time and integral of an increment whose last value is not a peak of this period."""
    begin, end, first, last = increment
    slope = (last - first) / (end - begin) if end > begin else 0.0
    for since, until, shares in tenure.spans(begin, end):
        area = (until - since) * (first + slope * ((since + until) / 2.0 - begin))
        for holder, share in _with_unallocated(shares, unallocated):
            tally_of(tallies, holder).sum_of(metric).add(Sum(share * (until - since), share * area))


def cut(increment: Increment, moment: float) -> tuple[Increment, Increment]:
    """Return the parts of an increment before and after a time. An empty part has no integral."""
    begin, end, first, last = increment
    if moment <= begin:
        return Increment(begin, begin, first, first), increment
    if moment >= end:
        return increment, Increment(end, end, last, last)
    middle = first + (last - first) * (moment - begin) / (end - begin)
    return Increment(begin, moment, first, middle), Increment(moment, end, middle, last)


def _with_unallocated(shares: Mapping[_Holder, float], unallocated: _Holder) -> list[tuple[_Holder, float]]:
    left = 1.0 - sum(shares.values())
    found = list(shares.items())
    if left > 1e-12:
        found.append((unallocated, left))
    return found
