"""A stretch of time: samples of the devices, and the means, extremes and energy derived from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from device_telemetry.node_types import Device

# A limit of a stretch is exact if the counter was read this close to it.
_NEAR_SECONDS = 0.25
_TINY_SECONDS = 1e-6
ENERGY, POWER = "energy_joules_total", "power_watts"
_PLAIN = (POWER, "utilization_ratio", "memory_used_bytes", "memory_activity_ratio")
TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True)
class Sample:
    """The numbers of each device at one time, by the device's name."""

    time: float
    values: Mapping[str, Mapping[str, float]]
    # How long before the sample each device's energy counter was read.
    counter_ages: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, moment: float, devices: Iterable[tuple[str, Device]], age: float = 0.0) -> Sample:
        """Return the numbers of these devices, by vendor and name if there are several vendors, from a document of that age."""
        listed = tuple(devices)
        several = len({device.vendor for _, device in listed}) > 1
        named = {f"{device.vendor}:{name}" if several else name: device for name, device in listed}
        ages = {name: age + (device.energy_age_seconds or 0.0) for name, device in named.items()}
        return cls(moment, {name: _numbers(device) for name, device in named.items()}, ages)

    def counted_at(self, name: str) -> float:
        """Return when a device's energy counter was read."""
        return self.time - self.counter_ages.get(name, 0.0)

    def has_counted(self, moment: float) -> bool:
        """Return whether all energy counters were read at that moment or later."""
        return all(self.counted_at(name) >= moment for name, numbers in self.values.items() if ENERGY in numbers)


def _numbers(device: Device) -> dict[str, float]:
    every = {metric: device.value(metric) for metric in (*_PLAIN, ENERGY)} | {TEMPERATURE: device.temperature_celsius}
    return {metric: value for metric, value in every.items() if value is not None}


@dataclass
class _Figure:
    """A metric of one device: its mean by time, its extremes."""

    weighted: float = 0.0
    seconds: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, begin: float, end: float, seconds: float) -> None:
        self.weighted += (begin + end) / 2 * seconds
        self.seconds += seconds
        self.least = min(self.least, begin, end)
        self.most = max(self.most, begin, end)


@dataclass
class Stretch:
    """A stretch that may come many times: the spans that wait for samples, and what was folded so far."""

    seconds: float = 0.0
    ended: float = 0.0
    _spans: list[tuple[float, float]] = field(default_factory=list)
    _begun: list[float] = field(default_factory=list)
    _figures: dict[tuple[str, str], _Figure] = field(default_factory=dict)
    _joules: dict[str, float] = field(default_factory=dict)
    # For how many seconds the energy is known.
    _counted: dict[str, float] = field(default_factory=dict)
    _estimated: set[str] = field(default_factory=set)
    _is_exact: bool = True

    def enter(self, now: float) -> None:
        """Begin. Nested begins count once."""
        self._begun.append(now)
        self.ended = 0.0

    def leave(self, now: float) -> None:
        """End."""
        begun = self._begun.pop()
        if not self._begun:
            self._spans.append((begun, now))
            self.ended = now

    def take(self, before: Sample, after: Sample) -> None:
        """Add the period between two samples, and forget everything before it."""
        spans = [*self._spans, *((begun, math.inf) for begun in self._begun[:1])]
        seconds = _overlap(spans, before.time, after.time)
        self.seconds += seconds
        names = before.values.keys() & after.values.keys()
        for name in names:
            if seconds > 0:
                self._fold(name, before.values[name], after.values[name], seconds)
                if ENERGY in before.values[name]:
                    self._add_energy(name, 0.0, 0.0)  # there will be a number
            self._fold_energy(name, before, after, spans)
        oldest = min((after.counted_at(name) for name in names), default=after.time)
        self._spans = [(begin, end) for begin, end in self._spans if end > oldest]

    def _fold(self, name: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> None:
        for metric in before.keys() & after.keys() - {ENERGY}:
            self._figures.setdefault((name, metric), _Figure()).add(before[metric], after[metric], seconds)

    def _fold_energy(self, name: str, before: Sample, after: Sample, spans: Sequence[tuple[float, float]]) -> None:
        """Fold by how much the counter grew between its readings, which are older than the samples."""
        first, last = before.values[name], after.values[name]
        begin, end = before.counted_at(name), after.counted_at(name)
        seconds, joules = _overlap(spans, begin, end), last.get(ENERGY, math.nan) - first.get(ENERGY, math.nan)
        if seconds <= 0:
            return
        if joules >= 0:  # a counter that began again does not cover this time
            self._add_energy(name, joules * seconds / (end - begin), seconds)
            limits = (limit for span in spans for limit in span if begin < limit < end)
            self._is_exact &= all(min(limit - begin, end - limit) <= _NEAR_SECONDS for limit in limits)
        elif POWER in first and POWER in last:
            self._estimated.add(name)
            self._add_energy(name, (first[POWER] + last[POWER]) / 2 * seconds, seconds)

    def _add_energy(self, name: str, joules: float, seconds: float) -> None:
        self._joules[name] = self._joules.get(name, 0.0) + joules
        self._counted[name] = self._counted.get(name, 0.0) + seconds

    def numbers(self) -> dict[str, float]:
        """Return all numbers by `device/metric/statistic`. If a counter was not read since, mean power covers the rest, and the stretch is not exact."""
        results = {"seconds": self.seconds}
        for (name, metric), figure in sorted(self._figures.items()):
            results[f"{name}/{metric}/mean"] = figure.weighted / figure.seconds
            results[f"{name}/{metric}/min"] = figure.least
            results[f"{name}/{metric}/max"] = figure.most
        rests = {name: self._uncounted_joules(name) for name in self._joules}
        energies = {name: joules + rests[name] for name, joules in sorted(self._joules.items())}
        for name, joules in energies.items():
            results[f"{name}/{'energy_estimated_joules' if name in self._estimated else 'energy_joules'}"] = joules
        if energies:
            word = "energy_estimated_joules" if self._estimated else "energy_joules"
            results[word] = sum(energies.values())
            results["exact"] = float(self._is_exact and not self._estimated and not any(rests.values()))
        return results

    def _uncounted_joules(self, name: str) -> float:
        """Return what the device drew, by its mean power, while its energy was not counted."""
        power = self._figures.get((name, POWER))
        missing = 0.0 if power is None else power.seconds - self._counted[name]
        return missing * power.weighted / power.seconds if power is not None and missing > _TINY_SECONDS else 0.0


def _overlap(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(span_end, end) - max(span_begin, begin)) for span_begin, span_end in spans)


def folded(stretches: Iterable[Stretch], before: Sample, after: Sample) -> None:
    """Add the period between two samples to each stretch."""
    if after.time > before.time:
        for stretch in stretches:
            stretch.take(before, after)
