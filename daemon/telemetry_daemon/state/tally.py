"""What an owner had of a card: time, and the integral, time and peak of readings, each times the owner's share."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import add, mul, sub
from typing import TypeVar

from telemetry_daemon.state.tenure import Tenure

_Holder = TypeVar("_Holder")
# The numbers of an increment, one behind the other: begin, end, first, last.
WIDTH = 4


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
    begin, end, first, last = numbers
    for holder, _ in _with_nobody(tenure.span_of(end)[2], nobody):
        tally_of(tallies, holder).sum_of(metric).add(Sum(peak=last))
    slope = (last - first) / (end - begin) if end > begin else 0.0
    for since, until, shares in tenure.spans(begin, end):
        area = (until - since) * (first + slope * ((since + until) / 2.0 - begin))
        for holder, share in _with_nobody(shares, nobody):
            tally_of(tallies, holder).sum_of(metric).add(Sum(share * (until - since), share * area))


def _with_nobody(shares: Mapping[_Holder, float], nobody: _Holder) -> list[tuple[_Holder, float]]:
    left = 1.0 - sum(shares.values())
    found = list(shares.items())
    if left > 1e-12:
        found.append((nobody, left))
    return found
