"""Values derived from readings over time: busy seconds, energy, counts of events, and the last half hour."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from telemetry_daemon.state.events import SOURCE, Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.links import Links
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.merge.merged import Merged, with_readings
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Absent, Event, Health, MergedDevice, MergedReading
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import Origin, Readings

# Each counter and the reading that it integrates.
INTEGRALS = (("busy_seconds_total", "utilization_ratio"), ("energy_estimated_joules_total", "power_watts"))
LONGEST_GAP_INTERVALS = 2.0
# The event that the daemon itself reports, and the source under which it is stored.
LINK_DOWN, _OF_LINKS = "link_down", (SOURCE, "links")
# The first sighting of a device is no event.
_MOVES = frozenset({"lost", "returned", "removed"})


class Increment(NamedTuple):
    """A reading that changed linearly from `first` to `last` between the monotonic times `begin` and `end`, which are equal for a first reading."""

    begin: float
    end: float
    first: float
    last: float


class Bill(Protocol):
    """Divides counts among the owners of the cards."""

    def count(self, device_id: str, metric: str, increment: Increment) -> None:
        """Add an increment of the integral of a reading."""

    def event(self, event: PastEvent) -> None:
        """Add an event of a device."""

    def forget(self, device_id: str) -> None:
        """Drop a device that is gone for good."""


class Watch(Protocol):
    """Receives events of devices, and returns quickly."""

    def event(self, event: PastEvent) -> None:
        """Add an event that began while the daemon was watching."""

    def see(self, devices: Sequence[MergedDevice], healths: Mapping[tuple[str, str], Health]) -> None:
        """Read the devices and the health of the polls, which are current from now on."""


@dataclass(slots=True)
class Integral:
    """One counter: its total, the time up to which it is counted, and the last reading."""

    total: float = 0.0
    counted_until: float = -math.inf
    last: tuple[float, Origin] | None = None

    def add(self, value: float, origin: Origin) -> Increment | None:
        """Count the trapezoid since the previous reading, unless its source differs or it is too old. Return None if this reading is not newer."""
        before, self.last = self.last, (value, origin)
        if before is None or before[1].source != origin.source:
            return Increment(origin.taken, origin.taken, value, value)
        last, then = before
        if origin.taken <= then.taken:
            self.last = before
            return None
        if origin.taken - then.taken > LONGEST_GAP_INTERVALS * min(origin.interval, then.interval):
            return Increment(origin.taken, origin.taken, value, value)
        # Readings of another source may have counted a part of this time.
        begin = min(max(then.taken, self.counted_until), origin.taken)
        self.total += (origin.taken - begin) * (value + last) / 2.0
        self.counted_until = max(origin.taken, self.counted_until)
        return Increment(begin, origin.taken, last, value)


class Accumulator:
    """Counts from its creation on. Not thread-safe: the caller holds a lock."""

    def __init__(
        self,
        events: Events | None = None,
        history: History | None = None,
        bill: Bill | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._devices: dict[str, dict[str, Integral]] = {}
        self.events = events or Events()
        self._links = Links()
        self._history = history
        self._bill = bill
        self._watch = watch

    def reset(self) -> Accumulator:
        """Return an accumulator without counts, and clear the history."""
        if self._history is not None:
            self._history.clear()
        return Accumulator(None, self._history, self._bill, self._watch)

    def take(self, poll: tuple[str, str], ids: Sequence[str | None], events: Sequence[Event], wall_time: float) -> None:
        """Count the events of a report whose devices have these ids."""
        for counted in self.events.take(poll, ids, events, wall_time):
            self._keep(counted.event)
            if counted.is_seen_to_begin:
                self._warn(counted.event)

    def look_at_links(self, devices: Sequence[MergedDevice], wall_time: float) -> None:
        """Report an ongoing event for each device with links that were up and are down."""
        news = self._links.look(devices)
        down = [
            Event(position, LINK_DOWN, f"link {', '.join(links)}", is_ongoing=True)
            for position, links in enumerate(news.values())
            if links
        ]
        self.take(_OF_LINKS, tuple(news), down, wall_time)

    def close(self, device_id: str) -> tuple[str, ...]:
        """Close the open events of a device and return their codes. Links that are down count as removed for good."""
        codes = self.events.close(device_id)
        if not self._links.forget(device_id):
            return codes
        self.events.take(_OF_LINKS, (device_id,), (), 0.0)
        return (*codes, LINK_DOWN)

    def moved(self, events: Sequence[DeviceEvent], wall_time: float) -> None:
        """Record which devices disappeared and returned."""
        for event in events:
            if event.what in _MOVES:
                moved = PastEvent(wall_time, event.id, event.what)
                self._keep(moved)
                self._warn(moved)

    def see(self, merged: Merged, healths: Mapping[tuple[str, str], Health]) -> None:
        """Pass the merged devices and the health of their sources to the history."""
        if self._history is not None:
            self._history.see(merged.devices, healths, merged.valid_until)
        self.advance(merged.devices)
        if self._watch is not None:
            self._watch.see(merged.devices, healths)

    def advance(self, devices: Sequence[MergedDevice]) -> None:
        """Integrate the readings of the merged devices. A missing reading ends its integral."""
        self.events.look(devices)
        continued = set()
        for device in devices:
            for counter, metric, value, origin in _inputs(device):
                integral = self._devices.setdefault(device.id, {}).setdefault(counter, Integral())
                increment = integral.add(value, origin)
                if increment is not None and self._bill is not None:
                    self._bill.count(device.id, metric, increment)
                continued.add((device.id, counter))
        for device_id, integrals in self._devices.items():
            for counter, integral in integrals.items():
                if (device_id, counter) not in continued:
                    integral.last = None

    def with_counters(self, devices: Iterable[MergedDevice]) -> tuple[MergedDevice, ...]:
        """Return the devices with the counters and events added to their readings."""
        codes = self.events.codes()
        return tuple(self._with_counters(device, codes.get(device.id, frozenset())) for device in devices)

    def _with_counters(self, device: MergedDevice, codes: frozenset[str]) -> MergedDevice:
        more = (*self._integrals(device), *self.events.readings(device.id, codes))
        return with_readings(device, device.facts, Readings.of(device.readings).plus(more)) if more else device

    def forget(self, device_id: str) -> None:
        """Drop the counts of a device that is gone for good."""
        self._devices.pop(device_id, None)
        self.events.forget(device_id)
        self._links.forget(device_id)
        if self._history is not None:
            self._history.forget(device_id)
        if self._bill is not None:
            self._bill.forget(device_id)

    def _keep(self, event: PastEvent) -> None:
        if self._history is not None:
            self._history.event(event)
        if self._bill is not None:
            self._bill.event(event)

    def _warn(self, event: PastEvent) -> None:
        if self._watch is not None:
            self._watch.event(event)

    def _integrals(self, device: MergedDevice) -> Iterator[MergedReading]:
        integrals = self._devices.get(device.id, {})
        for counter, _, _, origin in _inputs(device):
            if counter in integrals:
                yield MergedReading(counter, "", integrals[counter].total, SOURCE, origin.taken, origin.interval)


def _inputs(device: MergedDevice) -> Iterator[tuple[str, str, float, Origin]]:
    readings = Readings.of(device.readings)
    for counter, metric in INTEGRALS:
        value, origin = readings.find(metric) or (Absent.NOT_REPORTED, Origin(""))
        if not isinstance(value, Absent):
            yield counter, metric, value, origin
