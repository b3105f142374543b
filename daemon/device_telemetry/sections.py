"""Computes means, extremes and energy consumption for the sections of a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from device_telemetry.node_types import Device

# A section's energy is exact if a counter was read within this time of the section's start, and of its end.
_MAX_DISTANCE_SECONDS = 0.25
_MIN_UNCOUNTED_SECONDS = 1e-6  # shorter times are rounding errors
ENERGY, POWER = "energy_joules_total", "power_watts"
_AVERAGED_METRICS = (POWER, "utilization_ratio", "memory_used_bytes", "memory_activity_ratio")
TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True)
class Sample:
    """The readings of each device at one time."""

    time: float
    values: Mapping[str, Mapping[str, float]]  # for each device, its readings by metric
    # Maps each device to the age of its energy counter at the time of the sample.
    counter_age_by_device: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_devices(cls, time: float, devices: Iterable[tuple[str, Device]], document_age: float = 0.0) -> Sample:
        """Return a sample of these (name, device) pairs. `document_age` is in seconds."""
        pairs = tuple(devices)
        has_several_vendors = len({device.vendor for _, device in pairs}) > 1
        by_name = {f"{device.vendor}:{name}" if has_several_vendors else name: device for name, device in pairs}
        ages = {name: document_age + (device.energy_age_seconds or 0.0) for name, device in by_name.items()}
        return cls(time, {name: _readings_of(device) for name, device in by_name.items()}, ages)

    def counter_time(self, name: str) -> float:
        """Return the time at which the device's energy counter was read."""
        return self.time - self.counter_age_by_device.get(name, 0.0)

    def has_counters_since(self, time: float) -> bool:
        """Return whether all energy counters were read at `time` or later."""
        return all(self.counter_time(name) >= time for name, readings in self.values.items() if ENERGY in readings)


def _readings_of(device: Device) -> dict[str, float]:
    values = {metric: device.value(metric) for metric in (*_AVERAGED_METRICS, ENERGY)}
    values[TEMPERATURE] = device.temperature_celsius
    return {metric: value for metric, value in values.items() if value is not None}


@dataclass
class _Statistics:
    """The time-weighted sum and the extremes of one device's metric."""

    weighted_sum: float = 0.0
    seconds: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    def add(self, begin_value: float, end_value: float, seconds: float) -> None:
        self.weighted_sum += (begin_value + end_value) / 2 * seconds
        self.seconds += seconds
        self.minimum = min(self.minimum, begin_value, end_value)
        self.maximum = max(self.maximum, begin_value, end_value)


@dataclass
class Section:
    """The statistics of a named section, which may run several times."""

    seconds: float = 0.0
    end_time: float = 0.0  # 0 while the section is running
    _spans: list[tuple[float, float]] = field(default_factory=list)
    _open_starts: list[float] = field(default_factory=list)
    _statistics: dict[tuple[str, str], _Statistics] = field(default_factory=dict)
    _joules_by_device: dict[str, float] = field(default_factory=dict)
    _counted_seconds_by_device: dict[str, float] = field(default_factory=dict)  # the time that the joules are for
    _estimated_devices: set[str] = field(default_factory=set)  # their energy was computed from power, not a counter
    _is_exact: bool = True

    def enter(self, now: float) -> None:
        """Enter the section. A running section may be entered again."""
        self._open_starts.append(now)
        self.end_time = 0.0

    def leave(self, now: float) -> None:
        """Leave the section. It ends when it has been left as often as it was entered."""
        start = self._open_starts.pop()
        if not self._open_starts:
            self._spans.append((start, now))
            self.end_time = now

    def add_period(self, before: Sample, after: Sample) -> None:
        """Add the statistics of the time between two samples."""
        spans = [*self._spans, *((start, math.inf) for start in self._open_starts[:1])]
        seconds = _overlap_seconds(spans, before.time, after.time)
        self.seconds += seconds
        names = before.values.keys() & after.values.keys()
        for name in names:
            if seconds > 0:
                self._add_readings(name, before.values[name], after.values[name], seconds)
                if ENERGY in before.values[name]:
                    self._add_joules(name, 0.0, 0.0)  # adds the device to the results, even if its energy is 0
            self._add_energy(name, before, after, spans)
        oldest_counter_time = min((after.counter_time(name) for name in names), default=after.time)
        self._spans = [(begin, end) for begin, end in self._spans if end > oldest_counter_time]

    def _add_readings(self, name: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> None:
        for metric in before.keys() & after.keys() - {ENERGY}:
            self._statistics.setdefault((name, metric), _Statistics()).add(before[metric], after[metric], seconds)

    def _add_energy(self, name: str, before: Sample, after: Sample, spans: Sequence[tuple[float, float]]) -> None:
        readings_before, readings_after = before.values[name], after.values[name]
        begin, end = before.counter_time(name), after.counter_time(name)
        seconds = _overlap_seconds(spans, begin, end)
        joules = readings_after.get(ENERGY, math.nan) - readings_before.get(ENERGY, math.nan)
        if seconds <= 0:
            return
        if joules >= 0:  # a reset makes the difference negative
            self._add_joules(name, joules * seconds / (end - begin), seconds)
            boundaries = (boundary for span in spans for boundary in span if begin < boundary < end)
            distances = (min(boundary - begin, end - boundary) for boundary in boundaries)
            self._is_exact &= all(distance <= _MAX_DISTANCE_SECONDS for distance in distances)
        elif POWER in readings_before and POWER in readings_after:
            self._estimated_devices.add(name)
            self._add_joules(name, (readings_before[POWER] + readings_after[POWER]) / 2 * seconds, seconds)

    def _add_joules(self, name: str, joules: float, seconds: float) -> None:
        self._joules_by_device[name] = self._joules_by_device.get(name, 0.0) + joules
        self._counted_seconds_by_device[name] = self._counted_seconds_by_device.get(name, 0.0) + seconds

    def results(self) -> dict[str, float]:
        """Return the results by key, such as `0/power_watts/mean`."""
        results = {"seconds": self.seconds}
        for (name, metric), statistics in sorted(self._statistics.items()):
            results[f"{name}/{metric}/mean"] = statistics.weighted_sum / statistics.seconds
            results[f"{name}/{metric}/min"] = statistics.minimum
            results[f"{name}/{metric}/max"] = statistics.maximum
        uncounted = {name: self._uncounted_joules(name) for name in self._joules_by_device}
        energies = {name: joules + uncounted[name] for name, joules in sorted(self._joules_by_device.items())}
        for name, joules in energies.items():
            energy_key = "energy_estimated_joules" if name in self._estimated_devices else "energy_joules"
            results[f"{name}/{energy_key}"] = joules
        if energies:
            energy_key = "energy_estimated_joules" if self._estimated_devices else "energy_joules"
            results[energy_key] = sum(energies.values())
            results["exact"] = float(self._is_exact and not self._estimated_devices and not any(uncounted.values()))
        return results

    def _uncounted_joules(self, name: str) -> float:
        """Estimate the energy for the part of the section that no counter readings cover."""
        power = self._statistics.get((name, POWER))
        seconds = 0.0 if power is None else power.seconds - self._counted_seconds_by_device[name]
        return seconds * power.weighted_sum / power.seconds if power and seconds > _MIN_UNCOUNTED_SECONDS else 0.0


def _overlap_seconds(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(span_end, end) - max(span_begin, begin)) for span_begin, span_end in spans)


def add_period(sections: Iterable[Section], before: Sample, after: Sample) -> None:
    """Add the time between two samples to each section."""
    if after.time > before.time:
        for section in sections:
            section.add_period(before, after)
