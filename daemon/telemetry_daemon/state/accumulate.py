"""Derives values from readings over time: busy seconds, energy and event counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from telemetry_daemon.state.events import SOURCE, Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.links import Links
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.merge.merged import MergedNode, with_readings
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Absent, Event, Health, MergedDevice, MergedReading
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import Origin, Readings

# Pairs of a counter and the metric whose integral it is.
INTEGRALS = (("busy_seconds_total", "utilization_ratio"), ("energy_estimated_joules_total", "power_watts"))
MAX_GAP_INTERVALS = 2.0
# Lost links are stored as events of this poll: (source, poll).
LINK_DOWN, _LINKS_POLL = "link_down", (SOURCE, "links")
# A device's first appearance is not an event.
_PRESENCE_EVENTS = frozenset({"lost", "returned", "removed"})


class CurveSegment(NamedTuple):
    """A linear segment of a reading's curve, between two monotonic times."""

    begin: float
    end: float
    begin_value: float
    end_value: float

    def split(self, time: float) -> tuple[CurveSegment, CurveSegment]:
        """Return the parts before and after a time."""
        begin, end, begin_value, end_value = self
        if time <= begin:
            return CurveSegment(begin, begin, begin_value, begin_value), self
        if time >= end:
            return self, CurveSegment(end, end, end_value, end_value)
        middle_value = begin_value + (end_value - begin_value) * (time - begin) / (end - begin)
        return CurveSegment(begin, time, begin_value, middle_value), CurveSegment(time, end, middle_value, end_value)


class UsageLedger(Protocol):
    """Attributes the use of the cards to their owners."""

    def add_segment(self, device_id: str, metric: str, segment: CurveSegment) -> None:
        """Attribute a segment of a reading's curve to the card's owners."""

    def add_event(self, event: PastEvent) -> None:
        """Count an event for the owners of its device."""

    def forget(self, device_id: str) -> None:
        """Remove the device."""


class DeviceObserver(Protocol):
    """Receives device updates and events while the store's lock is held."""

    def add_event(self, event: PastEvent) -> None:
        """Accept an event that began while the daemon was running."""

    def update(self, devices: Sequence[MergedDevice], health_by_poll: Mapping[tuple[str, str], Health]) -> None:
        """Accept the current devices and the health of the polls."""


@dataclass(slots=True)
class Integral:
    """The integral of a reading over time, up to the monotonic time `integrated_until`."""

    total: float = 0.0
    integrated_until: float = -math.inf
    last_reading: tuple[float, Origin] | None = None

    def add(self, value: float, origin: Origin) -> CurveSegment | None:
        """Add a reading. Return the curve segment that ends with the reading, or None if the reading is not new."""
        previous, self.last_reading = self.last_reading, (value, origin)
        if previous is None or previous[1].source != origin.source:
            return CurveSegment(origin.taken, origin.taken, value, value)
        previous_value, previous_origin = previous
        if origin.taken <= previous_origin.taken:
            self.last_reading = previous
            return None
        max_gap_seconds = MAX_GAP_INTERVALS * min(origin.interval, previous_origin.interval)
        if origin.taken - previous_origin.taken > max_gap_seconds:
            return CurveSegment(origin.taken, origin.taken, value, value)
        # Another source's readings may already cover part of this time.
        begin = min(max(previous_origin.taken, self.integrated_until), origin.taken)
        self.total += (origin.taken - begin) * (value + previous_value) / 2.0
        self.integrated_until = max(origin.taken, self.integrated_until)
        return CurveSegment(begin, origin.taken, previous_value, value)


class Accumulator:
    """Integrates readings and counts events. Not thread-safe."""

    def __init__(
        self,
        events: Events | None = None,
        history: History | None = None,
        ledger: UsageLedger | None = None,
        observer: DeviceObserver | None = None,
    ) -> None:
        self._integrals_by_device: dict[str, dict[str, Integral]] = {}
        self.events = events or Events()
        self._links = Links()
        self._history = history
        self._ledger = ledger
        self._observer = observer

    def reset(self) -> Accumulator:
        """Clear the history, and return a new accumulator with all counts at 0."""
        if self._history is not None:
            self._history.clear()
        return Accumulator(None, self._history, self._ledger, self._observer)

    def add_events(
        self, poll: tuple[str, str], ids: Sequence[str | None], events: Sequence[Event], wall_time: float
    ) -> None:
        """Count a report's events. `ids` are the ids of the report's devices."""
        for counted in self.events.add_report(poll, ids, events, wall_time):
            self._record_event(counted.event)
            if counted.is_start_observed:
                self._notify_observer(counted.event)

    def check_links(self, devices: Sequence[MergedDevice], wall_time: float) -> None:
        """Record an ongoing event for each device with lost links."""
        lost_links = self._links.update(devices)
        link_events = [
            Event(device_index, LINK_DOWN, f"link {', '.join(links)}", is_ongoing=True)
            for device_index, links in enumerate(lost_links.values())
            if links
        ]
        self.add_events(_LINKS_POLL, tuple(lost_links), link_events, wall_time)

    def close_events(self, device_id: str) -> tuple[str, ...]:
        """Close a device's open events and return their codes."""
        codes = self.events.close(device_id)
        if not self._links.forget(device_id):
            return codes
        self.events.add_report(_LINKS_POLL, (device_id,), (), 0.0)
        return (*codes, LINK_DOWN)

    def record_presence(self, events: Sequence[DeviceEvent], wall_time: float) -> None:
        """Record the events of lost, returned and removed devices."""
        for event in events:
            if event.kind in _PRESENCE_EVENTS:
                past_event = PastEvent(wall_time, event.id, event.kind)
                self._record_event(past_event)
                self._notify_observer(past_event)

    def update(self, merged: MergedNode, health_by_poll: Mapping[tuple[str, str], Health]) -> None:
        """Pass the merged devices to the history and the observer, and integrate their readings."""
        if self._history is not None:
            self._history.update(merged.devices, health_by_poll, merged.valid_until)
        self.integrate(merged.devices)
        if self._observer is not None:
            self._observer.update(merged.devices, health_by_poll)

    def integrate(self, devices: Sequence[MergedDevice]) -> None:
        """Integrate the readings of the merged devices."""
        self.events.update(devices)
        continued_counters = set()
        for device in devices:
            for counter, metric, value, origin in _integrands(device):
                integral = self._integrals_by_device.setdefault(device.id, {}).setdefault(counter, Integral())
                segment = integral.add(value, origin)
                if segment is not None and self._ledger is not None:
                    self._ledger.add_segment(device.id, metric, segment)
                continued_counters.add((device.id, counter))
        for device_id, integrals in self._integrals_by_device.items():
            for counter, integral in integrals.items():
                if (device_id, counter) not in continued_counters:
                    integral.last_reading = None

    def with_counters(self, devices: Iterable[MergedDevice]) -> tuple[MergedDevice, ...]:
        """Return the devices with the counters and events as additional readings."""
        codes = self.events.open_codes()
        return tuple(self._device_with_counters(device, codes.get(device.id, frozenset())) for device in devices)

    def _device_with_counters(self, device: MergedDevice, codes: frozenset[str]) -> MergedDevice:
        added = (*self._integral_readings(device), *self.events.readings(device.id, codes))
        return with_readings(device, device.facts, Readings.of(device.readings).extended(added)) if added else device

    def forget(self, device_id: str) -> None:
        """Drop all counts, events and history of the device."""
        self._integrals_by_device.pop(device_id, None)
        self.events.forget(device_id)
        self._links.forget(device_id)
        if self._history is not None:
            self._history.forget(device_id)
        if self._ledger is not None:
            self._ledger.forget(device_id)

    def _record_event(self, event: PastEvent) -> None:
        if self._history is not None:
            self._history.add_event(event)
        if self._ledger is not None:
            self._ledger.add_event(event)

    def _notify_observer(self, event: PastEvent) -> None:
        if self._observer is not None:
            self._observer.add_event(event)

    def _integral_readings(self, device: MergedDevice) -> Iterator[MergedReading]:
        integrals = self._integrals_by_device.get(device.id, {})
        for counter, _, _, origin in _integrands(device):
            if counter in integrals:
                yield MergedReading(counter, "", integrals[counter].total, SOURCE, origin.taken, origin.interval)


def _integrands(device: MergedDevice) -> Iterator[tuple[str, str, float, Origin]]:
    readings = Readings.of(device.readings)
    for counter, metric in INTEGRALS:
        value, origin = readings.find(metric) or (Absent.NOT_REPORTED, Origin(""))
        if not isinstance(value, Absent):
            yield counter, metric, value, origin
