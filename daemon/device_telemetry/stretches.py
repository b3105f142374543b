"""Stretches of time and what devices did in them, folded from sample to sample. Pure: times are passed in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from device_telemetry.node import Device

ENERGY, POWER = "energy_joules_total", "power_watts"
_PLAIN = (POWER, "utilization_ratio", "memory_used_bytes", "memory_activity_ratio")
TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True)
class Sample:
    """The numbers of each device at one moment, by the device's name."""

    time: float
    values: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, moment: float, devices: Iterable[Device]) -> Sample:
        """What these devices tell; devices of several vendors have the vendor before their number."""
        listed = tuple(devices)
        several = len({one.vendor for one in listed}) > 1
        return cls(moment, {f"{one.vendor}:{one.device}" if several else one.device: _numbers(one) for one in listed})


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
    _estimated: set[str] = field(default_factory=set)

    def enter(self, now: float) -> None:
        """It begins; what begins within itself counts once."""
        self._begun.append(now)
        self.ended = 0.0

    def leave(self, now: float) -> None:
        """It ends."""
        begun = self._begun.pop()
        if not self._begun:
            self._spans.append((begun, now))
            self.ended = now

    def take(self, before: Sample, after: Sample) -> None:
        """Fold what lies between two samples, and forget what lies before."""
        spans = [*self._spans, *((begun, math.inf) for begun in self._begun[:1])]
        seconds = sum(max(0.0, min(end, after.time) - max(begin, before.time)) for begin, end in spans)
        self._spans = [(begin, end) for begin, end in self._spans if end > after.time]
        if seconds > 0:
            self.seconds += seconds
            for name in before.values.keys() & after.values.keys():
                self._fold(name, before.values[name], after.values[name], seconds, after.time - before.time)

    def _fold(
        self, name: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float, apart: float
    ) -> None:
        for metric in before.keys() & after.keys() - {ENERGY}:
            self._figures.setdefault((name, metric), _Figure()).add(before[metric], after[metric], seconds)
        joules = after.get(ENERGY, math.nan) - before.get(ENERGY, math.nan)
        if joules >= 0:  # a counter that began anew tells nothing of this time
            self._joules[name] = self._joules.get(name, 0.0) + joules * seconds / apart
        elif POWER in before and POWER in after:
            self._estimated.add(name)
            self._joules[name] = self._joules.get(name, 0.0) + (before[POWER] + after[POWER]) / 2 * seconds

    def numbers(self) -> dict[str, float]:
        """All of it, by `device/metric/statistic`; energy that was put together from power is called so."""
        told = {"seconds": self.seconds}
        for (name, metric), figure in sorted(self._figures.items()):
            told[f"{name}/{metric}/mean"] = figure.weighted / figure.seconds
            told[f"{name}/{metric}/min"] = figure.least
            told[f"{name}/{metric}/max"] = figure.most
        for name, joules in sorted(self._joules.items()):
            told[f"{name}/{'energy_estimated_joules' if name in self._estimated else 'energy_joules'}"] = joules
        if self._joules:
            word = "energy_estimated_joules" if self._estimated else "energy_joules"
            told[word] = sum(self._joules.values())
        return told


def folded(stretches: Iterable[Stretch], before: Sample, after: Sample) -> None:
    """Fold what lies between two samples into each stretch."""
    if after.time > before.time:
        for stretch in stretches:
            stretch.take(before, after)
