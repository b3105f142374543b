"""What an owner had of a card: time, and the integral, time and peak of readings, each times the owner's share."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    for place in range(start, len(numbers), WIDTH):
        begin, end, first, last = numbers[place : place + WIDTH]
        for holder, _ in _with_nobody(tenure.at(end), nobody):
            known = tally_of(tallies, holder).sum_of(metric)
            known.peak = max(known.peak, last)
        if end <= begin:
            continue
        slope = (last - first) / (end - begin)
        for since, until, shares in tenure.spans(begin, end):
            seconds = until - since
            area = seconds * (first + slope * ((since + until) / 2.0 - begin))
            for holder, share in _with_nobody(shares, nobody):
                known = tally_of(tallies, holder).sum_of(metric)
                known.seconds += share * seconds
                known.integral += share * area


def _with_nobody(shares: Mapping[_Holder, float], nobody: _Holder) -> list[tuple[_Holder, float]]:
    left = 1.0 - sum(shares.values())
    found = list(shares.items())
    if left > 1e-12:
        found.append((nobody, left))
    return found
