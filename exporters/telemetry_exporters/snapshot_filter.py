"""Removes unknown metrics, duplicates and invalid values from a snapshot."""

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

from telemetry_exporters.text import clean, deep_clean
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
Metrics = Mapping[str, Metric]
NO_METRICS: Metrics = {}
# The daemon itself counts events, so event metrics stay valid for a lost device.
_METRICS_OF_LOST_DEVICES = frozenset({"events_total", "event_last_timestamp_seconds", "event_open"})
# Exporters compute these metrics, so parsers must not report them.
_DERIVED_METRICS = frozenset(
    {"up", "info", "unread", "telemetry_devices", "telemetry_devices_refused"}
    | {name for name in OWN_LABELS if name.startswith(("telemetry_source_", "telemetry_maintenance"))}
)

_get_owner_texts = attrgetter(*(item.name for item in fields(Owner)))
_get_process_texts = attrgetter("name", "user", "command", "container")
_get_device_texts = attrgetter(
    *("vendor", "id", "device", "model", "current_model", "uuid", "bus_id", "serial", "driver", "parent", "partition")
)
_matches_name = re.compile(r"[a-z][a-z0-9_]*\Z").match
_SUFFIXES = MappingProxyType({"counter": "_total", "info": "_info", "gauge": ""})
_T = TypeVar("_T")


class Fault(enum.Enum):
    """The reason why a metric, reading or sample is omitted."""

    UNKNOWN = "the catalogue contains no metric with this name"
    DUPLICATE = "duplicate"
    MISLABELLED = "the label does not match the metric"
    INVALID = "the value is invalid for the metric"


# Maps each source to the problems of its omitted readings.
_Problems = defaultdict[str, list[Problem]]


def family_name(metric: Metric) -> str:
    """Return the name of the metric's OpenMetrics family, which omits `_total` and `_info`."""
    return metric.name.removesuffix(_SUFFIXES[metric.kind])


def usable_metrics(plugin_metrics: Metrics) -> dict[str, Metric]:
    """Map keys to metrics: those of the catalogue, and well-formed plugin metrics whose names are not used yet."""
    metrics = dict(BY_KEY)
    used_names = {name for metric in CATALOGUE for name in (metric.name, family_name(metric))}
    for metric in plugin_metrics.values():
        if _is_well_formed(metric) and not used_names.intersection((metric.name, family_name(metric))):
            metrics[metric.key] = metric
            used_names.update((metric.name, family_name(metric)))
    return metrics


def _is_well_formed(metric: Metric) -> bool:
    suffixes = tuple(suffix for suffix in ("_total", "_info") if metric.name.endswith(suffix))
    has_valid_suffix = suffixes == tuple(filter(None, (_SUFFIXES[metric.kind],)))
    has_valid_label = not metric.label or (_matches_name(metric.label) and metric.label not in IDENTITY_LABELS)
    return bool(_matches_name(metric.name) and has_valid_suffix and has_valid_label and metric.scope == "device")


def clean_snapshot(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS) -> Snapshot:
    """Return the snapshot with printable strings and without invalid readings, which are reported as problems."""
    metrics = usable_metrics(plugin_metrics)
    device_validator, host_validator = _Validator("device", metrics), _Validator("host", metrics)
    problems: _Problems = defaultdict(list)
    devices, _ = _split_duplicates(map(_clean_device, snapshot.devices), lambda device: device.id)
    sources, duplicates = _split_duplicates(map(deep_clean, snapshot.sources), lambda status: status.source)
    for status in duplicates:
        _add_problem(problems, status.source, status.source, "telemetry_source_state", Fault.DUPLICATE)
    snapshot = Snapshot(
        hostname=clean(snapshot.hostname),
        wall_time=snapshot.wall_time,
        monotonic_time=snapshot.monotonic_time,
        valid_until=snapshot.valid_until,
        devices=tuple(_with_valid_readings(device, device_validator, problems) for device in devices),
        host=_valid_readings(snapshot.host, "host", host_validator, problems),
        sources=tuple(_with_unique_polls(status, problems) for status in sources),
        daemon_samples=_valid_samples(map(deep_clean, snapshot.daemon_samples), metrics),
        maintenance=deep_clean(snapshot.maintenance),
        recorded=deep_clean(snapshot.recorded),
    )
    return _with_problems(snapshot, problems) if problems else snapshot


def _add_problem(problems: _Problems, source: str, where: str, name: str, fault: Fault) -> None:
    problems[source].append(Problem(where, f"{name}: {fault.value}; omitted"))


def _split_duplicates(items: Iterable[_T], key: Callable[[_T], str]) -> tuple[list[_T], list[_T]]:
    """Return the first item with each key, and all later items with the same keys."""
    all_items = list(items)
    first_by_key: dict[str, _T] = {}
    for item in all_items:
        first_by_key.setdefault(key(item), item)
    return list(first_by_key.values()), [item for item in all_items if first_by_key[key(item)] is not item]


def _device_name(device: MergedDevice) -> str:
    return f"{device.vendor} {device.device} {device.id}"


def shown_readings(device: MergedDevice) -> Sequence[MergedReading]:
    """Return the readings of a device, or only its event readings if it is lost."""
    if device.up is not False:
        return device.readings
    return tuple(reading for reading in device.readings if reading.metric in _METRICS_OF_LOST_DEVICES)


def _clean_device(device: MergedDevice) -> MergedDevice:
    """Return the device with printable strings. A lost device keeps only its event readings. Labels are not cleaned."""
    readings = shown_readings(device)
    if not _is_printable(device):
        return replace(deep_clean(replace(device, readings=())), readings=readings)
    return device if readings is device.readings else replace(device, readings=readings)


def _is_printable(device: MergedDevice) -> bool:
    fact_texts = chain.from_iterable(device.facts)
    process_texts = chain.from_iterable(map(_get_process_texts, device.processes))
    owners = (*(item.owner for item in device.allocations), *(item.owner for item in device.processes if item.owner))
    owner_texts = chain.from_iterable(map(_get_owner_texts, owners))
    texts = chain(filter(None, _get_device_texts(device)), fact_texts, process_texts, owner_texts)
    return "".join(texts).isprintable()


def _with_valid_readings(device: MergedDevice, validator: _Validator, problems: _Problems) -> MergedDevice:
    if validator.are_valid(device.readings):
        return device
    return replace(device, readings=_valid_readings(device.readings, _device_name(device), validator, problems))


def _with_unique_polls(source: SourceStatus, problems: _Problems) -> SourceStatus:
    polls, duplicates = _split_duplicates(source.polls, lambda health: health.poll)
    for health in duplicates:
        _add_problem(problems, health.source, health.poll, "telemetry_source_poll_up", Fault.DUPLICATE)
    return replace(source, polls=tuple(polls)) if duplicates else source


class _Validator:
    """Checks readings of devices or of the host, and caches the keys of valid readings."""

    def __init__(self, scope: Scope, metrics: Metrics) -> None:
        self._scope = scope
        self._metrics = metrics
        self._valid_keys: set[tuple[str, str]] = set()

    def are_valid(self, readings: Sequence[MergedReading]) -> bool:
        """Return whether all readings are valid."""
        columns = Readings.of(readings)
        indices = columns.shape.indices
        numbers = [value for value in columns.values if not isinstance(value, Absent)]
        if len(indices) < len(columns) or not math.isfinite(sum(numbers)):  # duplicates, or an invalid number
            return False
        return all(self._is_valid(columns[indices[key]]) for key in indices.keys() - self._valid_keys)

    def _is_valid(self, reading: MergedReading) -> bool:
        is_valid = self.find_fault(reading) is None and reading.label.isprintable()
        # Info metrics are not cached, because they must be 1: for cached keys, only finiteness is checked.
        if is_valid and not isinstance(reading.value, Absent) and self._metrics[reading.metric].kind != "info":
            self._valid_keys.add((reading.metric, reading.label))
        return is_valid

    def find_fault(self, reading: MergedReading) -> Fault | None:
        """Return why a reading is invalid, or None if it is valid."""
        metric = self._metrics.get(reading.metric)
        if metric is None or metric.scope != self._scope or reading.metric in _DERIVED_METRICS:
            return Fault.UNKNOWN
        if isinstance(reading.value, Absent):
            # An absent reading may have no label, even if its metric has one.
            return None if metric.label or not reading.label else Fault.MISLABELLED
        if bool(metric.label) != bool(reading.label):
            return Fault.MISLABELLED
        return _find_value_fault(metric, reading.value)


def _find_value_fault(metric: Metric, value: float) -> Fault | None:
    is_valid = value == 1.0 if metric.kind == "info" else math.isfinite(value)
    return None if is_valid else Fault.INVALID


def _valid_readings(
    readings: Iterable[MergedReading], where: str, validator: _Validator, problems: _Problems
) -> tuple[MergedReading, ...]:
    """Return the valid readings, and add a problem for each invalid reading."""
    valid: dict[tuple[str, str], MergedReading] = {}
    for reading in map(deep_clean, readings):
        key = (reading.metric, reading.label)
        fault = Fault.DUPLICATE if key in valid else validator.find_fault(reading)
        if fault is None:
            valid[key] = reading
        else:
            _add_problem(problems, reading.source, where, f"{reading.metric} {reading.label}".strip(), fault)
    return tuple(valid.values())


def _valid_samples(samples: Iterable[Sample], metrics: Metrics) -> tuple[Sample, ...]:
    valid: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for sample in samples:
        if _is_valid_sample(sample, metrics.get(sample.metric)):
            valid.setdefault((sample.metric, sample.labels), sample)
    return tuple(valid.values())


def _is_valid_sample(sample: Sample, metric: Metric | None) -> bool:
    if metric is None or metric.scope != "daemon" or sample.metric in _DERIVED_METRICS:
        return False
    names = tuple(name for name, _ in sample.labels)
    return names == OWN_LABELS[sample.metric] and _find_value_fault(metric, sample.value) is None


def _with_problems(snapshot: Snapshot, problems: _Problems) -> Snapshot:
    sources = tuple(
        replace(status, problems=(*status.problems, *problems[status.source])) if status.source in problems else status
        for status in snapshot.sources
    )
    return replace(snapshot, sources=sources)
