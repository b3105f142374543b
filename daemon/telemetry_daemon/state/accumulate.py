"""Counters of our own: busy seconds and energy integrated from readings, and the events beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from telemetry_daemon.state.events import SOURCE, Events
from telemetry_parsers.model import Absent, MergedDevice, MergedReading

# (the counter, the reading that it is the integral of)
INTEGRALS = (
    ("busy_seconds_total", "utilization_ratio"),
    ("energy_estimated_joules_total", "power_watts"),
)
_INPUTS = frozenset(key for _, key in INTEGRALS)
LONGEST_GAP_INTERVALS = 2.0


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


class Accumulator:
    """Counts from its creation on; the caller lets only one thread in at a time."""

    def __init__(self, events: Events | None = None) -> None:
        self._devices: dict[str, dict[str, _Integral]] = {}
        self.events = events or Events()

    def advance(self, devices: Sequence[MergedDevice]) -> None:
        """Take in the merged devices; a reading that they lack has ended."""
        self.events.look(devices)
        continued = set()
        for device in devices:
            inputs = _inputs(device)
            for counter, key in INTEGRALS:
                reading = inputs.get(key)
                if reading is not None and not isinstance(reading.value, Absent):
                    integral = self._devices.setdefault(device.id, {}).setdefault(counter, _Integral())
                    integral.add(reading, reading.value)
                    continued.add((device.id, counter))
        for device_id, integrals in self._devices.items():
            for counter, integral in integrals.items():
                if (device_id, counter) not in continued:
                    integral.last = None

    def with_counters(self, devices: Iterable[MergedDevice]) -> tuple[MergedDevice, ...]:
        """The same devices with the counters and events added to their readings."""
        codes = self.events.codes()
        return tuple(
            replace(
                device,
                readings=(
                    *device.readings,
                    *self._integrals(device),
                    *self.events.readings(device.id, codes.get(device.id, frozenset())),
                ),
            )
            for device in devices
        )

    def forget(self, device_id: str) -> None:
        """Drop what was counted for a device that is gone for good."""
        self._devices.pop(device_id, None)
        self.events.forget(device_id)

    def _integrals(self, device: MergedDevice) -> Iterator[MergedReading]:
        integrals, inputs = self._devices.get(device.id, {}), _inputs(device)
        for counter, key in INTEGRALS:
            reading, integral = inputs.get(key), integrals.get(counter)
            if reading is not None and integral is not None and not isinstance(reading.value, Absent):
                yield MergedReading(counter, "", integral.total, SOURCE, reading.taken, reading.interval)


def _inputs(device: MergedDevice) -> dict[str, MergedReading]:
    """The readings of a device that counters are made of."""
    return {reading.metric: reading for reading in device.readings if reading.metric in _INPUTS and not reading.label}
