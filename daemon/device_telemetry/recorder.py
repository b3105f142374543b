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
from device_telemetry.reading import nodes
from device_telemetry.visible import visible

_PATIENCE_SECONDS = 30.0
# So long results are held back for the energy counters: a daemon reads them anew when a stretch ends.
_COUNTERS_SECONDS = 2.0
# A daemon reads counters once more at most so often, and has done so after that time.
_EXACT_APART_SECONDS, _EXACT_AFTER_SECONDS = 1.0, 0.25
# A limit of a stretch is exact if the counter was read so near to it.
_NEAR_SECONDS = 0.25
# A clock that is so far behind is another machine's.
_LONGEST_AGE_SECONDS = 60.0
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
        self._source = source or (lambda: nodes(interval, url, self._pause))
        self._stretches: dict[str, Stretch] = {}
        self._open: list[str] = []
        self._turn = threading.Condition()
        self._last: Sample | None = None
        # When the newest stretch began or ended, and when exact counters were asked for last.
        self._limit = self._asked = -math.inf
        self._awaits_counters = False
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
            self._note_limit(now)
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
            self._note_limit(now)
            return full

    def _leave(self, name: str) -> None:
        now = time.monotonic()
        with self._turn:
            if name in self._open:
                self._open.remove(name)
                self._stretches[name].leave(now)
                self._note_limit(now)

    def _note_limit(self, now: float) -> None:
        """Have the sampler ask for exact counters, unless it has just done so; the turn is ours."""
        self._limit = now
        if now - self._asked >= _EXACT_APART_SECONDS:
            self._turn.notify_all()

    def _pause(self, seconds: float) -> bool:
        """Wait for the next sample. Return whether it needs exact counters, since a stretch began or ended."""
        end = time.monotonic() + seconds
        with self._turn:
            if self._awaits_counters:
                end = min(end, time.monotonic() + _EXACT_AFTER_SECONDS)
            self._awaits_counters = False
            while (now := time.monotonic()) < end:
                due = self._asked + _EXACT_APART_SECONDS if self._limit > self._asked else math.inf
                if due <= now:
                    self._asked, self._awaits_counters = now, True
                    return True
                self._turn.wait(min(end, due) - now)
        return False

    def _wait_for(self, moment: float) -> None:
        """Let samples come until one is of that moment or later, and counted the energy until then; the turn is ours."""
        begun = time.monotonic()
        while self._thread is not None and self._error is None:
            patience = _PATIENCE_SECONDS
            if self._last is not None and self._last.time >= moment:
                if self._last.has_counted(moment):
                    return
                patience = _COUNTERS_SECONDS
            if not self._turn.wait(max(0.0, begun + patience - time.monotonic())):
                return

    def _sample(self) -> None:
        try:
            for node in self._source():
                self._take(Sample.of(time.monotonic(), self._chosen(node), _age(node)))
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


_TINY_SECONDS = 1e-6
ENERGY, POWER = "energy_joules_total", "power_watts"
_PLAIN = (POWER, "utilization_ratio", "memory_used_bytes", "memory_activity_ratio")
TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True)
class Sample:
    """The numbers of each device at one moment, by the device's name."""

    time: float
    values: Mapping[str, Mapping[str, float]]
    # How long before that each device's energy counter was read.
    counter_ages: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, moment: float, devices: Iterable[Device], age: float = 0.0) -> Sample:
        """Return the numbers of these devices, by vendor and number if there are several vendors, from a document of that age."""
        listed = tuple(devices)
        several = len({device.vendor for device in listed}) > 1
        named = {f"{device.vendor}:{device.device}" if several else device.device: device for device in listed}
        ages = {name: age + (device.energy_age_seconds or 0.0) for name, device in named.items()}
        return cls(moment, {name: _numbers(device) for name, device in named.items()}, ages)

    def counted_at(self, name: str) -> float:
        """Return when a device's energy counter was read."""
        return self.time - self.counter_ages.get(name, 0.0)

    def has_counted(self, moment: float) -> bool:
        """Return whether all energy counters were read at that moment or later."""
        return all(self.counted_at(name) >= moment for name, numbers in self.values.items() if ENERGY in numbers)


def _age(node: Node) -> float:
    """Return how old a node's document is; 0 if that cannot be, since the clock is another machine's."""
    age = time.time() - node.time.timestamp()
    return age if 0.0 <= age <= _LONGEST_AGE_SECONDS else 0.0


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
        """Return all of it by `device/metric/statistic`; energy that was put together from power is called so.

        Where the counter has not been read since, the mean power stands for the rest, and the stretch is not exact.
        """
        told = {"seconds": self.seconds}
        for (name, metric), figure in sorted(self._figures.items()):
            told[f"{name}/{metric}/mean"] = figure.weighted / figure.seconds
            told[f"{name}/{metric}/min"] = figure.least
            told[f"{name}/{metric}/max"] = figure.most
        rests = {name: self._uncounted_joules(name) for name in self._joules}
        energies = {name: joules + rests[name] for name, joules in sorted(self._joules.items())}
        for name, joules in energies.items():
            told[f"{name}/{'energy_estimated_joules' if name in self._estimated else 'energy_joules'}"] = joules
        if energies:
            word = "energy_estimated_joules" if self._estimated else "energy_joules"
            told[word] = sum(energies.values())
            told["exact"] = float(self._is_exact and not self._estimated and not any(rests.values()))
        return told

    def _uncounted_joules(self, name: str) -> float:
        """Return what the device drew, by its mean power, while its energy was not counted."""
        power = self._figures.get((name, POWER))
        missing = 0.0 if power is None else power.seconds - self._counted[name]
        return missing * power.weighted / power.seconds if power is not None and missing > _TINY_SECONDS else 0.0


def _overlap(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Return how many of the seconds between `begin` and `end` are within the spans."""
    return sum(max(0.0, min(span_end, end) - max(span_begin, begin)) for span_begin, span_end in spans)


def folded(stretches: Iterable[Stretch], before: Sample, after: Sample) -> None:
    """Fold what lies between two samples into each stretch."""
    if after.time > before.time:
        for stretch in stretches:
            stretch.take(before, after)
