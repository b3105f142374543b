"""Counters of our own: busy seconds and energy integrated from readings, and events counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from telemetry_parsers import bounds
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, MergedDevice, MergedReading

SOURCE = "telemetry"
# (the counter, the reading that it is the integral of)
INTEGRALS = (
    ("busy_seconds_total", "utilization_ratio"),
    ("energy_estimated_joules_total", "power_watts"),
)
_INPUTS = frozenset(key for _, key in INTEGRALS)
LONGEST_GAP_INTERVALS = 2.0
# The label under which all codes are counted that come when a device has as many as are kept.
OTHER_CODE = "other"


@dataclass(slots=True)
class _Integral:
    """One counter: its total, the time up to which it is counted, and the last reading."""

    total: float = 0.0
    counted_until: float = -math.inf
    last: MergedReading | None = None

    def add(self, reading: MergedReading, value: float) -> None:
        """Count the trapezoid since the last reading, unless that came from another source or too long ago."""
        last, self.last = self.last, reading
        if last is None or last.source != reading.source or isinstance(last.value, Absent):
            return
        if reading.taken <= last.taken:
            self.last = last
        elif reading.taken - last.taken <= LONGEST_GAP_INTERVALS * min(reading.interval, last.interval):
            # A part of this time may have been counted by another source's readings.
            uncounted = max(0.0, reading.taken - max(last.taken, self.counted_until))
            self.total += uncounted * (value + last.value) / 2.0
            self.counted_until = reading.taken


@dataclass(slots=True)
class _Events:
    """How often one event came, and when last."""

    count: int = 0
    last_wall_time: float = 0.0


@dataclass(slots=True)
class _Counters:
    """All that is counted for one device."""

    integrals: dict[str, _Integral] = field(default_factory=dict)
    events: dict[str, _Events] = field(default_factory=dict)


class Accumulator:
    """Counts from its creation on; the caller lets only one thread in at a time."""

    def __init__(self) -> None:
        self._devices: dict[str, _Counters] = {}

    def advance(self, devices: Iterable[MergedDevice]) -> None:
        """Take in the merged devices; a reading that they lack has ended."""
        continued = set()
        for device in devices:
            inputs = _inputs(device)
            for counter, key in INTEGRALS:
                reading = inputs.get(key)
                if reading is not None and not isinstance(reading.value, Absent):
                    integral = self._counters(device.id).integrals.setdefault(counter, _Integral())
                    integral.add(reading, reading.value)
                    continued.add((device.id, counter))
        for device_id, counters in self._devices.items():
            for counter, integral in counters.integrals.items():
                if (device_id, counter) not in continued:
                    integral.last = None

    def with_counters(self, devices: Iterable[MergedDevice]) -> tuple[MergedDevice, ...]:
        """The same devices with the counters added to their readings."""
        return tuple(replace(device, readings=(*device.readings, *self._readings(device))) for device in devices)

    def count_event(self, device_id: str, code: str, wall_time: float) -> None:
        """Count one event of a device; `wall_time` is when it happened, in Unix seconds."""
        events = self._counters(device_id).events
        if code not in events and len(events) >= bounds.MOST_EVENT_CODES:
            code = OTHER_CODE
        event = events.setdefault(code, _Events())
        event.count += 1
        event.last_wall_time = wall_time

    def forget(self, device_id: str) -> None:
        """Drop what was counted for a device that is gone for good."""
        self._devices.pop(device_id, None)

    def _counters(self, device_id: str) -> _Counters:
        return self._devices.setdefault(device_id, _Counters())

    def _readings(self, device: MergedDevice) -> Iterator[MergedReading]:
        counters = self._devices.get(device.id)
        if counters is None:
            return
        inputs = _inputs(device)
        for counter, key in INTEGRALS:
            reading, integral = inputs.get(key), counters.integrals.get(counter)
            if reading is not None and integral is not None and not isinstance(reading.value, Absent):
                yield MergedReading(counter, "", integral.total, SOURCE, reading.taken, reading.interval)
        for code, event in sorted(counters.events.items()):
            last = in_range(BY_KEY["event_last_timestamp_seconds"], event.last_wall_time)
            yield MergedReading("events_total", code, float(event.count), SOURCE)
            yield MergedReading("event_last_timestamp_seconds", code, last, SOURCE)


def _inputs(device: MergedDevice) -> dict[str, MergedReading]:
    """The readings of a device that counters are made of."""
    return {reading.metric: reading for reading in device.readings if reading.metric in _INPUTS and not reading.label}
