"""The shares of a card's owners over time, and the tally of each owner."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from operator import add, mul, sub
from typing import Generic, TypeVar

from telemetry_daemon.state.accumulate import CurveSegment
from telemetry_parsers.dataclass import dataclass, field

_Holder = TypeVar("_Holder")
# Because of rounding, shares may add up to slightly more than 1.
_WHOLE_SHARE = 1.0 + 1e-9
# Arrays store each segment as four numbers: begin, end, value at begin, value at end.
SEGMENT_SIZE = 4


class Timeline(Generic[_Holder]):
    """Each holder's share of a card over monotonic time."""

    def __init__(self) -> None:
        self._starts: list[float] = [-math.inf]
        self._shares: list[Mapping[_Holder, float]] = [{}]

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def current_shares(self) -> Mapping[_Holder, float]:
        """Return the shares of the latest span."""
        return self._shares[-1]

    def set_shares(self, time: float, shares: Mapping[_Holder, float]) -> None:
        """Set the shares from this time on. Call this in chronological order."""
        if self._starts[-1] == time:
            self._shares[-1] = shares
        elif shares != self.current_shares:
            self._starts.append(time)
            self._shares.append(shares)

    def extend_back(self, holder: _Holder, since: float) -> None:
        """Move the start of a current holder's share to an earlier time."""
        current_shares = self.current_shares
        for index in self._split_at(since):
            self._shares[index] = _add_holder(self._shares[index], holder, current_shares)

    def remove_holder(self, holder: _Holder, since: float) -> None:
        """Remove a holder from this time on."""
        for index in self._split_at(since):
            self._shares[index] = {other: share for other, share in self._shares[index].items() if other is not holder}

    def add_past(self, holder: _Holder, since: float, until: float, is_displaceable: Callable[[_Holder], bool]) -> None:
        """Remove the displaceable holders from a past period, and give all of the unused share to `holder`."""
        self._split_at(until)
        for index in self._split_at(since):
            if self._starts[index] >= until:
                break
            remaining_shares = {
                other: share for other, share in self._shares[index].items() if not is_displaceable(other)
            }
            unused_share = max(0.0, 1.0 - sum(remaining_shares.values()))
            self._shares[index] = {**remaining_shares, holder: unused_share} if unused_share > 0.0 else remaining_shares

    def spans(self, begin: float, end: float) -> Iterator[tuple[float, float, Mapping[_Holder, float]]]:
        """Yield (begin, end, shares) for each span in this period."""
        index = max(0, bisect_right(self._starts, begin) - 1)
        while index < len(self._starts) and self._starts[index] < end:
            span_end = self._starts[index + 1] if index + 1 < len(self._starts) else math.inf
            yield max(begin, self._starts[index]), min(end, span_end), self._shares[index]
            index += 1

    def span_at(self, time: float) -> tuple[float, float, Mapping[_Holder, float]]:
        """Return (begin, end, shares) of the span that contains this time."""
        index = max(0, bisect_right(self._starts, time) - 1)
        span_end = self._starts[index + 1] if index + 1 < len(self._starts) else math.inf
        return self._starts[index], span_end, self._shares[index]

    def forget_before(self, time: float) -> None:
        """Drop the spans that ended by this time."""
        dropped_count = max(0, bisect_right(self._starts, time) - 1)
        del self._starts[:dropped_count], self._shares[:dropped_count]
        self._starts[0] = -math.inf

    def _split_at(self, time: float) -> range:
        """Split the span at this time, and return the indices of the later spans."""
        index = bisect_right(self._starts, time)
        if index and self._starts[index - 1] < time:
            self._starts.insert(index, time)
            self._shares.insert(index, self._shares[index - 1])
            return range(index, len(self._starts))
        return range(max(0, index - 1), len(self._starts))


def _add_holder(
    shares: Mapping[_Holder, float], holder: _Holder, current_shares: Mapping[_Holder, float]
) -> Mapping[_Holder, float]:
    """Return shares that include this holder. If they exceed 1, prefer the current holders and shares."""
    if holder in shares:
        return shares
    combined = {**shares, holder: current_shares[holder]}
    if sum(combined.values()) <= _WHOLE_SHARE:
        return combined
    combined = {other: share for other, share in combined.items() if other in current_shares}
    if sum(combined.values()) <= _WHOLE_SHARE:
        return combined
    return {other: current_shares[other] for other in combined}


@dataclass(slots=True)
class MetricSum:
    """The integral and the peak of one metric, and the measured seconds."""

    seconds: float = 0.0
    integral: float = 0.0
    peak: float = -math.inf

    def add(self, other: MetricSum) -> None:
        """Add the values of another sum to this one."""
        self.seconds += other.seconds
        self.integral += other.integral
        self.peak = max(self.peak, other.peak)


@dataclass(slots=True)
class Tally:
    """One owner's use of one card."""

    seconds: float = 0.0
    sums: defaultdict[str, MetricSum] = field(default_factory=lambda: defaultdict(MetricSum))
    events: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the values of another tally to this one."""
        self.seconds += other.seconds
        self.events.update(other.events)
        for metric, metric_sum in other.sums.items():
            self.sums[metric].add(metric_sum)


Tallies = defaultdict[_Holder, Tally]


def add_seconds(
    tallies: Tallies[_Holder], timeline: Timeline[_Holder], unallocated: _Holder, begin: float, end: float
) -> None:
    """Add the seconds of this period to the holders' tallies."""
    for span_begin, span_end, shares in timeline.spans(begin, end):
        for holder, share in _add_unallocated_share(shares, unallocated):
            tallies[holder].seconds += share * (span_end - span_begin)


def add_segments(
    tallies: Tallies[_Holder],
    timeline: Timeline[_Holder],
    unallocated: _Holder,
    metric: str,
    curve: array[float],
    start: int = 0,
) -> None:
    """Add a curve's segments, from index `start` on, to the holders' tallies."""
    index = start
    while index < len(curve):
        span_begin, span_end, shares = timeline.span_at(curve[index])
        end_index = index
        while end_index < len(curve) and curve[end_index] >= span_begin and curve[end_index + 1] < span_end:
            end_index += SEGMENT_SIZE
        if end_index > index:
            _add_whole_segments(tallies, _add_unallocated_share(shares, unallocated), metric, curve[index:end_index])
            index = end_index
        else:
            _add_divided_segment(tallies, timeline, unallocated, metric, curve[index : index + SEGMENT_SIZE])
            index += SEGMENT_SIZE


def _add_whole_segments(
    tallies: Tallies[_Holder], shares: list[tuple[_Holder, float]], metric: str, curve: array[float]
) -> None:
    end_values = curve[3::SEGMENT_SIZE]
    durations = list(map(sub, curve[1::SEGMENT_SIZE], curve[::SEGMENT_SIZE]))
    seconds = sum(durations)
    integral = sum(map(mul, durations, map(add, curve[2::SEGMENT_SIZE], end_values))) / 2.0
    peak = max(end_values)
    for holder, share in shares:
        tallies[holder].sums[metric].add(MetricSum(share * seconds, share * integral, peak))


def _add_divided_segment(
    tallies: Tallies[_Holder],
    timeline: Timeline[_Holder],
    unallocated: _Holder,
    metric: str,
    segment_numbers: array[float],
) -> None:
    segment = CurveSegment(*segment_numbers)
    for holder, _ in _add_unallocated_share(timeline.span_at(segment.end)[2], unallocated):
        tallies[holder].sums[metric].add(MetricSum(peak=segment.end_value))
    add_integral(tallies, timeline, unallocated, metric, segment)


def add_integral(
    tallies: Tallies[_Holder],
    timeline: Timeline[_Holder],
    unallocated: _Holder,
    metric: str,
    segment: CurveSegment,
) -> None:
    """Add a segment's integral, but not its peak, to the holders' tallies."""
    begin, end, begin_value, end_value = segment
    slope = (end_value - begin_value) / (end - begin) if end > begin else 0.0
    for span_begin, span_end, shares in timeline.spans(begin, end):
        seconds = span_end - span_begin
        integral = seconds * (begin_value + slope * ((span_begin + span_end) / 2.0 - begin))
        for holder, share in _add_unallocated_share(shares, unallocated):
            tallies[holder].sums[metric].add(MetricSum(share * seconds, share * integral))


def _add_unallocated_share(shares: Mapping[_Holder, float], unallocated: _Holder) -> list[tuple[_Holder, float]]:
    unused = 1.0 - sum(shares.values())
    return [*shares.items(), (unallocated, unused)] if unused > 1e-12 else list(shares.items())
