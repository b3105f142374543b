"""A card in the ledger, with its owners and unsettled readings."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from telemetry_daemon.state.accumulate import MAX_GAP_INTERVALS, CurveSegment, Integral
from telemetry_daemon.state.tally import SEGMENT_SIZE, Tallies, Tally, Timeline, add_integral, add_seconds, add_segments
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent
from telemetry_parsers.past import KEPT, kept_positions
from telemetry_parsers.readings import Origin, Readings, Shape

_Holder = TypeVar("_Holder")
# A change of owners may be reported this late, because some tools are polled every 15 s.
MAX_REPORT_DELAY_SECONDS = 60.0
# If the owners changed more often, all use so far is settled.
_MAX_SPANS = 256
# Records contain these metrics, too, although the accumulator does not integrate them.
_UNLABELLED_METRICS = ("power_cap_watts", "memory_used_bytes", "memory_total_bytes", "memory_used_ratio")
_PEAK_METRICS = ("temperature_celsius", "throttled")
_CACHED_SHAPES = 64
_NO_NUMBERS = array("d")
# Energy is estimated from the power only while the card's energy counter does not work.
POWER, ENERGY_COUNTED, ENERGY_ESTIMATED = "power_watts", "energy_counted", "energy_estimated"
_ENERGY_COUNTER = "energy_joules_total"
_MAX_WATTS = BY_KEY[POWER].high


class LedgerCard(Generic[_Holder]):
    """Attributes a card's use to its holders (ledger entries). Times are monotonic."""

    def __init__(self, unallocated: _Holder, now: float) -> None:
        self.unallocated = unallocated
        self.seen_until = now
        self.shares: Mapping[_Holder, float] = {}
        # Use is counted from the time when the card was first seen, or seen again after an absence.
        self._counted_from = self._settled_until = now
        self._timeline: Timeline[_Holder] = Timeline()
        self._curves: dict[str, array[float]] = {}
        self._events: list[tuple[float, str]] = []
        self.longest_segment = 0.0
        # The tallies of unsettled use, and how many elements of each curve's array are already tallied.
        self._unsettled_tallies: Tallies[_Holder] = defaultdict(Tally)
        self._tallied_lengths: dict[str, int] = {}
        self._integrals: dict[str, Integral] = {}
        self._newest_readings: object = None
        self._counter_reading: _CounterReading | None = None
        self._is_counter_working = False
        self._uncounted = _UncountedEnergy()

    def replace_unallocated(self, unallocated: _Holder) -> None:
        """Attribute unsettled and future unallocated use to this holder."""
        self.unallocated = unallocated
        self._drop_unsettled_tallies()

    @property
    def max_report_delay(self) -> float:
        """Return the maximum delay, in seconds, of a report that may change past use."""
        return max(MAX_REPORT_DELAY_SECONDS, 2 * self.longest_segment)

    def add_readings(self, readings: Readings) -> None:
        """Count the energy and integrate other readings, unless these readings were passed before."""
        if readings is self._newest_readings:
            return
        self._newest_readings = readings
        self._count_energy(readings)
        continued_metrics = set()
        for metric, value, origin in _readings_to_integrate(readings):
            continued_metrics.add(metric)
            integral = self._integrals.get(metric)
            if integral is None:
                integral = self._integrals[metric] = Integral()
            segment = integral.add(value, origin)
            if segment is not None:
                self.add_segment(metric, segment)
        for metric in self._integrals.keys() - continued_metrics:
            self._integrals[metric].last_reading = None

    def _count_energy(self, readings: Readings) -> None:
        joules, origin = readings.find(_ENERGY_COUNTER) or (Absent.NOT_REPORTED, Origin(""))
        if isinstance(joules, Absent):
            return
        previous = self._counter_reading
        if previous is not None and origin.taken <= previous.time:
            return
        self._counter_reading = _CounterReading(joules, origin.taken, origin.source)
        max_interval = max(MAX_REPORT_DELAY_SECONDS, MAX_GAP_INTERVALS * origin.interval)
        self._uncounted.max_interval = max_interval
        if previous is None or previous.source != origin.source:
            return
        seconds = origin.taken - previous.time
        watts = (joules - previous.joules) / seconds
        power = self._uncounted.segments
        self.longest_segment = max(self.longest_segment, seconds)
        if watts > 0.0:
            self._uncounted.clear(joules - previous.joules)
        if not self._is_counter_working:
            self._is_counter_working = watts > 0.0
            return
        if seconds <= max_interval and 0.0 <= watts <= _MAX_WATTS:
            for segment in distribute_like_power(CurveSegment(previous.time, origin.taken, watts, watts), power):
                self.add_segment(ENERGY_COUNTED, segment)

    def add_segment(self, metric: str, segment: CurveSegment) -> None:
        """Add the part of a segment during which the card was present."""
        _, segment = segment.split(self._counted_from)
        if metric == POWER:
            self._estimate_energy(segment)
        curve = self._curves.get(metric)
        if curve is None:
            curve = self._curves[metric] = array("d")
        curve.extend(segment)
        self.longest_segment = max(self.longest_segment, segment.end - segment.begin)

    def _estimate_energy(self, segment: CurveSegment) -> None:
        if not self._is_counter_working:
            self.add_segment(ENERGY_ESTIMATED, segment)
            return
        self._uncounted.add(segment)
        if self._uncounted.has_counter_stopped:
            self._is_counter_working = False
            for missed_segment in self._uncounted.segments:
                self.add_segment(ENERGY_ESTIMATED, missed_segment)

    def add_event(self, time: float, code: str) -> None:
        """Add an event. If its time is already settled, count it at the end of the settled time."""
        self._events.append((max(time, self._settled_until), code))

    def set_shares(self, shares: Mapping[_Holder, float]) -> None:
        """Set the holders' shares. They apply from the time when the card was last seen."""
        self.shares = shares
        self._timeline.set_shares(self.seen_until, shares)

    def extend_back(self, holder: _Holder, since: float) -> float:
        """Move a holder's start back to `since`, but not into settled time. Return the new start."""
        start_time = min(max(since, self._settled_until), self.seen_until)
        self._timeline.extend_back(holder, start_time)
        self._drop_unsettled_tallies()
        return start_time

    def add_past(
        self, holder: _Holder, since: float, until: float, is_displaceable: Callable[[_Holder], bool]
    ) -> float:
        """Attribute a past period, except settled time, to a holder. Return the attributed seconds."""
        begin = min(max(since, self._settled_until), self.seen_until)
        end = min(max(until, begin), self.seen_until)
        if end > begin:
            self._timeline.add_past(holder, begin, end, is_displaceable)
            self._drop_unsettled_tallies()
        return end - begin

    def remove_holder(self, holder: _Holder, since: float) -> None:
        """Remove a holder from this time on. Settled time does not change."""
        self._timeline.remove_holder(holder, max(since, self._settled_until))
        self._drop_unsettled_tallies()

    def skip_absence(self, until: float) -> Tallies[_Holder]:
        """Settle all use before the card's absence, and continue at `until`."""
        tallies = self.settle()
        self._counted_from = self._settled_until = self.seen_until = until
        self._newest_readings = self._counter_reading = None
        self._uncounted.clear()
        for integral in self._integrals.values():
            integral.last_reading = None
        return tallies

    def settle_old(self) -> Tallies[_Holder]:
        """Settle use that late reports can no longer change, and return its tallies."""
        if len(self._timeline) > _MAX_SPANS:
            return self.settle(self.seen_until)
        is_due = self.seen_until - self._settled_until > 2 * self.max_report_delay
        return self.settle(self.seen_until - self.max_report_delay) if is_due else defaultdict(Tally)

    def settle(self, until: float = math.inf) -> Tallies[_Holder]:
        """Settle the use until this time, and return its tallies."""
        tallies: Tallies[_Holder] = defaultdict(Tally)
        end = min(until, self.seen_until)
        if end > self._settled_until:
            add_seconds(tallies, self._timeline, self.unallocated, self._settled_until, end)
            self._settled_until = end
        for metric, curve in self._curves.items():
            starts = range(0, len(curve), SEGMENT_SIZE)
            count = next((start for start in starts if curve[start + 1] > until), len(curve))
            add_segments(tallies, self._timeline, self.unallocated, metric, curve[:count])
            del curve[:count]
            if curve and curve[0] < end:
                before, after = CurveSegment(*curve[:SEGMENT_SIZE]).split(end)
                add_integral(tallies, self._timeline, self.unallocated, metric, before)
                curve[:SEGMENT_SIZE] = array("d", after)
        unsettled = [event for event in self._events if event[0] > until]
        self._count_events(tallies, [event for event in self._events if event[0] <= until])
        self._events = unsettled
        self._timeline.forget_before(end if len(self._timeline) > _MAX_SPANS else end - self.longest_segment)
        self._drop_unsettled_tallies()
        return tallies

    def unsettled_tallies(self, metrics: Iterable[str] | None = None) -> Tallies[_Holder]:
        """Return the tallies of unsettled use. If `metrics` is given, only these metrics are up to date."""
        for metric in self._curves if metrics is None else metrics:
            curve = self._curves.get(metric, _NO_NUMBERS)
            start = self._tallied_lengths.get(metric, 0)
            add_segments(self._unsettled_tallies, self._timeline, self.unallocated, metric, curve, start)
            self._tallied_lengths[metric] = len(curve)
        for tally in self._unsettled_tallies.values():
            tally.seconds = 0.0
            tally.events.clear()
        add_seconds(self._unsettled_tallies, self._timeline, self.unallocated, self._settled_until, self.seen_until)
        self._count_events(self._unsettled_tallies, self._events)
        return self._unsettled_tallies

    def _count_events(self, tallies: Tallies[_Holder], events: list[tuple[float, str]]) -> None:
        for time, code in events:
            for holder in self._timeline.span_at(time)[2] or (self.unallocated,):
                tallies[holder].events[code] += 1

    def _drop_unsettled_tallies(self) -> None:
        self._unsettled_tallies = defaultdict(Tally)
        self._tallied_lengths.clear()


class _CounterReading(NamedTuple):
    joules: float
    time: float
    source: str


@dataclass(slots=True)
class _UncountedEnergy:
    """The energy since the card's counter last grew, computed from the power."""

    segments: list[CurveSegment] = field(default_factory=list)
    # The maximum seconds between two readings of a working counter.
    max_interval: float = MAX_REPORT_DELAY_SECONDS
    _seconds: float = 0.0
    _joules: float = 0.0
    # The counter's largest growth between two readings, in joules.
    _largest_growth: float = 0.0

    def add(self, segment: CurveSegment) -> None:
        self.segments.append(segment)
        seconds = segment.end - segment.begin
        self._seconds += seconds
        self._joules += seconds * (segment.begin_value + segment.end_value) / 2.0

    def clear(self, growth: float = 0.0) -> None:
        """Reset the energy to 0 after the counter grew by `growth` joules."""
        self._largest_growth = max(self._largest_growth, growth)
        self.segments, self._seconds, self._joules = [], 0.0, 0.0

    @property
    def has_counter_stopped(self) -> bool:
        """Return whether the counter should have grown at least twice by now."""
        return self._seconds > self.max_interval and self._joules > 2 * self._largest_growth


def distribute_like_power(energy: CurveSegment, power: Iterable[CurveSegment]) -> list[CurveSegment]:
    """Return segments that distribute the energy over time in proportion to the power."""
    times, watts = [energy.begin], [0.0]
    for segment in power:
        slope = (segment.end_value - segment.begin_value) / ((segment.end - segment.begin) or 1.0)
        for time in (segment.begin, segment.end):
            if time <= energy.end and segment.end > energy.begin:
                times.append(max(time, energy.begin))
                watts.append(segment.begin_value + slope * (times[-1] - segment.begin))
    watts[0] = watts[min(1, len(watts) - 1)]
    times.append(energy.end)
    watts.append(watts[-1])
    pieces = [
        CurveSegment(*piece) for piece in zip(times, times[1:], watts, watts[1:], strict=False) if piece[1] > piece[0]
    ]
    joules = sum((end - begin) * (first + last) / 2.0 for begin, end, first, last in pieces)
    if joules <= 0.0:
        return [energy]
    scale = (energy.end - energy.begin) * energy.begin_value / joules
    return [CurveSegment(begin, end, first * scale, last * scale) for begin, end, first, last in pieces]


def _readings_to_integrate(readings: Readings) -> Iterator[tuple[str, float, Origin]]:
    values, shape = readings.values, readings.shape
    for metric, indices in _metric_indices(shape):
        candidates = [(value, index) for index in indices if not isinstance(value := values[index], Absent)]
        if candidates:
            value, index = max(candidates)
            yield metric, value, readings.origins[shape.origins[index]]


@lru_cache(maxsize=_CACHED_SHAPES)
def _metric_indices(shape: Shape) -> tuple[tuple[str, tuple[int, ...]], ...]:
    index_of = {metric: index for (metric, label), index in shape.indices.items() if label == ""}
    unlabelled = tuple((metric, (index_of[metric],)) for metric in _UNLABELLED_METRICS if metric in index_of)
    kept_indices = kept_positions(shape)
    return unlabelled + tuple((metric, kept_indices[KEPT.index(metric)]) for metric in _PEAK_METRICS)
