"""What the devices did during named stretches of a program: means, extremes, energy and peak memory, as a flat dict of floats.

A thread samples; whoever enters or leaves a stretch notes a time and goes on. Samples are folded into the stretches as they
come, so that a recorder takes the same memory after a minute and after a month.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, final

from device_telemetry.node_types import Device, Node, TelemetryError
from device_telemetry.reading import watch
from device_telemetry.visible import visible

_PATIENCE_SECONDS = 30.0
_ROOT = ""

Devices = str | Sequence[str | int]


@final
class Recorder(ContextDecorator):
    """Records the devices from `start` to `stop`, or within a `with`; calling it with a name gives a named stretch within.

    `devices` is `visible` (those that this program may use), `all`, or a list of indices, ids or uuids. `url` is the address of
    a daemon; without it, this node's is asked, else its tools are read.
    """

    def __init__(
        self,
        devices: Devices = "visible",
        interval: float = 1.0,
        url: str | None = None,
        source: Callable[[], Iterator[Node]] | None = None,
    ) -> None:
        if isinstance(devices, str) and devices not in ("visible", "all"):
            raise ValueError(f'devices must be "visible", "all" or a list of indices, ids or uuids, not {devices!r}')
        self._wanted = devices
        self._source = source or (lambda: watch(interval, url))
        self._stretches: dict[str, Stretch] = {}
        self._open: list[str] = []
        self._turn = threading.Condition()
        self._last: Sample | None = None
        self._stops = False
        self._error: TelemetryError | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to record, once the first sample is there; that none comes is told with the results, and ends no program."""
        if self._thread is not None:
            return
        self._stops, self._error, self._last = False, None, None
        self._thread = threading.Thread(target=self._sample, name="device-telemetry", daemon=True)
        self._thread.start()
        with self._turn:
            self._wait_for(-math.inf)
        self._enter(_ROOT)

    def stop(self) -> None:
        """End the recording once a last sample is there, and every stretch that is open."""
        if self._thread is None:
            return
        now = time.monotonic()
        with self._turn:
            for name in reversed(self._open):
                self._stretches[name].leave(now)
            self._open.clear()
            self._wait_for(now)
            self._stops = True
        self._thread = None

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __call__(self, name: Any) -> Any:
        """A stretch of that name, as a context manager or a decorator; a function is recorded as a whole."""
        return super().__call__(name) if callable(name) else _Named(self, str(name))

    def results(self, name: str = "") -> dict[str, float]:
        """What is known of a stretch by now, or of the whole recording: `0/power_watts/mean`, `energy_joules`, `seconds` …

        Waits for the sample that covers its end. Raises KeyError for a stretch that never began, TelemetryError where there were no readings.
        """
        with self._turn:
            stretch = self._stretches[name]
            self._wait_for(stretch.ended or time.monotonic())
            if self._error is not None and not stretch.seconds:
                raise self._error
            return stretch.numbers()

    @property
    def names(self) -> tuple[str, ...]:
        """The stretches that have begun, the whole recording's empty name among them."""
        with self._turn:
            return tuple(self._stretches)

    def _enter(self, name: str) -> str:
        """Begin a stretch; within another one its name is `outer/inner`."""
        now = time.monotonic()
        with self._turn:
            outer = self._open[-1] if self._open else _ROOT
            full = f"{outer}/{name}" if outer and name else name
            self._stretches.setdefault(full, Stretch()).enter(now)
            self._open.append(full)
            return full

    def _leave(self, name: str) -> None:
        now = time.monotonic()
        with self._turn:
            if name in self._open:
                self._open.remove(name)
                self._stretches[name].leave(now)

    def _wait_for(self, moment: float) -> None:
        """Let samples come until one is of that moment or later; the turn is ours."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while self._thread is not None and self._error is None and (self._last is None or self._last.time < moment):
            if not self._turn.wait(max(0.0, end - time.monotonic())):
                return

    def _sample(self) -> None:
        try:
            for node in self._source():
                self._take(Sample.of(time.monotonic(), self._chosen(node)))
                if self._stops:
                    return
        except TelemetryError as error:
            with self._turn:
                self._error = error
                self._turn.notify_all()

    def _take(self, sample: Sample) -> None:
        with self._turn:
            if self._last is not None:
                folded(self._stretches.values(), self._last, sample)
            self._last = sample
            self._turn.notify_all()

    def _chosen(self, node: Node) -> Iterable[Device]:
        if self._wanted == "visible":
            return visible(node.devices)
        if self._wanted == "all":
            return node.devices
        names = {str(one) for one in self._wanted}
        return [one for one in node.devices if names & {str(one.index), one.device, one.id, one.uuid or ""}]


@final
class _Named(ContextDecorator):
    """A stretch of a recorder."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._entered: list[str] = []

    def __enter__(self) -> Recorder:
        self._entered.append(self._recorder._enter(self._name))  # noqa: SLF001  # the two are one thing
        return self._recorder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder._leave(self._entered.pop())  # noqa: SLF001  # as above


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
