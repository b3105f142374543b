"""What the table of conditions looks at: one device's readings by metric, and what its peers show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from telemetry_exporters.judgement.thresholds import number
from telemetry_exporters.snapshot_filter import shown_readings
from telemetry_parsers.model import Absent, MergedDevice, Snapshot
from telemetry_parsers.readings import Readings, Shape

# By metric: each of its labels, and the place of the value.
Places = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Peers:
    """What the devices of one model show: how many links of each are up, and whether any fan turns."""

    links_up: tuple[int, ...] = ()
    fan_turns: bool = False

    @property
    def usual_links(self) -> int:
        """How many links of a device are up mostly; 0 where there are too few devices to tell."""
        enough = len(self.links_up) >= number("straggler_peers")
        return sorted(self.links_up)[(len(self.links_up) - 1) // 2] if enough else 0


@dataclass(frozen=True, slots=True)
class View:
    """One device as the conditions see it; `now` is the snapshot's time of day."""

    device: MergedDevice
    readings: Readings
    places: Places
    now: float
    peers: Peers = Peers()

    def numbers(self, metric: str) -> dict[str, float]:
        """Its readings of a metric that are numbers, by label."""
        values = self.readings.values
        found = ((label, values[place]) for label, place in self.places.get(metric, ()))
        return {label: value for label, value in found if not isinstance(value, Absent)}

    def number(self, metric: str) -> float | None:
        """Its reading of a metric without labels, None if that is no number."""
        value = self.readings.value(metric)
        return None if isinstance(value, Absent) else value

    def active(self, metric: str) -> list[str]:
        """The labels under which a metric is 1."""
        values = self.readings.values
        return [label for label, place in self.places.get(metric, ()) if values[place] == 1.0]


def views(snapshot: Snapshot, metrics: Collection[str]) -> Iterator[View]:
    """Each device of the snapshot with the places of these metrics."""
    columns = [(device, Readings.of(shown_readings(device))) for device in snapshot.devices]
    # Devices of one model mostly have one shape in common.
    shapes = {id(readings.shape): readings.shape for _, readings in columns}
    places = {key: _places(shape, metrics) for key, shape in shapes.items()}
    alone = [View(device, readings, places[id(readings.shape)], snapshot.wall_time) for device, readings in columns]
    peers = _peers(alone)
    for view in alone:
        beside = peers[_model(view.device)]
        yield View(view.device, view.readings, view.places, view.now, beside)


def _places(shape: Shape, metrics: Collection[str]) -> Places:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for (metric, label), place in shape.places.items():
        if metric in metrics:
            found[metric].append((label, place))
    return {metric: tuple(labels) for metric, labels in found.items()}


def _model(device: MergedDevice) -> tuple[str, str]:
    return device.vendor, device.current_model or device.model


def _peers(devices: list[View]) -> Mapping[tuple[str, str], Peers]:
    links: dict[tuple[str, str], list[int]] = defaultdict(list)
    fans: dict[tuple[str, str], bool] = defaultdict(bool)
    for view in devices:
        model = _model(view.device)
        fans[model] |= bool(view.number("fan_ratio"))
        if view.numbers("link_up"):
            links[model].append(len(view.active("link_up")))
    return {model: Peers(tuple(links[model]), turns) for model, turns in fans.items()}
