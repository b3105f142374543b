"""One card in the ledger: who had it, and what was read of it, of the last minutes; older times are divided for good."""

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
# So late somebody may tell that an owner came or went: a kubelet is asked every ten seconds, a tool every fifteen.
PATIENCE_SECONDS = 60.0
# One that changes its owners more often has its times divided at once.
_MOST_SPANS = 256
# Readings of which there is a mean and a peak, beside those that the accumulator integrates.
_UNLABELLED = ("power_cap_watts", "memory_used_bytes", "memory_total_bytes", "memory_used_ratio")
_HIGHEST = ("temperature_celsius", "throttled")
_MOST_SHAPES = 64
_NOTHING = array("d")
# Energy by the card's own counter where it has one, else integrated from its power.
POWER, ENERGY_COUNTED, ENERGY_ESTIMATED = "power_watts", "energy_counted", "energy_estimated"
_COUNTER = "energy_joules_total"
_MOST_WATTS = BY_KEY[POWER].high


class BilledCard(Generic[_Holder]):
    """What `nobody` stands for has all that no other has. Times are monotonic seconds."""

    def __init__(self, nobody: _Holder, now: float) -> None:
        self.nobody = nobody
        self.seen_until = now
        # Of those who have the card now.
        self.shares: Mapping[_Holder, float] = {}
        # Time is counted from the first look at the card, or the first after it was away, and so are its readings.
        self._counted_from = self._divided_until = now
        self._tenure: Tenure[_Holder] = Tenure()
        self._lines: dict[str, array[float]] = {}
        self._events: list[tuple[float, str]] = []
        self.longest = 0.0
        # What was made of the last minutes already, and up to which number of each line.
        self._recent: Tallies[_Holder] = {}
        self._counted: dict[str, int] = {}
        self._integrals: dict[str, Integral] = {}
        self._readings: object = None
        # The card's own counter when it was read last; the name of its source.
        self._counter: tuple[float, float, str] | None = None
        self._has_counter = False
        self._standstill = _Standstill()

    def replace_nobody(self, nobody: _Holder) -> None:
        """From now on `nobody` has what no other has, and what is not yet divided for good."""
        self.nobody = nobody
        self._count_anew()

    @property
    def patience(self) -> float:
        """After so many seconds nothing changes any more of what the card's owners had."""
        return max(PATIENCE_SECONDS, 2 * self.longest)

    def look(self, readings: Readings) -> None:
        """Integrate the readings that are no counters; one that is missing has ended."""
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
        """Count the growth of the card's counter; between readings the energy follows the power. Without a growing counter it is estimated."""
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
        """Take in what a reading's integral grew by since time is counted."""
        _, increment = cut(increment, self._counted_from)
        if metric == POWER:
            self._count_power(increment)
        line = self._lines.get(metric)
        if line is None:
            line = self._lines[metric] = array("d")
        line.extend(increment)
        self.longest = max(self.longest, increment.end - increment.begin)

    def _count_power(self, increment: Increment) -> None:
        """Estimate the energy where no counter grows; what was drawn since it stopped is made up for."""
        if not self._has_counter:
            self.count(ENERGY_ESTIMATED, increment)
            return
        self._standstill.add(increment)
        if self._standstill.is_too_long:
            self._has_counter = False
            for missed in self._standstill.increments:
                self.count(ENERGY_ESTIMATED, missed)

    def event(self, moment: float, code: str) -> None:
        """Take in an event."""
        self._events.append((max(moment, self._divided_until), code))

    def change(self, shares: Mapping[_Holder, float]) -> None:
        """These have the card from the time on that it was seen last."""
        self.shares = shares
        self._tenure.change(self.seen_until, shares)

    def came(self, holder: _Holder, since: float) -> float:
        """A holder had the card earlier than was seen; returns from when on that counts."""
        moment = min(max(since, self._divided_until), self.seen_until)
        self._tenure.came(holder, moment)
        self._count_anew()
        return moment

    def visited(self, holder: _Holder, since: float, until: float, gives_way: Callable[[_Holder], bool]) -> float:
        """A holder had the card in this time only; returns for how many of these seconds that still counts."""
        begin = min(max(since, self._divided_until), self.seen_until)
        end = min(max(until, begin), self.seen_until)
        if end > begin:
            self._tenure.visited(holder, begin, end, gives_way)
            self._count_anew()
        return end - begin

    def left(self, holder: _Holder, since: float) -> None:
        """Somebody had the card only until then."""
        self._tenure.left(holder, max(since, self._divided_until))
        self._count_anew()

    def away(self, until: float) -> Tallies[_Holder]:
        """The card was not seen until now, and that time is not counted; returns what is divided for good."""
        divided = self.divide()
        self._counted_from = self._divided_until = self.seen_until = until
        self._readings = self._counter = None
        self._standstill.end()
        for integral in self._integrals.values():
            integral.last = None
        return divided

    def divide_old(self) -> Tallies[_Holder]:
        """Divide for good what nothing changes any more; all of it where owners change too often. Returns it."""
        if len(self._tenure) > _MOST_SPANS:
            return self.divide(self.seen_until)
        is_due = self.seen_until - self._divided_until > 2 * self.patience
        return self.divide(self.seen_until - self.patience) if is_due else {}

    def divide(self, until: float = math.inf) -> Tallies[_Holder]:
        """Divide for good what was until then; returns it."""
        divided: Tallies[_Holder] = {}
        end = min(until, self.seen_until)
        if end > self._divided_until:
            count_time(divided, self._tenure, self.nobody, self._divided_until, end)
            self._divided_until = end
        for metric, line in self._lines.items():
            place = next((at for at in range(0, len(line), WIDTH) if line[at + 1] > until), len(line))
            count_increments(divided, self._tenure, self.nobody, metric, line[:place])
            del line[:place]
            if line and line[0] < end:
                before, after = cut(Increment(*line[:WIDTH]), end)
                count_area(divided, self._tenure, self.nobody, metric, before)
                line[:WIDTH] = array("d", after)
        later = [event for event in self._events if event[0] > until]
        self._count_events(divided, [event for event in self._events if event[0] <= until])
        self._events = later
        self._tenure.forget_before(end if len(self._tenure) > _MOST_SPANS else end - self.longest)
        self._count_anew()
        return divided

    def recent(self, metrics: Iterable[str] | None = None) -> Tallies[_Holder]:
        """What is not yet divided for good, as it is divided now; all of it, or of readings these at least."""
        for metric in self._lines if metrics is None else metrics:
            line = self._lines.get(metric, _NOTHING)
            count_increments(self._recent, self._tenure, self.nobody, metric, line, self._counted.get(metric, 0))
            self._counted[metric] = len(line)
        for tally in self._recent.values():
            tally.seconds = 0.0
            tally.events.clear()
        count_time(self._recent, self._tenure, self.nobody, self._divided_until, self.seen_until)
        self._count_events(self._recent, self._events)
        return self._recent

    def _count_events(self, tallies: Tallies[_Holder], events: list[tuple[float, str]]) -> None:
        """Everybody who had the card has the whole event."""
        for moment, code in events:
            for holder in self._tenure.span_of(moment)[2] or (self.nobody,):
                tally_of(tallies, holder).events[code] += 1

    def _count_anew(self) -> None:
        self._recent = {}
        self._counted.clear()


@dataclass(slots=True)
class _Standstill:
    """What was drawn since the card's own counter grew last, by the readings of its power."""

    increments: list[Increment] = field(default_factory=list)
    # After so many seconds the counter would have been read.
    patience: float = PATIENCE_SECONDS
    _seconds: float = 0.0
    _joules: float = 0.0
    # By which the counter grows at once.
    _largest_step: float = 0.0

    def add(self, increment: Increment) -> None:
        """Take in what the power came to while the counter did not grow."""
        self.increments.append(increment)
        seconds = increment.end - increment.begin
        self._seconds += seconds
        self._joules += seconds * (increment.first + increment.last) / 2.0

    def end(self, step: float = 0.0) -> None:
        """The counter grew by so much."""
        self._largest_step = max(self._largest_step, step)
        self.increments, self._seconds, self._joules = [], 0.0, 0.0

    @property
    def is_too_long(self) -> bool:
        """Whether the counter has stopped, since it would have grown twice by now."""
        return self._seconds > self.patience and self._joules > 2 * self._largest_step


def shaped(whole: Increment, power: Iterable[Increment]) -> list[Increment]:
    """Return increments that have the integral of `whole`, and follow the power as it was read meanwhile."""
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
    """The numbers of these readings; of those with labels the highest."""
    values, shape = readings.values, readings.shape
    for metric, places in _places(shape):
        found = [(value, place) for place in places if not isinstance(value := values[place], Absent)]
        if found:
            value, place = max(found)
            yield metric, value, readings.origins[shape.origins[place]]


@lru_cache(maxsize=_MOST_SHAPES)
def _places(shape: Shape) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Where the values of each of these readings are, in readings of that shape."""
    alone = tuple((metric, (shape.places[(metric, "")],)) for metric in _UNLABELLED if (metric, "") in shape.places)
    kept = kept_places(shape)
    return alone + tuple((metric, kept[KEPT.index(metric)]) for metric in _HIGHEST)
