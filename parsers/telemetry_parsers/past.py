"""A node's last half hour: what the daemon keeps of it, and what `top`, the page and the document of history show."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import is_main_temperature, is_power_limit, is_vague
from telemetry_parsers.model import Absent, MergedDevice, Value
from telemetry_parsers.readings import Readings, Shape

SLOT_SECONDS = 5.0
SLOTS = 360
MOST_EVENTS = 256
_MOST_SHAPES = 64


def _troubling(reasons: Sequence[str]) -> Sequence[str]:
    """Leave out the power limit, at which a busy device works, and vague reasons if others are reported."""
    others = [reason for reason in reasons if not is_power_limit(reason)]
    return [reason for reason in others if not is_vague(reason)] or others


def _unlabelled(labels: Sequence[str]) -> Sequence[str]:
    return [label for label in labels if not label]


# The kept metrics of each device, and the labels that count; the highest value of these labels is kept.
_LABELS: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "temperature_celsius": lambda labels: [label for label in labels if is_main_temperature(label)],
    "power_watts": _unlabelled,
    "power_cap_watts": _unlabelled,
    "memory_used_bytes": _unlabelled,
    "utilization_ratio": _unlabelled,
    "memory_activity_ratio": _unlabelled,
    "clock_hertz": lambda labels: [label for label in ("sm", "graphics") if label in labels][:1],
    "throttled": _troubling,
}
KEPT = tuple(_LABELS)


def kept_values(device: MergedDevice) -> list[Value | None]:
    """Return the device's value of each kept metric, in their order; None for a metric that no source reports."""
    readings = Readings.of(device.readings)
    values = readings.values
    return [values[found[0]] if len(found) == 1 else _highest(values, found) for found in kept_places(readings.shape)]


def kept_value(device: MergedDevice, metric: str) -> Value | None:
    """Return the device's value of one of the kept metrics."""
    readings = Readings.of(device.readings)
    return _highest(readings.values, kept_places(readings.shape)[KEPT.index(metric)])


@lru_cache(maxsize=_MOST_SHAPES)
def kept_places(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the values of each kept metric, in readings of that shape."""
    labels = {kept: [label for metric, label in shape.keys if metric == kept] for kept in KEPT}
    return tuple(
        tuple(shape.places[(kept, label)] for label in counting(labels[kept])) for kept, counting in _LABELS.items()
    )


def _highest(values: Sequence[Value], places: Sequence[int]) -> Value | None:
    """Return the highest number; without numbers, the first absence."""
    found = [values[place] for place in places]
    numbers = [value for value in found if not isinstance(value, Absent)]
    return max(numbers) if numbers else next(iter(found), None)


@dataclass(frozen=True, slots=True)
class Gap:
    """A number of slots without a number: the first of them, and why: `not_supported`, `lost`, `nvml: timeout`."""

    first: int
    slots: int
    reason: str


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device with a value for each slot, oldest first; NaN for a slot without a number."""

    last: array[float]
    highest: array[float]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEvent:
    """Something that happened to a device; Unix seconds."""

    wall_time: float
    id: str
    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """The completed slots of each device, by its id. `start` is the Unix time of the first slot."""

    start: float
    slots: int
    slot_seconds: float = SLOT_SECONDS
    devices: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    events: tuple[PastEvent, ...] = ()
    first: int = 0  # the number of the first slot, which is unchanged if the clock is set
