"""A node's last half hour: what the daemon keeps of it, and what `top`, the page and the document of history show."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from telemetry_exporters.overview import temperature, value_of
from telemetry_parsers.model import Absent, MergedDevice, Value

SLOT_SECONDS = 5.0
SLOTS = 360
MOST_EVENTS = 256


def _sm_clock(device: MergedDevice) -> Value | None:
    clocks = {reading.label: reading.value for reading in device.readings if reading.metric == "clock_hertz"}
    return clocks.get("sm", clocks.get("graphics"))


def _throttled(device: MergedDevice) -> Value | None:
    """1 while any reason holds the clocks down, 0 while none does."""
    values = [reading.value for reading in device.readings if reading.metric == "throttled"]
    numbers = [value for value in values if not isinstance(value, Absent)]
    return max(numbers) if numbers else next(iter(values), None)


# What is kept of each device, by the key of its metric; everywhere in this order.
KEPT: Mapping[str, Callable[[MergedDevice], Value | None]] = {
    "temperature_celsius": temperature,
    "power_watts": lambda device: value_of(device, "power_watts"),
    "power_cap_watts": lambda device: value_of(device, "power_cap_watts"),
    "memory_used_bytes": lambda device: value_of(device, "memory_used_bytes"),
    "utilization_ratio": lambda device: value_of(device, "utilization_ratio"),
    "memory_activity_ratio": lambda device: value_of(device, "memory_activity_ratio"),
    "clock_hertz": _sm_clock,
    "throttled": _throttled,
}


@dataclass(frozen=True, slots=True)
class Gap:
    """So many slots without a number, the first of them, and why: `not_supported`, `lost`, `nvml: timeout`."""

    first: int
    slots: int
    reason: str


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device, a place for each slot, oldest first; NaN where there is no number."""

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
    """The slots that have ended, of each device by its id; `start` is the Unix time at which the first one began."""

    start: float
    slots: int
    slot_seconds: float = SLOT_SECONDS
    devices: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    events: tuple[PastEvent, ...] = ()
