"""What the devices did during named stretches of a program: means, extremes, energy and peak memory, as a flat dict of floats.

A thread samples; whoever enters or leaves a stretch notes a time and goes on. Samples are folded into the stretches as they
come, so that a recorder takes the same memory after a minute and after a month.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, final

from device_telemetry.errors import TelemetryError
from device_telemetry.node import Device, Node
from device_telemetry.reading import watch
from device_telemetry.stretches import Sample, Stretch, folded
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
