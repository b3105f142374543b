"""Frozen types for a node and its devices, created from the document `telemetry.snapshot/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from telemetry_daemon.terminal.suggestions import suggest_or_list
from telemetry_parsers.metrics import BY_KEY, OTHER_SENSORS

_SCHEMA = "telemetry.snapshot/1"
_REMEDY = "install the same release on both nodes"

Reading = float | Mapping[str, float]
_DEVICE_KEYS = frozenset(key for key, metric in BY_KEY.items() if metric.scope == "device")


@dataclass(frozen=True)
class Device:
    """A card or a part of a card. `readings` maps metrics to values, and `absent` maps absent metrics to reasons."""

    vendor: str
    index: int | None
    id: str
    device: str
    model: str
    uuid: str | None
    bus_id: str | None
    up: bool | None  # False if lost, None if unknown
    parent: str | None  # the `device` of the card that contains this part
    readings: Mapping[str, Reading] = field(repr=False)
    absent: Mapping[str, str | Mapping[str, str]] = field(repr=False)
    # The age of the energy counter at the time `Node.time`, or None if no separate poll reads the counter.
    energy_age_seconds: float | None = field(default=None, repr=False)

    def value(self, metric: str, label: str = "") -> float | None:
        """Return the value of a metric, or None if absent. Raise UnknownNameError for an unknown metric or label."""
        reading = self.readings.get(metric)
        if isinstance(reading, Mapping) if label else isinstance(reading, float | int):
            return reading.get(label) if isinstance(reading, Mapping) else reading
        self._raise_if_unknown(metric, label)
        return None

    def _raise_if_unknown(self, metric: str, label: str) -> None:
        reading, reason = self.readings.get(metric), self.absent.get(metric)
        spec = BY_KEY.get(metric)
        if spec is None and reading is None and reason is None:
            hint = suggest_or_list(metric.removeprefix("accelerator_"), {*_DEVICE_KEYS, *self.readings})
            raise UnknownNameError(f"unknown metric {metric!r}{hint or '; docs/metrics.md has all JSON keys'}")
        labels = {label for by_label in (reading, reason) if isinstance(by_label, Mapping) for label in by_label}
        is_labelled = bool(labels) or (spec is not None and reading is None and bool(spec.label))
        if is_labelled and not label:
            example = min(labels, default=spec.words[0] if spec is not None and spec.words else "LABEL")
            raise UnknownNameError(
                f"{metric} needs a label{f' ({spec.label})' if spec is not None else ''}, as in value({metric!r}, {example!r}); "
                f"reported labels: {', '.join(sorted(labels)) or 'none'}"
            )
        if label and not is_labelled and (reading is not None or spec is not None):
            raise UnknownNameError(f"{metric} has no label {label!r}; call value({metric!r})")

    @property
    def temperature_celsius(self) -> float | None:
        """Return the highest temperature of all sensors except memory and board sensors."""
        sensors = self.readings.get("temperature_celsius")
        if not isinstance(sensors, Mapping):
            return None
        return max((value for name, value in sensors.items() if not name.startswith(OTHER_SENSORS)), default=None)


@dataclass(frozen=True)
class Source:
    """A tool or library with its state, such as `ok`, `failed`, `stuck` or `missing`."""

    source: str
    state: str
    reason: str | None


@dataclass(frozen=True)
class Node:
    """A node with its devices and sources at one time."""

    hostname: str
    time: datetime
    devices: tuple[Device, ...]
    sources: tuple[Source, ...]


def node_of(document: Any) -> Node:
    """Return the node that a snapshot document describes. Raise NotUnderstoodError if the document is invalid."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != _SCHEMA:
        difference = f"has the schema {schema}, not {_SCHEMA}" if schema else "is not a telemetry document"
        raise NotUnderstoodError(f"the response {difference}: {_REMEDY}")
    try:
        counter_ages_by_source = _counter_ages_by_source(document["sources"])
        return Node(
            hostname=str(document["hostname"]),
            time=datetime.fromisoformat(document["time"].replace("Z", "+00:00")),
            devices=tuple(_parse_device(entry, counter_ages_by_source) for entry in document["devices"]),
            sources=tuple(Source(entry["source"], entry["state"], entry["reason"]) for entry in document["sources"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotUnderstoodError(f"the document has no valid {error}: {_REMEDY}") from error


def _counter_ages_by_source(sources: list[Mapping[str, Any]]) -> Mapping[str, float]:
    polls = ((source["source"], poll) for source in sources for poll in source["polls"])
    return {
        source: poll["age_seconds"]
        for source, poll in polls
        if poll["poll"] == "counters" and poll["age_seconds"] is not None
    }


def _parse_device(entry: Mapping[str, Any], counter_ages_by_source: Mapping[str, float]) -> Device:
    attributes = ("vendor", "index", "id", "device", "model", "uuid", "bus_id", "up", "parent")
    return Device(
        **{name: entry[name] for name in attributes},
        readings=_read_only_copy(entry["readings"]),
        absent=_read_only_copy(entry["absent"]),
        energy_age_seconds=counter_ages_by_source.get(entry["origin"].get("energy_joules_total")),
    )


def _read_only_copy(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(
        {name: MappingProxyType(dict(value)) if isinstance(value, Mapping) else value for name, value in table.items()}
    )


class TelemetryError(Exception):
    """The devices could not be read."""


class UnknownNameError(TelemetryError, KeyError):
    """No metric, label, section or device has this name."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return str(self.args[0])


class NotReachableError(TelemetryError):
    """No daemon answers at the given address, or the tools of this node return no result."""


class NotUnderstoodError(TelemetryError):
    """The response is not a valid document of this release."""
