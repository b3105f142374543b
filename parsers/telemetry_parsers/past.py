"""The last half hour of a node, for `top`, the live page and the history document."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import is_main_sensor, is_power_limit_reason, is_vague_reason
from telemetry_parsers.model import Absent, MergedDevice, Value
from telemetry_parsers.readings import Readings, Shape

SLOT_SECONDS = 5.0
SLOTS = 360
MAX_EVENTS = 256
_MAX_SHAPES = 64


def _abnormal_reasons(reasons: Sequence[str]) -> Sequence[str]:
    """Return the reasons other than the power limit. Vague reasons are omitted if there are others."""
    abnormal = [reason for reason in reasons if not is_power_limit_reason(reason)]
    return [reason for reason in abnormal if not is_vague_reason(reason)] or abnormal


def _unlabelled(labels: Sequence[str]) -> Sequence[str]:
    return [label for label in labels if not label]


# Maps each metric with a history to a function that selects labels. The history has the highest of their values.
_LABEL_SELECTORS: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "temperature_celsius": lambda labels: [label for label in labels if is_main_sensor(label)],
    "power_watts": _unlabelled,
    "power_cap_watts": _unlabelled,
    "memory_used_bytes": _unlabelled,
    "utilization_ratio": _unlabelled,
    "memory_activity_ratio": _unlabelled,
    "clock_hertz": lambda labels: [label for label in ("sm", "graphics") if label in labels][:1],
    "throttled": _abnormal_reasons,
}
KEPT = tuple(_LABEL_SELECTORS)


def kept_values(device: MergedDevice) -> list[Value | None]:
    """Return the device's value of each metric in the history. A missing value is None."""
    readings = Readings.of(device.readings)
    values = readings.values
    return [
        values[positions[0]] if len(positions) == 1 else _highest_value(values, positions)
        for positions in kept_positions(readings.shape)
    ]


def kept_value(device: MergedDevice, metric: str) -> Value | None:
    """Return the device's value of a metric in the history, or None if it is not reported."""
    readings = Readings.of(device.readings)
    return _highest_value(readings.values, kept_positions(readings.shape)[KEPT.index(metric)])


@lru_cache(maxsize=_MAX_SHAPES)
def kept_positions(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Return, for each metric in the history, the positions of its selected values in this shape."""
    labels = {kept: [label for metric, label in shape.keys if metric == kept] for kept in KEPT}
    return tuple(
        tuple(shape.indices[(kept, label)] for label in select_labels(labels[kept]))
        for kept, select_labels in _LABEL_SELECTORS.items()
    )


def _highest_value(values: Sequence[Value], positions: Sequence[int]) -> Value | None:
    candidates = [values[position] for position in positions]
    numbers = [value for value in candidates if not isinstance(value, Absent)]
    return max(numbers) if numbers else next(iter(candidates), None)


@dataclass(frozen=True, slots=True)
class Gap:
    """Consecutive slots without a number, and the reason, such as `lost` or `nvml: timeout`."""

    first: int
    slots: int
    reason: str


@dataclass(frozen=True, slots=True)
class Series:
    """The history of one metric of one device, oldest first, with NaN for missing numbers."""

    last: array[float]  # the last number in each slot
    highest: array[float]  # the highest number in each slot
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEvent:
    """An event of a device, at a time in Unix seconds."""

    wall_time: float
    id: str
    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """The completed slots of all devices, by device id."""

    start: float  # the Unix time of the first slot
    slots: int
    slot_seconds: float = SLOT_SECONDS
    devices: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    events: tuple[PastEvent, ...] = ()
    first: int = 0  # the first slot's number, counted from the boot, so that setting the clock does not change it
