"""What calls for a recording of the last minutes: an event of a device, a reading that turns bad, a source that sticks or fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from telemetry_exporters.past import PastEvent
from telemetry_exporters.thresholds import pattern
from telemetry_parsers.model import Absent, Health, MergedDevice, State
from telemetry_parsers.readings import Readings, Shape

THROTTLED, STUCK, FAILED = "throttled_by_heat", "stuck", "failed"
# Somebody did that, or all is well again.
_NO_TROUBLE = frozenset({"returned", "removed"})
# The cause, and the metric with the labels of which none may grow.
_READINGS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (THROTTLED, "throttled", re.compile(pattern("heat_reasons"))),
    ("uncorrected_errors", "ecc_uncorrected_total", re.compile(".*")),
    ("unhealthy", "health", re.compile("alarm|critical")),
    ("recovery_needed", "recovery_action", re.compile("(?!none$).*")),
    ("row_remap_failed", "row_remap_failed", re.compile(".*")),
)
_MOST_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Alarm:
    """What happened, in a word, and to whom: a device's id, or a source.

    A minor one is mostly a job's doing, or over at the next poll.
    """

    cause: str
    whose: str
    is_minor: bool = False


class Alarms:
    """Sees what the store takes in, and raises an alarm when something begins; whoever gets it must be quick and not raise."""

    def __init__(self, raised: Callable[[Alarm], None]) -> None:
        self._raised = raised
        self._devices: dict[str, MergedDevice] = {}
        self._troubles: dict[str, tuple[float, ...]] = {}
        self._states: dict[tuple[str, str], State] = {}

    def event(self, event: PastEvent) -> None:
        """Take an event of a device."""
        if event.code not in _NO_TROUBLE:
            self._raised(Alarm(event.code, event.id, is_minor=_is_of_application(event.code)))

    def see(self, devices: Sequence[MergedDevice], healths: Mapping[tuple[str, str], Health]) -> None:
        """Take what is known from now on."""
        for device in devices:
            if self._devices.get(device.id) is not device and device.readings:
                self._look(device)
        self._devices = {device.id: device for device in devices}
        for gone in self._troubles.keys() - self._devices.keys():
            del self._troubles[gone]
        for key, health in healths.items():
            before = self._states.get(key)
            if health.state == STUCK != before:
                self._raised(Alarm(STUCK, key[0]))
            elif health.state == FAILED and before == "ok":
                self._raised(Alarm(FAILED, key[0], is_minor=True))
            self._states[key] = health.state

    def _look(self, device: MergedDevice) -> None:
        """Whether more troubles it than before; of a device that is new, nobody saw what began."""
        readings = Readings.of(device.readings)
        values = readings.values
        troubles = tuple(
            sum(value for place in places if not isinstance(value := values[place], Absent))
            for places in _places(readings.shape)
        )
        before = self._troubles.get(device.id, troubles)
        self._troubles[device.id] = troubles
        for (cause, _, _), now, then in zip(_READINGS, troubles, before, strict=True):
            if now > then:
                self._raised(Alarm(cause, device.id))


@lru_cache(maxsize=_MOST_SHAPES)
def _places(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Where readings of that shape have the metric and labels of each row."""
    return tuple(
        tuple(place for place, (name, label) in enumerate(shape.keys) if name == metric and labels.fullmatch(label))
        for _, metric, labels in _READINGS
    )


@lru_cache(maxsize=_MOST_SHAPES)
def _is_of_application(code: str) -> bool:
    return re.fullmatch(pattern("xid_application"), code) is not None
