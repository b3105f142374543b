"""Detects links that were up and are down. Tools report only the current state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_parsers.readings import Readings, Shape

# A single result may be wrong.
_ENOUGH_ANSWERS = 2
_MOST_SHAPES = 64


@dataclass(slots=True)
class _Link:
    """How many results reported the link as up, whether the newest reports it as down, and when that was read."""

    answers_up: int = 0
    is_down: bool = False
    taken: float = -math.inf


class Links:
    """Reads each result once. Not thread-safe: the caller holds a lock."""

    def __init__(self) -> None:
        self._devices: dict[str, dict[str, _Link]] = {}
        self._seen: dict[str, MergedDevice] = {}

    def look(self, devices: Iterable[MergedDevice]) -> dict[str, tuple[str, ...]]:
        """Return for each device with new results the links that were up and are down."""
        news = {}
        for device in devices:
            if self._seen.get(device.id) is device:
                continue
            self._seen[device.id] = device
            readings = Readings.of(device.readings)
            if places := _links(readings.shape):
                links = self._devices.setdefault(device.id, {})
                for label, position in places:
                    _take(links.setdefault(label, _Link()), readings, position)
                if len(links) > bounds.MOST_WORDS:  # a source may invent labels
                    links = self._devices[device.id] = {label: links[label] for label, _ in places}
                news[device.id] = _down(links)
        return news

    def forget(self, device_id: str) -> bool:
        """Accept the current state of a device's links, and return whether any was missed."""
        self._seen.pop(device_id, None)
        return bool(_down(self._devices.pop(device_id, {})))


def _take(link: _Link, readings: Readings, position: int) -> None:
    value, taken = readings.values[position], readings.origins[readings.shape.origins[position]].taken
    if isinstance(value, Absent) or taken == link.taken:
        return
    link.taken, link.is_down = taken, value == 0.0
    link.answers_up += value == 1.0


def _down(links: dict[str, _Link]) -> tuple[str, ...]:
    return tuple(label for label, link in links.items() if link.is_down and link.answers_up >= _ENOUGH_ANSWERS)


@lru_cache(maxsize=_MOST_SHAPES)
def _links(shape: Shape) -> tuple[tuple[str, int], ...]:
    return tuple((label, position) for (metric, label), position in shape.places.items() if metric == "link_up")
