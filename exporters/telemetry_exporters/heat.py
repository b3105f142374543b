"""Whether a device is too hot, by its own limits; by common figures where it tells none. The alerts on heat ask the same."""

from __future__ import annotations

import re
from typing import NamedTuple

from telemetry_exporters.device_view import View
from telemetry_exporters.human import celsius
from telemetry_exporters.thresholds import number, pattern
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS, is_main_temperature

READ = (
    "temperature_celsius",
    "temperature_margin_celsius",
    "temperature_slowdown_celsius",
    "temperature_critical_celsius",
    "temperature_shutdown_celsius",
)
_T, _MARGIN, _SLOWDOWN, _CRITICAL, _SHUTDOWN = READ
_is_inner = re.compile(pattern("inner_sensors")).fullmatch


class _Near(NamedTuple):
    """How many degrees are left, and to which limit; some devices tell the first alone."""

    degrees: float
    limit: str


def over_critical(view: View) -> list[str]:
    """The hottest of the sensors that have reached what is critical for them."""
    own = view.numbers(_SHUTDOWN) | view.numbers(_CRITICAL)
    slowdown = view.numbers(_SLOWDOWN)
    limits = ((degrees, sensor, _critical(sensor, degrees, own, slowdown)) for sensor, degrees in _hottest_first(view))
    for degrees, sensor, limit in limits:
        if limit is not None and degrees >= limit:
            return [("" if is_main_temperature(sensor) else f"{sensor} ") + f"critical {celsius(limit)}"]
    return []


def _hottest_first(view: View) -> list[tuple[str, float]]:
    return sorted(view.numbers(_T).items(), key=lambda item: -item[1])


def _critical(sensor: str, degrees: float, own: dict[str, float], slowdown: dict[str, float]) -> float | None:
    if sensor in own:
        return own[sensor]
    # A board has no common figure, and what would not even slow the device down is not critical.
    if sensor.startswith(BOARD_SENSORS) or degrees < slowdown.get(sensor, degrees):
        return None
    return number("critical_junction_celsius" if _is_inner(sensor) else "critical_celsius")


def over_limit(view: View) -> list[str]:
    """The limit at which the device slows down, where it is hotter."""
    near = _nearest(view)
    return [f"over {near.limit}"] if near is not None and near.degrees < 0 else []


def near_limit(view: View) -> list[str]:
    """That limit, where the device is close to it."""
    near, margin = _nearest(view), number("limit_margin_celsius")
    return [f"near {near.limit}"] if near is not None and 0 <= near.degrees < margin else []


def over_common(view: View) -> list[str]:
    """What is hot for most, where a device that tells no limit is hotter."""
    if _nearest(view) is not None:
        return []
    figures = ((degrees, _common(sensor)) for sensor, degrees in _hottest_first(view))
    return [f"over {celsius(limit)}" for degrees, limit in figures if limit is not None and degrees > limit][:1]


def _common(sensor: str) -> float | None:
    if _is_inner(sensor):
        return number("hot_junction_celsius")
    return None if sensor.startswith(OTHER_SENSORS) else number("hot_celsius")


def main_temperature(view: View) -> float | None:
    """The hottest sensor other than memory and board, None if there is none."""
    return max((degrees for sensor, degrees in view.numbers(_T).items() if is_main_temperature(sensor)), default=None)


def _nearest(view: View) -> _Near | None:
    """How near the device is to its limit; None if it tells none."""
    told = view.number(_MARGIN)
    if told is not None:
        return _Near(told, "its limit") if main_temperature(view) is not None else None
    limits = view.numbers(_SHUTDOWN) | view.numbers(_CRITICAL) | view.numbers(_SLOWDOWN)
    margins = [
        _Near(limits[sensor] - degrees, celsius(limits[sensor]))
        for sensor, degrees in view.numbers(_T).items()
        if sensor in limits and is_main_temperature(sensor)
    ]
    return min(margins, default=None)
