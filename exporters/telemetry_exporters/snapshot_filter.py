"""Removes unknown metrics, duplicates and invalid values from a snapshot, so that pages are valid even after a bug in the merge."""

from __future__ import annotations

import enum
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import TypeVar

from telemetry_exporters.text import clean, cleaned
from telemetry_parsers.dataclass import fields, replace
from telemetry_parsers.metrics import BY_KEY, CATALOGUE, OWN_LABELS
from telemetry_parsers.model import (
    Absent,
    MergedDevice,
    MergedReading,
    Metric,
    Problem,
    Sample,
    Scope,
    Snapshot,
    SourceStatus,
)
from telemetry_parsers.ownership import Owner
from telemetry_parsers.readings import Readings

IDENTITY_LABELS = ("vendor", "device", "id", "model")
NO_METRICS: Mapping[str, Metric] = {}
# The daemon counts events itself, so they are valid for a lost device, too: its last event may have come with its loss.
_AFTER_LOSS = frozenset({"events_total", "event_last_timestamp_seconds", "event_open"})
# Metrics that exporters derive from a device's presence and the sources' health.
_MADE_HERE = frozenset(
    {"up", "info", "unread", "telemetry_devices", "telemetry_devices_refused"}
    | {name for name in OWN_LABELS if name.startswith(("telemetry_source_", "telemetry_maintenance"))}
)

_OWNER_TEXTS = attrgetter(*(item.name for item in fields(Owner)))
_TEXTS_OF = attrgetter(
    *("vendor", "id", "device", "model", "current_model", "uuid", "bus_id", "serial", "driver", "parent", "partition")
)
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_SUFFIXES = MappingProxyType({"counter": "_total", "info": "_info", "gauge": ""})
_T = TypeVar("_T")


class Fault(enum.Enum):
    """Why something was left out."""

    UNKNOWN = "no metric of that name is in the catalogue"
    DUPLICATE = "given a second time"
    MISLABELLED = "its labels are not those of the metric"
    UNFIT = "not a value that the metric can have"


# What was left out, by source.
_Problems = defaultdict[str, list[Problem]]


def family_name(metric: Metric) -> str:
    """Return the metric's name in OpenMetrics, without `_total` and `_info`."""
    return metric.name.removesuffix(_SUFFIXES[metric.kind])


def usable_metrics(extra: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics of the catalogue by key, and plugins' metrics whose names do not collide with them."""
    metrics = dict(BY_KEY)
    taken = {name for metric in CATALOGUE for name in (metric.name, family_name(metric))}
    for metric in extra.values():
        if _is_well_formed(metric) and not taken.intersection((metric.name, family_name(metric))):
            metrics[metric.key] = metric
            taken.update((metric.name, family_name(metric)))
    return metrics


def _is_well_formed(metric: Metric) -> bool:
    suffixes = tuple(suffix for suffix in ("_total", "_info") if metric.name.endswith(suffix))
    expected = tuple(filter(None, (_SUFFIXES[metric.kind],)))
    label_fits = not metric.label or (_NAME.match(metric.label) and metric.label not in IDENTITY_LABELS)
    return bool(_NAME.match(metric.name) and suffixes == expected and label_fits and metric.scope == "device")


def screen(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS) -> Snapshot:
    """Return the snapshot with clean texts, and with a problem of its source for each unknown, duplicate or invalid reading. Lost devices keep only their events."""
    metrics = usable_metrics(extra)
    of_device, of_host = _Judge("device", metrics), _Judge("host", metrics)
    problems: _Problems = defaultdict(list)
    devices, _ = _unique(map(_clean_device, snapshot.devices), lambda device: device.id)
    sources, again = _unique(map(cleaned, snapshot.sources), lambda source: source.source)
    for source in again:
        _report(problems, source.source, source.source, "telemetry_source_state", Fault.DUPLICATE)
    shown = Snapshot(
        hostname=clean(snapshot.hostname),
        wall_time=snapshot.wall_time,
        monotonic_time=snapshot.monotonic_time,
        valid_until=snapshot.valid_until,
        devices=tuple(_screen_device(device, of_device, problems) for device in devices),
        host=_screen_readings(snapshot.host, "host", of_host, problems),
        sources=tuple(_screen_polls(source, problems) for source in sources),
        own=_screen_samples(map(cleaned, snapshot.own), metrics),
        maintenance=cleaned(snapshot.maintenance),
        recorded=cleaned(snapshot.recorded),
    )
    return _with_problems(shown, problems) if problems else shown


def _report(problems: _Problems, source: str, where: str, name: str, fault: Fault) -> None:
    problems[source].append(Problem(where, f"{name}: {fault.value}, left out"))


def _unique(things: Iterable[_T], key: Callable[[_T], str]) -> tuple[list[_T], list[_T]]:
    """Return the first thing of each key, and the others."""
    every = list(things)
    first: dict[str, _T] = {}
    for thing in every:
        first.setdefault(key(thing), thing)
    return list(first.values()), [thing for thing in every if first[key(thing)] is not thing]


def _name(device: MergedDevice) -> str:
    return f"{device.vendor} {device.device} {device.id}"


def shown_readings(device: MergedDevice) -> Sequence[MergedReading]:
    """Return all readings of a device; of a lost device only those about events."""
    if device.up is not False:
        return device.readings
    return tuple(reading for reading in device.readings if reading.metric in _AFTER_LOSS)


def _clean_device(device: MergedDevice) -> MergedDevice:
    """Return the device with clean texts; its readings are checked later."""
    kept = shown_readings(device)
    if not _is_clean(device):
        return replace(cleaned(replace(device, readings=())), readings=kept)
    return device if kept is device.readings else replace(device, readings=kept)


def _is_clean(device: MergedDevice) -> bool:
    facts = chain.from_iterable(device.facts)
    processes = chain.from_iterable((item.name, item.user, item.command, item.container) for item in device.processes)
    owners = (*(item.owner for item in device.allocations), *(item.owner for item in device.processes if item.owner))
    texts = chain(filter(None, _TEXTS_OF(device)), facts, processes, chain.from_iterable(map(_OWNER_TEXTS, owners)))
    return "".join(texts).isprintable()


def _screen_device(device: MergedDevice, judge: _Judge, problems: _Problems) -> MergedDevice:
    if judge.all_fit(device.readings):
        return device
    return replace(device, readings=_screen_readings(device.readings, _name(device), judge, problems))


def _screen_polls(source: SourceStatus, problems: _Problems) -> SourceStatus:
    polls, again = _unique(source.polls, lambda poll: poll.poll)
    for poll in again:
        _report(problems, poll.source, poll.poll, "telemetry_source_poll_up", Fault.DUPLICATE)
    return replace(source, polls=tuple(polls)) if again else source


class _Judge:
    """Decides which readings of a scope are valid. A metric and label that were valid with a number stay valid."""

    def __init__(self, scope: Scope, metrics: Mapping[str, Metric]) -> None:
        self._scope = scope
        self._metrics = metrics
        self._fit: set[tuple[str, str]] = set()

    def all_fit(self, readings: Sequence[MergedReading]) -> bool:
        """Return whether all readings are valid. This check is fast, because almost always they are."""
        columns = Readings.of(readings)
        total = sum([value for value in columns.values if not isinstance(value, Absent)])
        if len(columns.shape.places) < len(columns) or not math.isfinite(total):
            return False
        return all(self._fits(columns[columns.shape.places[key]]) for key in columns.shape.places.keys() - self._fit)

    def _fits(self, reading: MergedReading) -> bool:
        fits = self.fault(reading) is None and reading.label.isprintable()
        # Here only metric and label decide, because the numbers were checked before.
        if fits and not isinstance(reading.value, Absent) and self._metrics[reading.metric].kind != "info":
            self._fit.add((reading.metric, reading.label))
        return fits

    def fault(self, reading: MergedReading) -> Fault | None:
        """Return what is wrong with a reading, or None."""
        metric = self._metrics.get(reading.metric)
        if metric is None or metric.scope != self._scope or reading.metric in _MADE_HERE:
            return Fault.UNKNOWN
        if isinstance(reading.value, Absent):
            # An absent metric with labels may have no label; a metric without labels must not have one.
            return None if metric.label or not reading.label else Fault.MISLABELLED
        if bool(metric.label) != bool(reading.label):
            return Fault.MISLABELLED
        return _value_fault(metric, reading.value)


def _value_fault(metric: Metric, value: float) -> Fault | None:
    fits = value == 1.0 if metric.kind == "info" else math.isfinite(value)
    return None if fits else Fault.UNFIT


def _screen_readings(
    readings: Iterable[MergedReading], where: str, judge: _Judge, problems: _Problems
) -> tuple[MergedReading, ...]:
    """Return the valid readings, the first of each metric and word."""
    kept: dict[tuple[str, str], MergedReading] = {}
    for reading in map(cleaned, readings):
        key = (reading.metric, reading.label)
        fault = Fault.DUPLICATE if key in kept else judge.fault(reading)
        if fault is None:
            kept[key] = reading
        else:
            _report(problems, reading.source, where, f"{reading.metric} {reading.label}".strip(), fault)
    return tuple(kept.values())


def _screen_samples(samples: Iterable[Sample], metrics: Mapping[str, Metric]) -> tuple[Sample, ...]:
    """Return the daemon's valid samples, the first of each metric and labels."""
    kept: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for sample in samples:
        if _is_valid(sample, metrics.get(sample.metric)):
            kept.setdefault((sample.metric, sample.labels), sample)
    return tuple(kept.values())


def _is_valid(sample: Sample, metric: Metric | None) -> bool:
    if metric is None or metric.scope != "daemon" or sample.metric in _MADE_HERE:
        return False
    names = tuple(name for name, _ in sample.labels)
    return names == OWN_LABELS[sample.metric] and _value_fault(metric, sample.value) is None


def _with_problems(snapshot: Snapshot, problems: _Problems) -> Snapshot:
    """Return the snapshot with these problems in its sources."""
    sources = tuple(
        replace(source, problems=(*source.problems, *problems[source.source])) if source.source in problems else source
        for source in snapshot.sources
    )
    return replace(snapshot, sources=sources)
