"""The one place where a snapshot becomes metric families: which readings have a series, and with which labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from telemetry_exporters.own import own_samples
from telemetry_exporters.screen import IDENTITY_LABELS, NO_METRICS, screen, usable_metrics
from telemetry_parsers.merge.ranks import RANK_METRIC, SERVER_FACT
from telemetry_parsers.model import Absent, MergedDevice, Metric, Snapshot
from telemetry_parsers.readings import Readings

Labels = tuple[tuple[str, str], ...]

# The scraper sets these two itself.
_TAKEN_LABELS = frozenset({*IDENTITY_LABELS, "job", "instance"})
_NOT_IN_LABEL_NAME = re.compile(r"[^a-z0-9_]+")


@dataclass(frozen=True, slots=True, eq=False)
class Owner:
    """The labels that several series share, such as a device's. It is compared by identity, which makes a cheap key."""

    labels: Labels


# The owner, the word of the metric's own label (empty if it has none), and the value. It is a plain
# tuple: a page has thousands of them, and a named tuple costs four times as much to make.
Series = tuple[Owner, str, float]
_SeriesByKey = defaultdict[str, list[Series]]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all its series; never empty, no series twice."""

    metric: Metric
    series: tuple[Series, ...]

    def labels(self, series: Series) -> Labels:
        """All labels of one of the series, in order."""
        owner, word, _ = series
        return (*owner.labels, (self.metric.label, word)) if self.metric.label else owner.labels


def families(
    snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS, owner_of: Callable[[Labels], Owner] = Owner
) -> Iterator[Family]:
    """Every metric that has a series, in the catalogue's order, then plugins' (`extra`); devices in the snapshot's.

    `screen` leaves out what cannot be shown, and says why. `owner_of` makes the owners, so that a caller can use the same
    ones again.
    """
    shown = screen(snapshot, extra).snapshot
    series: _SeriesByKey = defaultdict(list)
    for device in shown.devices:
        _add_device(device, owner_of, series)
    for reading in shown.host:
        if not isinstance(reading.value, Absent):
            series[reading.metric].append((owner_of(()), reading.label, reading.value + 0.0))
    for sample in own_samples(shown):
        series[sample.metric].append((owner_of(sample.labels), "", sample.value + 0.0))
    for key, metric in usable_metrics(extra).items():
        if key in series:
            yield Family(metric, tuple(series[key]))


def _add_device(device: MergedDevice, owner_of: Callable[[Labels], Owner], series: _SeriesByKey) -> None:
    owner = owner_of(identity_labels(device))
    if device.up is not None:
        series["info"].append((owner_of((*owner.labels, *info_labels(device))), "", 1.0))
        series["up"].append((owner, "", float(device.up)))
    readings = Readings.of(device.readings)
    for (metric, label), value in zip(readings.shape.keys, readings.values, strict=True):
        if isinstance(value, Absent):
            continue
        if metric == RANK_METRIC:
            series[RANK_METRIC].append((_on_server(device, owner, owner_of), label, value))
        else:
            series[metric].append((owner, label, value + 0.0))  # an int is one too, and -0.0 is 0.0


def _on_server(device: MergedDevice, owner: Owner, owner_of: Callable[[Labels], Owner]) -> Owner:
    """The owner of a rank: the device with the server that the rank table puts it on."""
    server = dict(device.facts).get(SERVER_FACT)
    return owner_of((*owner.labels, ("server", server))) if server else owner


def identity_labels(device: MergedDevice) -> Labels:
    """The labels that every series of a device has; frozen when the device was first published."""
    return (("vendor", device.vendor), ("device", device.device), ("id", device.id), ("model", device.model))


def info_labels(device: MergedDevice) -> Labels:
    """The further labels of a device on accelerator_info; what is unknown has none."""
    labels: dict[str, str | None] = {
        "uuid": device.uuid,
        "bus_id": device.bus_id,
        "serial": device.serial,
        "driver": device.driver,
        "parent": device.parent,
        "partition": device.partition,
        "model_now": device.current_model if device.current_model != device.model else None,
        "simulated": "true" if device.simulated else None,
    }
    for name, value in device.facts:
        if name == SERVER_FACT:
            continue  # it belongs to the rank
        labels.setdefault(_NOT_IN_LABEL_NAME.sub("_", name.lower()), value)
    return tuple((name, value) for name, value in labels.items() if value and _is_free_label(name))


def _is_free_label(name: str) -> bool:
    return name[:1].isalpha() and name not in _TAKEN_LABELS
