"""Who had a card when, and what each owner had of it: time, integrals and peaks of readings, times the owner's share."""

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
# Shares are rounded sums: a little more than the whole card is the whole card.
_WHOLE = 1.0 + 1e-9
# The numbers of an increment, one behind the other: begin, end, first, last.
WIDTH = 4


class Tenure(Generic[_Holder]):
    """The spans, in monotonic seconds; the newest has no end yet, the oldest no begin."""

    def __init__(self) -> None:
        self._begins: list[float] = [-math.inf]
        self._shares: list[Mapping[_Holder, float]] = [{}]

    def __len__(self) -> int:
        return len(self._begins)

    @property
    def now(self) -> Mapping[_Holder, float]:
        """The shares of those who have the card."""
        return self._shares[-1]

    def change(self, moment: float, shares: Mapping[_Holder, float]) -> None:
        """These have the card from that moment on, which is no earlier than the last change."""
        if self._begins[-1] == moment:
            self._shares[-1] = shares
        elif shares != self.now:
            self._begins.append(moment)
            self._shares.append(shares)

    def came(self, holder: _Holder, since: float) -> None:
        """One of those who have the card had it earlier than was seen."""
        now = self.now
        for place in self._from(since):
            self._shares[place] = _with(self._shares[place], holder, now)

    def left(self, holder: _Holder, since: float) -> None:
        """Somebody had the card no longer from that moment on."""
        for place in self._from(since):
            self._shares[place] = {one: share for one, share in self._shares[place].items() if one is not holder}

    def visited(self, holder: _Holder, since: float, until: float, gives_way: Callable[[_Holder], bool]) -> None:
        """A holder had the card in this time only, with the share that others leave; holders that give way leave theirs."""
        self._from(until)
        for place in self._from(since):
            if self._begins[place] >= until:
                break
            others = {other: share for other, share in self._shares[place].items() if not gives_way(other)}
            left = max(0.0, 1.0 - sum(others.values()))
            self._shares[place] = {**others, holder: left} if left > 0.0 else others

    def spans(self, begin: float, end: float) -> Iterator[tuple[float, float, Mapping[_Holder, float]]]:
        """The spans within this time, cut to it."""
        place = max(0, bisect_right(self._begins, begin) - 1)
        while place < len(self._begins) and self._begins[place] < end:
            until = self._begins[place + 1] if place + 1 < len(self._begins) else math.inf
            yield max(begin, self._begins[place]), min(end, until), self._shares[place]
            place += 1

    def span_of(self, moment: float) -> tuple[float, float, Mapping[_Holder, float]]:
        """The span that the moment is in: when it began, when the next one began, and the shares."""
        place = max(0, bisect_right(self._begins, moment) - 1)
        until = self._begins[place + 1] if place + 1 < len(self._begins) else math.inf
        return self._begins[place], until, self._shares[place]

    def forget_before(self, moment: float) -> None:
        """Drop the spans that ended by then; the oldest that is left stands for them."""
        gone = max(0, bisect_right(self._begins, moment) - 1)
        del self._begins[:gone], self._shares[:gone]
        self._begins[0] = -math.inf

    def _from(self, moment: float) -> range:
        """The places of the spans from that moment on; the span that it lies in is cut there."""
        place = bisect_right(self._begins, moment)
        if place and self._begins[place - 1] < moment:
            self._begins.insert(place, moment)
            self._shares.insert(place, self._shares[place - 1])
            return range(place, len(self._begins))
        return range(max(0, place - 1), len(self._begins))


def _with(shares: Mapping[_Holder, float], holder: _Holder, now: Mapping[_Holder, float]) -> Mapping[_Holder, float]:
    """The shares with one more: who has the card no longer makes room for it, then all have what they have now."""
    if holder in shares:
        return shares
    together = {**shares, holder: now[holder]}
    if sum(together.values()) <= _WHOLE:
        return together
    together = {one: share for one, share in together.items() if one in now}
    if sum(together.values()) <= _WHOLE:
        return together
    return {one: now[one] for one in together}


@dataclass(slots=True)
class Sum:
    """Of one reading: for how long it was known, its integral over that time, and the highest that was read."""

    seconds: float = 0.0
    integral: float = 0.0
    peak: float = -math.inf

    def add(self, other: Sum) -> None:
        """Add what was counted elsewhere."""
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
        """The sum of one reading."""
        found = self.sums.get(metric)
        if found is None:
            found = self.sums[metric] = Sum()
        return found

    def add(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        self.seconds += other.seconds
        self.events.update(other.events)
        for metric, one in other.sums.items():
            self.sum_of(metric).add(one)


Tallies = dict[_Holder, Tally]


def tally_of(tallies: Tallies[_Holder], holder: _Holder) -> Tally:
    """The tally of that holder, which is made if it is missing."""
    found = tallies.get(holder)
    if found is None:
        found = tallies[holder] = Tally()
    return found


def count_time(tallies: Tallies[_Holder], tenure: Tenure[_Holder], nobody: _Holder, begin: float, end: float) -> None:
    """Divide this time among those who had the card; what nobody had is nobody's."""
    for start, until, shares in tenure.spans(begin, end):
        for holder, share in _with_nobody(shares, nobody):
            tally_of(tallies, holder).seconds += share * (until - start)


def count_increments(
    tallies: Tallies[_Holder],
    tenure: Tenure[_Holder],
    nobody: _Holder,
    metric: str,
    numbers: array[float],
    start: int = 0,
) -> None:
    """Divide the increments of one reading, from that place on, as its owners changed; in between it went straight."""
    place = start
    while place < len(numbers):
        since, until, shares = tenure.span_of(numbers[place])
        stop = place
        while stop < len(numbers) and numbers[stop] >= since and numbers[stop + 1] < until:
            stop += WIDTH
        if stop > place:
            _count_together(tallies, _with_nobody(shares, nobody), metric, numbers[place:stop])
            place = stop
        else:
            _count_divided(tallies, tenure, nobody, metric, numbers[place : place + WIDTH])
            place += WIDTH


def _count_together(
    tallies: Tallies[_Holder], shares: list[tuple[_Holder, float]], metric: str, numbers: array[float]
) -> None:
    """Count increments between which no owner changed."""
    lasts = numbers[3::WIDTH]
    lengths = list(map(sub, numbers[1::WIDTH], numbers[::WIDTH]))
    seconds = sum(lengths)
    area = sum(map(mul, lengths, map(add, numbers[2::WIDTH], lasts))) / 2.0
    peak = max(lasts)
    for holder, share in shares:
        tally_of(tallies, holder).sum_of(metric).add(Sum(share * seconds, share * area, peak))


def _count_divided(
    tallies: Tallies[_Holder], tenure: Tenure[_Holder], nobody: _Holder, metric: str, numbers: array[float]
) -> None:
    """Count one increment in which owners changed; what was read at its end is of those who had the card then."""
    increment = Increment(*numbers)
    for holder, _ in _with_nobody(tenure.span_of(increment.end)[2], nobody):
        tally_of(tallies, holder).sum_of(metric).add(Sum(peak=increment.last))
    count_area(tallies, tenure, nobody, metric, increment)


def count_area(
    tallies: Tallies[_Holder], tenure: Tenure[_Holder], nobody: _Holder, metric: str, increment: Increment
) -> None:
    """Divide the time and the integral of one increment, whose last value is not a peak of this time."""
    begin, end, first, last = increment
    slope = (last - first) / (end - begin) if end > begin else 0.0
    for since, until, shares in tenure.spans(begin, end):
        area = (until - since) * (first + slope * ((since + until) / 2.0 - begin))
        for holder, share in _with_nobody(shares, nobody):
            tally_of(tallies, holder).sum_of(metric).add(Sum(share * (until - since), share * area))


def cut(increment: Increment, moment: float) -> tuple[Increment, Increment]:
    """Return the parts of an increment before and after a moment; a part without time has no integral."""
    begin, end, first, last = increment
    if moment <= begin:
        return Increment(begin, begin, first, first), increment
    if moment >= end:
        return increment, Increment(end, end, last, last)
    middle = first + (last - first) * (moment - begin) / (end - begin)
    return Increment(begin, moment, first, middle), Increment(moment, end, middle, last)


def _with_nobody(shares: Mapping[_Holder, float], nobody: _Holder) -> list[tuple[_Holder, float]]:
    left = 1.0 - sum(shares.values())
    found = list(shares.items())
    if left > 1e-12:
        found.append((nobody, left))
    return found
