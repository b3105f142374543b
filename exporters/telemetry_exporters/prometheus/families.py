"""Converts a snapshot to metric families."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter

from telemetry_exporters.prometheus.daemon_samples import DaemonSamples, SampleColumns
from telemetry_exporters.prometheus.labels import Labels, identity_labels, info_labels
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, shown_readings, usable_metrics
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.merge.ranks import RANK_METRIC, SERVER_FACT
from telemetry_parsers.model import Absent, MergedDevice, Metric, Snapshot, Value
from telemetry_parsers.readings import ReadingKey, Readings

# The attributes that determine a device's labels and series.
_get_identity = attrgetter(
    *("vendor", "device", "id", "model", "uuid", "bus_id", "serial", "driver", "parent", "partition"),
    *("simulated", "replayed", "facts", "current_model", "up"),
)
# Maps a device's `up` to the values that precede its readings: `info` and `up`, or only `unread`.
_PRESENCE_VALUES: Mapping[bool | None, tuple[float, ...]] = {True: (1.0, 1.0), False: (1.0, 0.0), None: (1.0,)}


@dataclass(frozen=True, slots=True)
class OwnerSeries:
    """The settings for optional series and labels about owners."""

    process_metrics: bool = False
    inline_labels: tuple[str, ...] = ()


NO_OWNERS = OwnerSeries()


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """The parts of a snapshot that determine its series."""

    devices: tuple[tuple[object, tuple[ReadingKey, ...]], ...] = ()
    host: tuple[ReadingKey, ...] = ()
    daemon: tuple[tuple[tuple[str, Labels], ...], ...] = ()
    # Includes sources without samples, because a snapshot is checked for duplicate sources only if its names change.
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    owner_labels: tuple[Labels, ...] = ()  # the owner labels of each device


@dataclass(frozen=True, slots=True)
class Columns:
    """A snapshot, divided into the names and the values of its series."""

    names: SeriesNames
    values: tuple[Value, ...]


def columns_of(snapshot: Snapshot, daemon: DaemonSamples, owner_series: OwnerSeries = NO_OWNERS) -> Columns:
    """Divide a snapshot into the names and the values of its series."""
    devices = [(device, Readings.of(shown_readings(device))) for device in snapshot.devices]
    host = Readings.of(snapshot.host)
    sample_groups = (*daemon.columns(snapshot), *_owner_samples(snapshot, owner_series))
    names = SeriesNames(
        devices=tuple([(_get_identity(device), readings.shape.keys) for device, readings in devices]),
        host=host.shape.keys,
        daemon=tuple([group.names for group in sample_groups]),
        sources=tuple([(source.source, tuple([poll.poll for poll in source.polls])) for source in snapshot.sources]),
        owner_labels=_owner_labels(snapshot, owner_series.inline_labels),
    )
    device_values = ((_PRESENCE_VALUES[device.up], readings.values) for device, readings in devices)
    values = (*chain.from_iterable(device_values), host.values, *(group.values for group in sample_groups))
    return Columns(names, tuple(chain.from_iterable(values)))


def _owner_samples(snapshot: Snapshot, owner_series: OwnerSeries) -> Iterator[SampleColumns]:
    has_owners = any(device.allocations for device in snapshot.devices)
    if not has_owners and not owner_series.process_metrics:
        return
    from telemetry_exporters.prometheus import owner_samples  # imported here, because few nodes have owners

    if has_owners:
        yield SampleColumns.from_samples(owner_samples.owner_samples(snapshot.devices))
    if owner_series.process_metrics:
        yield SampleColumns.from_samples(owner_samples.process_samples(snapshot.devices))


def _owner_labels(snapshot: Snapshot, names: tuple[str, ...]) -> tuple[Labels, ...]:
    """Return each device's owner labels with these names. A device has none unless it has exactly one owner."""
    if not names:
        return ()
    from telemetry_exporters.prometheus.owner_samples import owner_labels

    owners = (
        owner_labels(device.allocations[0]) if len(device.allocations) == 1 else () for device in snapshot.devices
    )
    return tuple(tuple((name, value) for name, value in labels if name in names) for labels in owners)


@dataclass(frozen=True, slots=True, eq=False)
class SharedLabels:
    """Labels that several series share, compared by identity."""

    labels: Labels


# (shared labels, value of the metric's additional label or "", index in `values`)
# A plain tuple, because a page has thousands of series, and creating a named tuple takes four times as long.
Series = tuple[SharedLabels, str, int]
_SeriesByKey = defaultdict[str, list[Series]]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its series. There is at least one series, and no duplicates."""

    metric: Metric
    series: tuple[Series, ...]

    def labels(self, series: Series) -> Labels:
        """Return all labels of a series, in order."""
        shared, value, _ = series
        return (*shared.labels, (self.metric.label, value)) if self.metric.label else shared.labels


def first_positions(snapshot: Snapshot, names: SeriesNames) -> tuple[list[int], int]:
    """Return the index in `Columns.values` of each device's first value, and of the daemon's first sample."""
    positions, position = [], 0
    for device, (_, keys) in zip(snapshot.devices, names.devices, strict=True):
        positions.append(position)
        position += leading_value_count(device) + len(keys)
    return positions, position + len(names.host)


def leading_value_count(device: MergedDevice) -> int:
    """Return the number of values that precede the device's readings, such as `info` and `up`."""
    return len(_PRESENCE_VALUES[device.up])


def families(snapshot: Snapshot, columns: Columns, plugin_metrics: Metrics = NO_METRICS) -> Iterator[Family]:
    """Yield a family for each metric that has series in the cleaned snapshot."""
    series_by_key: _SeriesByKey = defaultdict(list)
    names_and_values = zip(_series_names(snapshot, columns.names), columns.values, strict=True)
    for position, ((metric, shared, label_value), value) in enumerate(names_and_values):
        if not isinstance(value, Absent):
            series_by_key[metric].append((shared, label_value, position))
    for key, usable_metric in usable_metrics(plugin_metrics).items():
        if key in series_by_key:
            yield Family(usable_metric, tuple(series_by_key[key]))


def _series_names(snapshot: Snapshot, names: SeriesNames) -> Iterator[tuple[str, SharedLabels, str]]:
    """Yield (metric, shared labels, label value) for each value of the snapshot."""
    owner_labels = names.owner_labels or ((),) * len(snapshot.devices)
    for device, (_, keys), owner in zip(snapshot.devices, names.devices, owner_labels, strict=True):
        yield from _device_series_names(device, keys, owner)
    node = SharedLabels(())
    for metric, label_value in names.host:
        yield metric, node, label_value
    for metric, labels in chain.from_iterable(names.daemon):
        yield metric, SharedLabels(labels), ""


def _device_series_names(
    device: MergedDevice, keys: tuple[ReadingKey, ...], owner_labels: Labels
) -> Iterator[tuple[str, SharedLabels, str]]:
    identity = identity_labels(device)
    labels = (*identity, *owner_labels)
    shared = SharedLabels(labels)
    if device.up is not None:
        yield "info", SharedLabels((*identity, *info_labels(device))), ""  # a new owner does not end this series
        yield "up", shared, ""
    else:
        yield "unread", shared, ""
    server = dict(device.facts).get(SERVER_FACT)
    shared_with_server = SharedLabels((*labels, ("server", server))) if server else shared
    for metric, label_value in keys:
        yield metric, shared_with_server if metric == RANK_METRIC else shared, label_value
