"""Computes means, extremes and energy for the sections of a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from device_telemetry.node_types import Device

# A section's energy is exact if the counter was read within this time of its beginning and its end.
_NEAR_SECONDS = 0.25
_TINY_SECONDS = 1e-6
ENERGY, POWER = "energy_joules_total", "power_watts"
_AVERAGED = (POWER, "utilization_ratio", "memory_used_bytes", "memory_activity_ratio")
TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True)
class Sample:
    """The numbers of each device at one time."""

    time: float
    values: Mapping[str, Mapping[str, float]]
    # Maps each device to the age of its energy counter at the time of the sample.
    counter_ages: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_devices(cls, moment: float, devices: Iterable[tuple[str, Device]], age: float = 0.0) -> Sample:
        """Return a sample of these devices. `age` is the age of their document in seconds."""
        pairs = tuple(devices)
        has_several_vendors = len({device.vendor for _, device in pairs}) > 1
        by_name = {f"{device.vendor}:{name}" if has_several_vendors else name: device for name, device in pairs}
        ages = {name: age + (device.energy_age_seconds or 0.0) for name, device in by_name.items()}
        return cls(moment, {name: _device_numbers(device) for name, device in by_name.items()}, ages)

    def counter_time(self, name: str) -> float:
        """Return the time at which the device's energy counter was read."""
        return self.time - self.counter_ages.get(name, 0.0)

    def has_counters_since(self, moment: float) -> bool:
        """Return whether all energy counters were read at `moment` or later."""
        return all(self.counter_time(name) >= moment for name, numbers in self.values.items() if ENERGY in numbers)


def _device_numbers(device: Device) -> dict[str, float]:
    values = {metric: device.value(metric) for metric in (*_AVERAGED, ENERGY)} | {
        TEMPERATURE: device.temperature_celsius
    }
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
    """The statistics of a named section. A section may run several times."""

    seconds: float = 0.0
    ended: float = 0.0
    _spans: list[tuple[float, float]] = field(default_factory=list)
    _starts: list[float] = field(default_factory=list)
    _statistics: dict[tuple[str, str], _Statistics] = field(default_factory=dict)
    _joules: dict[str, float] = field(default_factory=dict)
    # Maps each device to the seconds whose energy is in `_joules`.
    _counted_seconds: dict[str, float] = field(default_factory=dict)
    _estimated: set[str] = field(default_factory=set)
    _is_exact: bool = True

    def enter(self, now: float) -> None:
        """Begin the section, which may already be running."""
        self._starts.append(now)
        self.ended = 0.0

    def leave(self, now: float) -> None:
        """End the section."""
        start = self._starts.pop()
        if not self._starts:
            self._spans.append((start, now))
            self.ended = now

    def add_period(self, before: Sample, after: Sample) -> None:
        """Add the statistics of the time between two samples."""
        spans = [*self._spans, *((start, math.inf) for start in self._starts[:1])]
        seconds = _overlap_seconds(spans, before.time, after.time)
        self.seconds += seconds
        names = before.values.keys() & after.values.keys()
        for name in names:
            if seconds > 0:
                self._add_readings(name, before.values[name], after.values[name], seconds)
                if ENERGY in before.values[name]:
                    self._add_energy(name, 0.0, 0.0)  # adds the device to the results, even if its energy is 0
            self._count_energy(name, before, after, spans)
        oldest = min((after.counter_time(name) for name in names), default=after.time)
        self._spans = [(begin, end) for begin, end in self._spans if end > oldest]

    def _add_readings(self, name: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> None:
        for metric in before.keys() & after.keys() - {ENERGY}:
            self._statistics.setdefault((name, metric), _Statistics()).add(before[metric], after[metric], seconds)

    def _count_energy(self, name: str, before: Sample, after: Sample, spans: Sequence[tuple[float, float]]) -> None:
        numbers_before, numbers_after = before.values[name], after.values[name]
        begin, end = before.counter_time(name), after.counter_time(name)
        seconds = _overlap_seconds(spans, begin, end)
        joules = numbers_after.get(ENERGY, math.nan) - numbers_before.get(ENERGY, math.nan)
        if seconds <= 0:
            return
        if joules >= 0:  # a reset makes the difference negative
            self._add_energy(name, joules * seconds / (end - begin), seconds)
            boundaries = (boundary for span in spans for boundary in span if begin < boundary < end)
            self._is_exact &= all(min(boundary - begin, end - boundary) <= _NEAR_SECONDS for boundary in boundaries)
        elif POWER in numbers_before and POWER in numbers_after:
            self._estimated.add(name)
            self._add_energy(name, (numbers_before[POWER] + numbers_after[POWER]) / 2 * seconds, seconds)

    def _add_energy(self, name: str, joules: float, seconds: float) -> None:
        self._joules[name] = self._joules.get(name, 0.0) + joules
        self._counted_seconds[name] = self._counted_seconds.get(name, 0.0) + seconds

    def numbers(self) -> dict[str, float]:
        """Map keys such as `0/power_watts/mean` to numbers."""
        results = {"seconds": self.seconds}
        for (name, metric), statistics in sorted(self._statistics.items()):
            results[f"{name}/{metric}/mean"] = statistics.weighted_sum / statistics.seconds
            results[f"{name}/{metric}/min"] = statistics.minimum
            results[f"{name}/{metric}/max"] = statistics.maximum
        uncounted = {name: self._uncounted_joules(name) for name in self._joules}
        energies = {name: joules + uncounted[name] for name, joules in sorted(self._joules.items())}
        for name, joules in energies.items():
            results[f"{name}/{'energy_estimated_joules' if name in self._estimated else 'energy_joules'}"] = joules
        if energies:
            energy_key = "energy_estimated_joules" if self._estimated else "energy_joules"
            results[energy_key] = sum(energies.values())
            results["exact"] = float(self._is_exact and not self._estimated and not any(uncounted.values()))
        return results

    def _uncounted_joules(self, name: str) -> float:
        """Estimate the energy during the time without counter readings."""
        power = self._statistics.get((name, POWER))
        missing = 0.0 if power is None else power.seconds - self._counted_seconds[name]
        return missing * power.weighted_sum / power.seconds if power is not None and missing > _TINY_SECONDS else 0.0


def _overlap_seconds(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(span_end, end) - max(span_begin, begin)) for span_begin, span_end in spans)


def add_period(sections: Iterable[Section], before: Sample, after: Sample) -> None:
    """Add the time between two samples to each section."""
    if after.time > before.time:
        for section in sections:
            section.add_period(before, after)
