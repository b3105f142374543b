"""Records devices during named sections of a program, in constant memory."""

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
from device_telemetry.reading import node_updates
from device_telemetry.sections import Sample, Section, add_period
from device_telemetry.visible import named_visible_devices
from telemetry_daemon.terminal.suggestions import suggest_or_list

_SAMPLE_TIMEOUT_SECONDS = 30.0
# How long `_wait_for_sample` waits for new energy counters, after a sample with old counters was received.
_COUNTERS_TIMEOUT_SECONDS = 2.0
# The daemon reads the energy counters within _COUNTER_READ_SECONDS.
_REQUEST_INTERVAL_SECONDS, _COUNTER_READ_SECONDS = 1.0, 0.25
# If a document's age is larger or negative, the clocks of the two nodes differ.
_MAX_AGE_SECONDS = 60.0
_WHOLE_RECORDING = ""  # the name of the section from `start` to `stop`

_Selection = str | Sequence[str | int]


@final
class Recorder(ContextDecorator):
    """Records devices from `start` to `stop`, or within a `with` block.

    `devices` is `visible`, `all`, or a list of indices, ids or UUIDs. Call the recorder with a name for a named section.
    """

    def __init__(
        self,
        devices: _Selection = "visible",
        interval: float = 1.0,
        url: str | None = None,
        source: Callable[[], Iterator[Node]] | None = None,
    ) -> None:
        if isinstance(devices, str) and devices not in ("visible", "all"):
            raise ValueError(f'devices must be "visible", "all" or a list of indices, ids or uuids, not {devices!r}')
        self._selection = devices
        self._source = source or (lambda: node_updates(interval, url, self._pause))
        self._sections: dict[str, Section] = {}
        self._open_sections: list[str] = []
        self._condition = threading.Condition()
        self._last_sample: Sample | None = None
        # The times when a section last began or ended, and when new energy counters were last requested.
        self._last_boundary = self._last_request = -math.inf
        self._awaits_counters = False
        self._is_stopping = False
        self._error: TelemetryError | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start recording, and wait for the first sample. Raise UnknownNameError for unknown devices."""
        if self._thread is not None:
            return
        self._is_stopping, self._error, self._last_sample = False, None, None
        self._thread = threading.Thread(target=self._record_samples, name="device-telemetry", daemon=True)
        self._thread.start()
        with self._condition:
            self._wait_for_sample(-math.inf)
        self._verify_selection()
        self._begin_section(_WHOLE_RECORDING)

    def _verify_selection(self) -> None:
        if isinstance(self._error, UnknownNameError):
            self._thread = None
            raise self._error
        if self._last_sample is not None and not self._last_sample.values and self._selection:
            text = f"nothing is recorded, because this node has none of the selected devices: {self._selection!r}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def stop(self) -> None:
        """End all open sections, wait for one last sample, and stop recording."""
        if self._thread is None:
            return
        now = time.monotonic()
        with self._condition:
            for name in reversed(self._open_sections):
                self._sections[name].leave(now)
            self._open_sections.clear()
            self._set_boundary(now)
            self._wait_for_sample(now)
            self._is_stopping = True
        self._thread = None

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __call__(self, name: Any) -> Any:
        """Return a section with this name, as a context manager or decorator."""
        return super().__call__(name) if callable(name) else _NamedSection(self, str(name))

    def results(self, name: str = "") -> dict[str, float]:
        """Return the results of a section, by default of the whole recording. Raise TelemetryError if there are none."""
        with self._condition:
            section = self._sections.get(name)
            if section is None:
                suggestion = suggest_or_list(name, filter(None, self._sections))
                hint = suggestion if self._sections else ": call start() first, or use `with`"
                raise UnknownNameError(f"no section {name!r} has begun{hint}")
            self._wait_for_sample(section.end_time or time.monotonic())
            if self._error is not None and not section.seconds:
                raise self._error
            return section.results()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all sections so far. An empty name stands for the whole recording."""
        with self._condition:
            return tuple(self._sections)

    def _begin_section(self, name: str) -> str:
        """Begin a section, and return its full name, such as `outer/inner`."""
        now = time.monotonic()
        with self._condition:
            outer = self._open_sections[-1] if self._open_sections else _WHOLE_RECORDING
            full_name = f"{outer}/{name}" if outer and name else name
            self._sections.setdefault(full_name, Section()).enter(now)
            self._open_sections.append(full_name)
            self._set_boundary(now)
            return full_name

    def _end_section(self, name: str) -> None:
        now = time.monotonic()
        with self._condition:
            if name in self._open_sections:
                self._open_sections.remove(name)
                self._sections[name].leave(now)
                self._set_boundary(now)

    def _set_boundary(self, now: float) -> None:
        """Store the time of a section's start or end, and wake `_pause`. The caller holds `_condition`."""
        self._last_boundary = now
        if now - self._last_request >= _REQUEST_INTERVAL_SECONDS:
            self._condition.notify_all()

    def _pause(self, seconds: float) -> bool:
        """Wait before the next sample. Return whether the energy counters must be read again for this sample."""
        deadline = time.monotonic() + seconds
        with self._condition:
            if self._awaits_counters:
                deadline = min(deadline, time.monotonic() + _COUNTER_READ_SECONDS)
            self._awaits_counters = False
            while (now := time.monotonic()) < deadline:
                needs_request = self._last_boundary > self._last_request
                due = self._last_request + _REQUEST_INTERVAL_SECONDS if needs_request else math.inf
                if due <= now:
                    self._last_request, self._awaits_counters = now, True
                    return True
                self._condition.wait(min(deadline, due) - now)
        return False

    def _wait_for_sample(self, since: float) -> None:
        """Wait for readings and energy counters from `since` or later, or for a timeout. The caller holds `_condition`."""
        start = time.monotonic()
        while self._thread is not None and self._error is None:
            timeout = _SAMPLE_TIMEOUT_SECONDS
            if self._last_sample is not None and self._last_sample.time >= since:
                if self._last_sample.has_counters_since(since):
                    return
                timeout = _COUNTERS_TIMEOUT_SECONDS
            if not self._condition.wait(max(0.0, start + timeout - time.monotonic())):
                return

    def _record_samples(self) -> None:
        try:
            for node in self._source():
                devices = self._selected_devices(node)
                self._add_sample(Sample.from_devices(time.monotonic(), devices, _document_age(node)))
                if self._is_stopping:
                    return
        except TelemetryError as error:
            with self._condition:
                self._error = error
                self._condition.notify_all()

    def _add_sample(self, sample: Sample) -> None:
        with self._condition:
            if self._last_sample is not None:
                add_period(self._sections.values(), self._last_sample, sample)
            self._last_sample = sample
            self._condition.notify_all()

    def _selected_devices(self, node: Node) -> Iterable[tuple[str, Device]]:
        """Return (name, device) for each device to record. Raise UnknownNameError for unknown devices."""
        if self._selection == "visible":
            return named_visible_devices(node.devices, os.environ)
        all_devices = [(device.device, device) for device in node.devices]
        if self._selection == "all":
            return all_devices
        selected_names = {str(name) for name in self._selection}
        names_by_id = {device.id: _selectable_names(device) for device in node.devices}
        unknown = sorted(selected_names.difference(*names_by_id.values()))
        if unknown and self._last_sample is None:
            hint = suggest_or_list(unknown[0], (device.device for device in node.devices)) or "; it has no devices"
            raise UnknownNameError(f"this node has no device named {unknown[0]!r}{hint}")
        return [(name, device) for name, device in all_devices if selected_names & names_by_id[device.id]]


def _selectable_names(device: Device) -> set[str]:
    return {str(device.index), device.device, device.id, device.uuid or ""}


def _document_age(node: Node) -> float:
    """Return the document's age, or 0 if the other node's clock differs."""
    age = time.time() - node.time.timestamp()
    return age if 0.0 <= age <= _MAX_AGE_SECONDS else 0.0


@final
class _NamedSection(ContextDecorator):
    """A context manager or decorator for a named section."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._open_names: list[str] = []

    def __enter__(self) -> Recorder:
        self._open_names.append(self._recorder._begin_section(self._name))  # noqa: SLF001  # both classes belong together
        return self._recorder

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder._end_section(self._open_names.pop())  # noqa: SLF001  # as above
