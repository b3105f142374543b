"""Detects lost links by comparing their current states with earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_parsers.readings import Readings, Shape

# A single result may be wrong, so only a link that was up in two results can be lost.
_MIN_RESULTS_UP = 2
_MAX_SHAPES = 64


@dataclass(slots=True)
class _Link:
    """The state of a link. `results_up` counts the results in which the link was up."""

    results_up: int = 0
    is_down: bool = False
    result_time: float = -math.inf


class Links:
    """The links of all devices. Not thread-safe."""

    def __init__(self) -> None:
        self._links_by_device: dict[str, dict[str, _Link]] = {}
        # When each device's newest results were taken. `update` is also called without new results.
        self._newest_times: dict[str, list[float]] = {}

    def update(self, devices: Iterable[MergedDevice]) -> dict[str, tuple[str, ...]]:
        """Record new link states. For each device with new states, return its lost links."""
        lost_links = {}
        for device in devices:
            readings = Readings.of(device.readings)
            link_positions, link_origins = _link_positions(readings.shape)
            times = [readings.origins[origin].taken for origin in link_origins]
            if not times or self._newest_times.get(device.id) == times:
                continue
            self._newest_times[device.id] = times
            links = self._links_by_device.setdefault(device.id, {})
            for label, position in link_positions:
                _update_link(links.setdefault(label, _Link()), readings, position)
            if len(links) > bounds.MAX_LABEL_VALUES:  # the source keeps reporting new labels
                links = self._links_by_device[device.id] = {label: links[label] for label, _ in link_positions}
            lost_links[device.id] = _lost_labels(links)
        return lost_links

    def forget(self, device_id: str) -> bool:
        """Forget a device's link states, and return whether any link was lost."""
        self._newest_times.pop(device_id, None)
        return bool(_lost_labels(self._links_by_device.pop(device_id, {})))


def _update_link(link: _Link, readings: Readings, position: int) -> None:
    value, result_time = readings.values[position], readings.origins[readings.shape.origins[position]].taken
    if isinstance(value, Absent) or result_time == link.result_time:
        return
    link.result_time, link.is_down = result_time, value == 0.0
    link.results_up += 1 if value == 1.0 else 0


def _lost_labels(links: dict[str, _Link]) -> tuple[str, ...]:
    return tuple(label for label, link in links.items() if link.is_down and link.results_up >= _MIN_RESULTS_UP)


@lru_cache(maxsize=_MAX_SHAPES)
def _link_positions(shape: Shape) -> tuple[tuple[tuple[str, int], ...], frozenset[int]]:
    """Return (label, position) of each link reading, and the indices of their origins."""
    positions = tuple((label, position) for (metric, label), position in shape.indices.items() if metric == "link_up")
    return positions, frozenset(shape.origins[position] for _, position in positions)
