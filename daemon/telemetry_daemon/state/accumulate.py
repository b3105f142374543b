"""Counters of our own: busy seconds and energy integrated from readings, and events counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

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
# A plugin that makes up codes must not fill the memory: what comes after these many is counted as one.
MOST_CODES = 64
OTHER_CODE = "other"


@dataclass(slots=True)
class _Integral:
    """One counter: what it came to, whose readings it counts, and the last of them while they go on."""

    source: str
    total: float = 0.0
    last: tuple[float, float, float] | None = None

    def add(self, taken: float, interval: float, value: float) -> None:
        """Count the trapezoid since the last reading, unless too much time lies between."""
        if self.last is not None:
            last_taken, last_interval, last_value = self.last
            elapsed = taken - last_taken
            if elapsed <= 0.0:
                return
            if elapsed <= LONGEST_GAP_INTERVALS * min(interval, last_interval):
                self.total += elapsed * (value + last_value) / 2.0
        self.last = (taken, interval, value)


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
    """Counts from its making on; the caller sees to it that only one thread is in it at a time."""

    def __init__(self) -> None:
        self._devices: dict[str, _Counters] = {}

    def advance(self, devices: Iterable[MergedDevice]) -> None:
        """Take in the devices as merged now; a reading that is not among them has ended."""
        continued = set()
        for device in devices:
            inputs = _inputs(device)
            for counter, key in INTEGRALS:
                reading = inputs.get(key)
                if reading is not None and self._count(device.id, counter, reading):
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
        if code not in events and len(events) >= MOST_CODES:
            code = OTHER_CODE
        known = events.setdefault(code, _Events())
        known.count += 1
        known.last_wall_time = wall_time

    def forget(self, device_id: str) -> None:
        """Drop what was counted for a device that is gone for good."""
        self._devices.pop(device_id, None)

    def _counters(self, device_id: str) -> _Counters:
        return self._devices.setdefault(device_id, _Counters())

    def _count(self, device_id: str, counter: str, reading: MergedReading) -> bool:
        """Add a reading to its integral; False when it is another source's or no number."""
        if isinstance(reading.value, Absent):
            return False
        integral = self._counters(device_id).integrals.setdefault(counter, _Integral(reading.source))
        if integral.source != reading.source:
            return False
        integral.add(reading.taken, reading.interval, reading.value)
        return True

    def _readings(self, device: MergedDevice) -> Iterator[MergedReading]:
        counters = self._devices.get(device.id)
        if counters is None:
            return
        inputs = _inputs(device)
        for counter, key in INTEGRALS:
            reading, integral = inputs.get(key), counters.integrals.get(counter)
            if reading is None or integral is None or isinstance(reading.value, Absent):
                continue
            if reading.source == integral.source:
                yield MergedReading(counter, "", integral.total, SOURCE, reading.taken, reading.interval)
        for code, known in sorted(counters.events.items()):
            last = in_range(BY_KEY["event_last_timestamp_seconds"], known.last_wall_time)
            yield MergedReading("events_total", code, float(known.count), SOURCE)
            yield MergedReading("event_last_timestamp_seconds", code, last, SOURCE)


def _inputs(device: MergedDevice) -> dict[str, MergedReading]:
    """The readings of a device that counters are made of."""
    return {reading.metric: reading for reading in device.readings if reading.metric in _INPUTS and not reading.label}
