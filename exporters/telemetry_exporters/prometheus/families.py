"""The only conversion of a snapshot to metric families: which readings have a series, and with which labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter

from telemetry_exporters.prometheus.labels import Labels, identity_labels, info_labels
from telemetry_exporters.prometheus.own import OwnSamples, SampleColumns
from telemetry_exporters.snapshot_filter import NO_METRICS, shown_readings, usable_metrics
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.merge.ranks import RANK_METRIC, SERVER_FACT
from telemetry_parsers.model import Absent, MergedDevice, Metric, Snapshot, Value
from telemetry_parsers.readings import ReadingKey, Readings

# The attributes of a device from which its labels are made, and which decide whether it has series.
_WHO = attrgetter(
    *("vendor", "device", "id", "model", "uuid", "bus_id", "serial", "driver", "parent", "partition"),
    *("simulated", "replayed", "facts", "current_model", "up"),
)
# The values of `info` and `up`, or of `unread`, which precede a device's readings.
_PRESENCE: Mapping[bool | None, tuple[float, ...]] = {True: (1.0, 1.0), False: (1.0, 0.0), None: (1.0,)}


@dataclass(frozen=True, slots=True)
class OwnerSeries:
    """What is shown of owners besides their own metrics: the memory of processes, and owner labels on the series of cards."""

    process_metrics: bool = False
    inline_labels: tuple[str, ...] = ()


PLAIN = OwnerSeries()


@dataclass(frozen=True, slots=True)
class Names:
    """The part of a snapshot that names its series: devices with the keys of their readings, host readings, own samples."""

    devices: tuple[tuple[object, tuple[ReadingKey, ...]], ...] = ()
    host: tuple[ReadingKey, ...] = ()
    own: tuple[tuple[tuple[str, Labels], ...], ...] = ()
    # Sources and polls are named even without samples, because one that comes twice is a problem that counts.
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inline: tuple[Labels, ...] = ()  # the labels of each device's owner


@dataclass(frozen=True, slots=True)
class Columns:
    """A snapshot as names, which seldom change, and values. Equal names have the same series while the same values are numbers."""

    names: Names
    values: tuple[Value, ...]


def columns_of(snapshot: Snapshot, own: OwnSamples, of_owners: OwnerSeries = PLAIN) -> Columns:
    """Return the snapshot by columns, with the values of devices, host, and own samples."""
    devices = [(device, Readings.of(shown_readings(device))) for device in snapshot.devices]
    host = Readings.of(snapshot.host)
    samples = (*own.of(snapshot), *_of_owners(snapshot, of_owners))
    names = Names(
        devices=tuple([(_WHO(device), readings.shape.keys) for device, readings in devices]),
        host=host.shape.keys,
        own=tuple([group.names for group in samples]),
        sources=tuple([(source.source, tuple([poll.poll for poll in source.polls])) for source in snapshot.sources]),
        inline=_inline(snapshot, of_owners.inline_labels),
    )
    of_devices = ((_PRESENCE[device.up], readings.values) for device, readings in devices)
    values = (*chain.from_iterable(of_devices), host.values, *(group.values for group in samples))
    return Columns(names, tuple(chain.from_iterable(values)))


def _of_owners(snapshot: Snapshot, of_owners: OwnerSeries) -> Iterator[SampleColumns]:
    """Yield the samples of owners and processes. Imported on demand, because most nodes have no owners."""
    has_owners = any(device.allocations for device in snapshot.devices)
    if not has_owners and not of_owners.process_metrics:
        return
    from telemetry_exporters.prometheus import owner_samples

    if has_owners:
        yield SampleColumns.of(owner_samples.owner_samples(snapshot.devices))
    if of_owners.process_metrics:
        yield SampleColumns.of(owner_samples.process_samples(snapshot.devices))


def _inline(snapshot: Snapshot, chosen: tuple[str, ...]) -> tuple[Labels, ...]:
    """Return the chosen labels of each device's owner, if it has exactly one."""
    if not chosen:
        return ()
    from telemetry_exporters.prometheus.owner_samples import owner_labels

    owners = (
        owner_labels(device.allocations[0]) if len(device.allocations) == 1 else () for device in snapshot.devices
    )
    return tuple(tuple(pair for pair in labels if pair[0] in chosen) for labels in owners)


@dataclass(frozen=True, slots=True, eq=False)
class Owner:
    """The labels that several series share, such as a device's."""

    labels: Labels


# The owner, the word of the metric's own label (empty if it has none), and the position of its number among the values.
# A plain tuple, because a page has thousands, and a named tuple takes four times as long to make.
Series = tuple[Owner, str, int]
_SeriesByKey = defaultdict[str, list[Series]]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all its series; never empty, without duplicates."""

    metric: Metric
    series: tuple[Series, ...]

    def labels(self, series: Series) -> Labels:
        """Return all labels of one of the series, in order."""
        owner, word, _ = series
        return (*owner.labels, (self.metric.label, word)) if self.metric.label else owner.labels


def first_positions(shown: Snapshot, names: Names) -> tuple[list[int], int]:
    """Return the position of the first value of each device (info and up, or unread, then its readings), and of the own samples."""
    positions, position = [], 0
    for device, (_, keys) in zip(shown.devices, names.devices, strict=True):
        positions.append(position)
        position += presence_values(device) + len(keys)
    return positions, position + len(names.host)


def presence_values(device: MergedDevice) -> int:
    """Return how many of the device's values precede its readings: info and up, or unread."""
    return len(_PRESENCE[device.up])


def families(shown: Snapshot, columns: Columns, extra: Mapping[str, Metric] = NO_METRICS) -> Iterator[Family]:
    """Yield every metric with a series, in the catalogue's order, then plugins' (`extra`), from a screened snapshot and its columns."""
    series: _SeriesByKey = defaultdict(list)
    named_values = zip(_named(shown, columns.names), columns.values, strict=True)
    for position, ((metric, owner, word), value) in enumerate(named_values):
        if not isinstance(value, Absent):
            series[metric].append((owner, word, position))
    for key, usable in usable_metrics(extra).items():
        if key in series:
            yield Family(usable, tuple(series[key]))


def _named(shown: Snapshot, names: Names) -> Iterator[tuple[str, Owner, str]]:
    """Yield metric, owner and word of every value, in the order of the values."""
    inline = names.inline or ((),) * len(shown.devices)
    for device, (_, keys), of_owner in zip(shown.devices, names.devices, inline, strict=True):
        yield from _named_of(device, keys, of_owner)
    node = Owner(())
    for metric, word in names.host:
        yield metric, node, word
    for metric, labels in chain.from_iterable(names.own):
        yield metric, Owner(labels), ""


def _named_of(device: MergedDevice, keys: tuple[ReadingKey, ...], of_owner: Labels) -> Iterator[tuple[str, Owner, str]]:
    """Yield a device's metrics with owner and word. Info has no owner labels, because the series would end with the owner."""
    identity = identity_labels(device)
    labels = (*identity, *of_owner)
    owner = Owner(labels)
    if device.up is not None:
        yield "info", Owner((*identity, *info_labels(device))), ""
        yield "up", owner, ""
    else:
        yield "unread", owner, ""
    server = dict(device.facts).get(SERVER_FACT)
    on_server = Owner((*labels, ("server", server))) if server else owner
    for metric, word in keys:
        yield metric, on_server if metric == RANK_METRIC else owner, word
