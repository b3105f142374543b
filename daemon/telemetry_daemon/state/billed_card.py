"""A card in the ledger: its owners and readings of the last minutes. Older time is divided for good."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

from telemetry_daemon.state.accumulate import LONGEST_GAP_INTERVALS, Increment, Integral
from telemetry_daemon.state.tally import WIDTH, Tallies, Tenure, count_area, count_increments, count_time, cut, tally_of
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent
from telemetry_parsers.past import KEPT, kept_places
from telemetry_parsers.readings import Origin, Readings, Shape

_Holder = TypeVar("_Holder")
# A change of owners may be reported this late: a kubelet is polled every ten seconds, a tool every fifteen.
PATIENCE_SECONDS = 60.0
# With more changes of owners than this, the time is divided at once.
_MOST_SPANS = 256
# Records have a mean and a peak of these readings, in addition to those that the accumulator integrates.
_UNLABELLED = ("power_cap_watts", "memory_used_bytes", "memory_total_bytes", "memory_used_ratio")
_HIGHEST = ("temperature_celsius", "throttled")
_MOST_SHAPES = 64
_NOTHING = array("d")
# Energy is counted by the card's counter if it has one, otherwise integrated from its power.
POWER, ENERGY_COUNTED, ENERGY_ESTIMATED = "power_watts", "energy_counted", "energy_estimated"
_COUNTER = "energy_joules_total"
_MOST_WATTS = BY_KEY[POWER].high


class BilledCard(Generic[_Holder]):
    """A card whose use by no owner goes to `unallocated`. Times are monotonic seconds."""

    def __init__(self, unallocated: _Holder, now: float) -> None:
        self.unallocated = unallocated
        self.seen_until = now
        # The shares of the current owners.
        self.shares: Mapping[_Holder, float] = {}
        # Time and readings are counted from the first sighting of the card, or from its return.
        self._counted_from = self._divided_until = now
        self._tenure: Tenure[_Holder] = Tenure()
        self._lines: dict[str, array[float]] = {}
        self._events: list[tuple[float, str]] = []
        self.longest = 0.0
        # The division of the last minutes so far, and how many numbers of each line it includes.
        self._recent: Tallies[_Holder] = {}
        self._counted: dict[str, int] = {}
        self._integrals: dict[str, Integral] = {}
        self._readings: object = None
        # The last value of the card's counter, its time, and its source.
        self._counter: tuple[float, float, str] | None = None
        self._has_counter = False
        self._standstill = _Standstill()

    def replace_unallocated(self, unallocated: _Holder) -> None:
        """Use another holder for unallocated use, except in time that is divided for good."""
        self.unallocated = unallocated
        self._recount()

    @property
    def patience(self) -> float:
        """Return after how many seconds the division among owners is final."""
        return max(PATIENCE_SECONDS, 2 * self.longest)

    def look(self, readings: Readings) -> None:
        """Integrate the readings that are not counters. A missing reading ends its integral."""
        if readings is self._readings:
            return
        self._readings = readings
        self._count_energy(readings)
        continued = set()
        for metric, value, origin in _courses(readings):
            continued.add(metric)
            integral = self._integrals.get(metric)
            if integral is None:
                integral = self._integrals[metric] = Integral()
            increment = integral.add(value, origin)
            if increment is not None:
                self.count(metric, increment)
        for metric in self._integrals.keys() - continued:
            self._integrals[metric].last = None

    def _count_energy(self, readings: Readings) -> None:
        """Count the growth of the card's counter, shaped by its power between readings. Without a growing counter energy is estimated."""
        joules, origin = readings.find(_COUNTER) or (Absent.NOT_REPORTED, Origin(""))
        if isinstance(joules, Absent):
            return
        before = self._counter
        if before is not None and origin.taken <= before[1]:
            return
        self._counter = (joules, origin.taken, origin.source)
        longest = max(PATIENCE_SECONDS, LONGEST_GAP_INTERVALS * origin.interval)
        self._standstill.patience = longest
        if before is None or before[2] != origin.source:
            return
        seconds = origin.taken - before[1]
        watts = (joules - before[0]) / seconds
        power = self._standstill.increments
        self.longest = max(self.longest, seconds)
        if watts > 0.0:
            self._standstill.end(joules - before[0])
        if not self._has_counter:
            self._has_counter = watts > 0.0
            return
        if seconds <= longest and 0.0 <= watts <= _MOST_WATTS:
            for increment in shaped(Increment(before[1], origin.taken, watts, watts), power):
                self.count(ENERGY_COUNTED, increment)

    def count(self, metric: str, increment: Increment) -> None:
        """Add an increment of a reading's integral; whatever lies before the start of counting is ignored."""
        _, increment = cut(increment, self._counted_from)
        if metric == POWER:
            self._count_power(increment)
        line = self._lines.get(metric)
        if line is None:
            line = self._lines[metric] = array("d")
        line.extend(increment)
        self.longest = max(self.longest, increment.end - increment.begin)

    def _count_power(self, increment: Increment) -> None:
        """Estimate the energy if no counter grows, including the energy since the counter stopped."""
        if not self._has_counter:
            self.count(ENERGY_ESTIMATED, increment)
            return
        self._standstill.add(increment)
        if self._standstill.is_too_long:
            self._has_counter = False
            for missed in self._standstill.increments:
                self.count(ENERGY_ESTIMATED, missed)

    def event(self, moment: float, code: str) -> None:
        """Add an event."""
        self._events.append((max(moment, self._divided_until), code))

    def change(self, shares: Mapping[_Holder, float]) -> None:
        """Set the owners from the last sighting on."""
        self.shares = shares
        self._tenure.change(self.seen_until, shares)

    def came(self, holder: _Holder, since: float) -> float:
        """Add a holder that had the card earlier than it was seen. Return from when on this counts."""
        moment = min(max(since, self._divided_until), self.seen_until)
        self._tenure.came(holder, moment)
        self._recount()
        return moment

    def visited(self, holder: _Holder, since: float, until: float, gives_way: Callable[[_Holder], bool]) -> float:
        """Add a holder that had the card only in this period. Return how many seconds of it still count."""
        begin = min(max(since, self._divided_until), self.seen_until)
        end = min(max(until, begin), self.seen_until)
        if end > begin:
            self._tenure.visited(holder, begin, end, gives_way)
            self._recount()
        return end - begin

    def left(self, holder: _Holder, since: float) -> None:
        """Remove a holder from this time on."""
        self._tenure.left(holder, max(since, self._divided_until))
        self._recount()

    def away(self, until: float) -> Tallies[_Holder]:
        """Skip the time in which the card was missing. Return what is divided for good."""
        divided = self.divide()
        self._counted_from = self._divided_until = self.seen_until = until
        self._readings = self._counter = None
        self._standstill.end()
        for integral in self._integrals.values():
            integral.last = None
        return divided

    def divide_old(self) -> Tallies[_Holder]:
        """Divide the time that no later report can change, or all time if the owners change too often. Return the division."""
        if len(self._tenure) > _MOST_SPANS:
            return self.divide(self.seen_until)
        is_due = self.seen_until - self._divided_until > 2 * self.patience
        return self.divide(self.seen_until - self.patience) if is_due else {}

    def divide(self, until: float = math.inf) -> Tallies[_Holder]:
        """Divide all time until then for good, and return the division."""
        divided: Tallies[_Holder] = {}
        end = min(until, self.seen_until)
        if end > self._divided_until:
            count_time(divided, self._tenure, self.unallocated, self._divided_until, end)
            self._divided_until = end
        for metric, line in self._lines.items():
            position = next((at for at in range(0, len(line), WIDTH) if line[at + 1] > until), len(line))
            count_increments(divided, self._tenure, self.unallocated, metric, line[:position])
            del line[:position]
            if line and line[0] < end:
                before, after = cut(Increment(*line[:WIDTH]), end)
                count_area(divided, self._tenure, self.unallocated, metric, before)
                line[:WIDTH] = array("d", after)
        later = [event for event in self._events if event[0] > until]
        self._count_events(divided, [event for event in self._events if event[0] <= until])
        self._events = later
        self._tenure.forget_before(end if len(self._tenure) > _MOST_SPANS else end - self.longest)
        self._recount()
        return divided

    def recent(self, metrics: Iterable[str] | None = None) -> Tallies[_Holder]:
        """Return the preliminary division of the time that is not final, of all readings or at least of these."""
        for metric in self._lines if metrics is None else metrics:
            line = self._lines.get(metric, _NOTHING)
            count_increments(self._recent, self._tenure, self.unallocated, metric, line, self._counted.get(metric, 0))
            self._counted[metric] = len(line)
        for tally in self._recent.values():
            tally.seconds = 0.0
            tally.events.clear()
        count_time(self._recent, self._tenure, self.unallocated, self._divided_until, self.seen_until)
        self._count_events(self._recent, self._events)
        return self._recent

    def _count_events(self, tallies: Tallies[_Holder], events: list[tuple[float, str]]) -> None:
        for moment, code in events:
            for holder in self._tenure.span_of(moment)[2] or (self.unallocated,):
                tally_of(tallies, holder).events[code] += 1

    def _recount(self) -> None:
        self._recent = {}
        self._counted.clear()


@dataclass(slots=True)
class _Standstill:
    """The energy since the card's counter last grew, from readings of its power."""

    increments: list[Increment] = field(default_factory=list)
    # Within this time the counter would have been read.
    patience: float = PATIENCE_SECONDS
    _seconds: float = 0.0
    _joules: float = 0.0
    # The largest step by which the counter grew.
    _largest_step: float = 0.0

    def add(self, increment: Increment) -> None:
        """Add the energy of an increment during which the counter did not grow."""
        self.increments.append(increment)
        seconds = increment.end - increment.begin
        self._seconds += seconds
        self._joules += seconds * (increment.first + increment.last) / 2.0

    def end(self, step: float = 0.0) -> None:
        """Start again, because the counter grew by this step."""
        self._largest_step = max(self._largest_step, step)
        self.increments, self._seconds, self._joules = [], 0.0, 0.0

    @property
    def is_too_long(self) -> bool:
        """Return whether the counter has stopped: otherwise it would have grown twice by now."""
        return self._seconds > self.patience and self._joules > 2 * self._largest_step


def shaped(whole: Increment, power: Iterable[Increment]) -> list[Increment]:
    """Return increments that have the integral of `whole` and the shape of the power during that time."""
    times, watts = [whole.begin], [0.0]
    for increment in power:
        slope = (increment.last - increment.first) / ((increment.end - increment.begin) or 1.0)
        for moment in (increment.begin, increment.end):
            if moment <= whole.end and increment.end > whole.begin:
                times.append(max(moment, whole.begin))
                watts.append(increment.first + slope * (times[-1] - increment.begin))
    watts[0] = watts[min(1, len(watts) - 1)]
    times.append(whole.end)
    watts.append(watts[-1])
    pieces = [
        Increment(*piece) for piece in zip(times, times[1:], watts, watts[1:], strict=False) if piece[1] > piece[0]
    ]
    area = sum((piece.end - piece.begin) * (piece.first + piece.last) / 2.0 for piece in pieces)
    if area <= 0.0:
        return [whole]
    scale = (whole.end - whole.begin) * whole.first / area
    return [piece._replace(first=piece.first * scale, last=piece.last * scale) for piece in pieces]


def _courses(readings: Readings) -> Iterator[tuple[str, float, Origin]]:
    values, shape = readings.values, readings.shape
    for metric, places in _places(shape):
        found = [(value, at) for at in places if not isinstance(value := values[at], Absent)]
        if found:
            value, position = max(found)
            yield metric, value, readings.origins[shape.origins[position]]


@lru_cache(maxsize=_MOST_SHAPES)
def _places(shape: Shape) -> tuple[tuple[str, tuple[int, ...]], ...]:
    alone = tuple((metric, (shape.places[(metric, "")],)) for metric in _UNLABELLED if (metric, "") in shape.places)
    kept = kept_places(shape)
    return alone + tuple((metric, kept[KEPT.index(metric)]) for metric in _HIGHEST)
