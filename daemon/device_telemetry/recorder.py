"""Records devices during named stretches of a program: means, extremes, energy and peak memory, as a flat dict of floats, in constant memory."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, final

from device_telemetry.node_types import Device, Node, TelemetryError, UnknownNameError
from device_telemetry.reading import nodes
from device_telemetry.stretches import Sample, Stretch, folded
from device_telemetry.visible import numbered
from telemetry_daemon.terminal.suggestions import nearest_or_all

_PATIENCE_SECONDS = 30.0
# So long results are held back for the energy counters: a daemon reads them again when a stretch ends.
_COUNTERS_SECONDS = 2.0
# A daemon reads counters once more at most so often, and has done so after that time.
_EXACT_APART_SECONDS, _EXACT_AFTER_SECONDS = 1.0, 0.25
# A clock that is further behind belongs to another machine.
_LONGEST_AGE_SECONDS = 60.0
_ROOT = ""

Devices = str | Sequence[str | int]


@final
class Recorder(ContextDecorator):
    """Records devices from `start` to `stop`, or in a `with`; calling it with a name returns a named stretch.

    `devices` is `visible` (those that this program may use), `all`, or a list of indices, ids or uuids. `url` is a daemon's address (default: this node's daemon or tools).
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
        self._condition = threading.Condition()
        self._last: Sample | None = None
        # When the newest stretch began or ended, and when exact counters were last requested.
        self._limit = self._asked = -math.inf
        self._awaits_counters = False
        self._stopping = False
        self._error: TelemetryError | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start recording after the first sample; without any, `results` raises the error. Raises UnknownNameError for unknown devices; warns if there are none."""
        if self._thread is not None:
            return
        self._stopping, self._error, self._last = False, None, None
        self._thread = threading.Thread(target=self._sample, name="device-telemetry", daemon=True)
        self._thread.start()
        with self._condition:
            self._wait_for(-math.inf)
        self._check_devices()
        self._enter(_ROOT)

    def _check_devices(self) -> None:
        if isinstance(self._error, UnknownNameError):
            self._thread = None
            raise self._error
        if self._last is not None and not self._last.values and self._wanted:
            text = f"no devices are recorded: this node has none that are {self._wanted}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def stop(self) -> None:
        """End the recording once a last sample is there, and every stretch that is open."""
        if self._thread is None:
            return
        now = time.monotonic()
        with self._condition:
            for name in reversed(self._open):
                self._stretches[name].leave(now)
            self._open.clear()
            self._note_limit(now)
            self._wait_for(now)
            self._stopping = True
        self._thread = None

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __call__(self, name: Any) -> Any:
        """Return a stretch of that name, as a context manager or a decorator that records whole calls."""
        return super().__call__(name) if callable(name) else _Named(self, str(name))

    def results(self, name: str = "") -> dict[str, float]:
        """Return the numbers of a stretch, or of the whole recording: `0/power_watts/mean`, `energy_joules`, `seconds` …

        Waits for the sample after its end. Raises UnknownNameError (a KeyError) for an unknown stretch, TelemetryError without readings.
        """
        with self._condition:
            stretch = self._stretches.get(name)
            if stretch is None:
                near = nearest_or_all(name, filter(None, self._stretches))
                began = near if self._stretches else ": call start() first, or use `with`"
                raise UnknownNameError(f"no stretch {name!r} has begun{began}")
            self._wait_for(stretch.ended or time.monotonic())
            if self._error is not None and not stretch.seconds:
                raise self._error
            return stretch.numbers()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the stretches so far. The whole recording has the empty name."""
        with self._condition:
            return tuple(self._stretches)

    def _enter(self, name: str) -> str:
        """Begin a stretch, and return its name, which is `outer/inner` within another stretch."""
        now = time.monotonic()
        with self._condition:
            outer = self._open[-1] if self._open else _ROOT
            full = f"{outer}/{name}" if outer and name else name
            self._stretches.setdefault(full, Stretch()).enter(now)
            self._open.append(full)
            self._note_limit(now)
            return full

    def _leave(self, name: str) -> None:
        now = time.monotonic()
        with self._condition:
            if name in self._open:
                self._open.remove(name)
                self._stretches[name].leave(now)
                self._note_limit(now)

    def _note_limit(self, now: float) -> None:
        """Have the sampler ask for exact counters, unless it has just done so; the caller holds `_condition`."""
        self._limit = now
        if now - self._asked >= _EXACT_APART_SECONDS:
            self._condition.notify_all()

    def _pause(self, seconds: float) -> bool:
        """Wait for the next sample. Return whether it needs exact counters, since a stretch began or ended."""
        end = time.monotonic() + seconds
        with self._condition:
            if self._awaits_counters:
                end = min(end, time.monotonic() + _EXACT_AFTER_SECONDS)
            self._awaits_counters = False
            while (now := time.monotonic()) < end:
                due = self._asked + _EXACT_APART_SECONDS if self._limit > self._asked else math.inf
                if due <= now:
                    self._asked, self._awaits_counters = now, True
                    return True
                self._condition.wait(min(end, due) - now)
        return False

    def _wait_for(self, moment: float) -> None:
        """Let samples come until one is of that moment or later, and counted the energy until then; the caller holds `_condition`."""
        begun = time.monotonic()
        while self._thread is not None and self._error is None:
            patience = _PATIENCE_SECONDS
            if self._last is not None and self._last.time >= moment:
                if self._last.has_counted(moment):
                    return
                patience = _COUNTERS_SECONDS
            if not self._condition.wait(max(0.0, begun + patience - time.monotonic())):
                return

    def _sample(self) -> None:
        try:
            for node in self._source():
                self._store_sample(Sample.of(time.monotonic(), self._chosen(node), _age(node)))
                if self._stopping:
                    return
        except TelemetryError as error:
            with self._condition:
                self._error = error
                self._condition.notify_all()

    def _store_sample(self, sample: Sample) -> None:
        with self._condition:
            if self._last is not None:
                folded(self._stretches.values(), self._last, sample)
            self._last = sample
            self._condition.notify_all()

    def _chosen(self, node: Node) -> Iterable[tuple[str, Device]]:
        """Return the wanted devices and what they are called here. Raises UnknownNameError if the first sample lacks one."""
        if self._wanted == "visible":
            return numbered(node.devices, os.environ)
        named = [(device.device, device) for device in node.devices]
        if self._wanted == "all":
            return named
        wanted, names = {str(name) for name in self._wanted}, {device.id: _names(device) for device in node.devices}
        unknown = sorted(wanted.difference(*names.values()))
        if unknown and self._last is None:
            near = nearest_or_all(unknown[0], (device.device for device in node.devices)) or "; it has none"
            raise UnknownNameError(f"this node has no device named {unknown[0]!r}{near}")
        return [(name, device) for name, device in named if wanted & names[device.id]]


def _names(device: Device) -> set[str]:
    return {str(device.index), device.device, device.id, device.uuid or ""}


def _age(node: Node) -> float:
    """Return how old a node's document is; 0 if that cannot be, since the clock is another machine's."""
    age = time.time() - node.time.timestamp()
    return age if 0.0 <= age <= _LONGEST_AGE_SECONDS else 0.0


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
