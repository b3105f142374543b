"""The node and its devices as frozen types, made from the document `telemetry.snapshot/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from telemetry_daemon.terminal.suggestions import nearest_or_all
from telemetry_parsers.metrics import BY_KEY

_SCHEMA = "telemetry.snapshot/1"
_OTHER_SENSORS = ("memory", "hbm", "stack", "board", "baseboard", "ubb", "vr", "lm75", "inlet", "outlet", "optical")

Reading = float | Mapping[str, float]
_DEVICE_KEYS = frozenset(key for key, metric in BY_KEY.items() if metric.scope == "device")


@dataclass(frozen=True)
class Device:
    """One device. `readings` has numbers by metric, or by label value; `absent` the reasons for missing numbers; `up` is None if unknown."""

    vendor: str
    index: int | None
    id: str
    device: str
    model: str
    uuid: str | None
    bus_id: str | None
    up: bool | None
    parent: str | None
    readings: Mapping[str, Reading] = field(repr=False)
    absent: Mapping[str, str | Mapping[str, str]] = field(repr=False)
    # How long before the node's `time` the energy counter was read, if a separate poll reads it.
    energy_age_seconds: float | None = field(default=None, repr=False)

    def value(self, metric: str, label: str = "") -> float | None:
        """Return a metric's number, with a label that of its value, or None if it was not read. Raises UnknownNameError for a wrong metric or label."""
        found = self.readings.get(metric)
        if isinstance(found, Mapping) if label else isinstance(found, float | int):
            return found.get(label) if isinstance(found, Mapping) else found
        self._check(metric, label)
        return None

    def _check(self, metric: str, label: str) -> None:
        """Raise UnknownNameError unless the metric exists, and has a label if and only if this is not empty."""
        read, absent = self.readings.get(metric), self.absent.get(metric)
        listed = BY_KEY.get(metric)
        if listed is None and read is None and absent is None:
            near = nearest_or_all(metric.removeprefix("accelerator_"), {*_DEVICE_KEYS, *self.readings})
            raise UnknownNameError(f"no metric is called {metric!r}{near or '; docs/metrics.md lists them (JSON key)'}")
        words = {*(read if isinstance(read, Mapping) else ()), *(absent if isinstance(absent, Mapping) else ())}
        is_labelled = bool(words) or (listed is not None and read is None and bool(listed.label))
        if is_labelled and not label:
            example = min(words, default=listed.words[0] if listed is not None and listed.words else "LABEL")
            raise UnknownNameError(
                f"{metric} has a number for each {listed.label if listed is not None else 'label'}, "
                f"so name one: value({metric!r}, {example!r}); reported: {', '.join(sorted(words)) or 'none'}"
            )
        if label and not is_labelled and (read is not None or listed is not None):
            raise UnknownNameError(f"{metric} has no labels such as {label!r}: ask value({metric!r})")

    @property
    def temperature_celsius(self) -> float | None:
        """Return the highest temperature of the sensors other than memory and board, or None."""
        sensors = self.readings.get("temperature_celsius")
        if not isinstance(sensors, Mapping):
            return None
        return max((value for name, value in sensors.items() if not name.startswith(_OTHER_SENSORS)), default=None)


@dataclass(frozen=True)
class Source:
    """A tool or library that readings come from, and its state: `ok`, `failed`, `stuck`, `missing` …"""

    source: str
    state: str
    reason: str | None


@dataclass(frozen=True)
class Node:
    """A node at one moment."""

    hostname: str
    time: datetime
    devices: tuple[Device, ...]
    sources: tuple[Source, ...]


def node_of(document: Any) -> Node:
    """Return the node in a document. Raises NotUnderstoodError."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != _SCHEMA:
        raise NotUnderstoodError(
            f"the answer is {schema or 'no document of telemetry'}, not {_SCHEMA}: install the same release at both ends"
        )
    try:
        return Node(
            hostname=str(document["hostname"]),
            time=datetime.fromisoformat(document["time"].replace("Z", "+00:00")),
            devices=tuple(map(partial(_device, _counter_ages(document["sources"])), document["devices"])),
            sources=tuple(Source(one["source"], one["state"], one["reason"]) for one in document["sources"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotUnderstoodError(f"the document has no valid {error}: install the same release at both ends") from error


def _counter_ages(sources: list[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return how long ago each source that reads counters in a poll of their own has read them."""
    polls = ((source["source"], poll) for source in sources for poll in source["polls"])
    return {
        source: poll["age_seconds"]
        for source, poll in polls
        if poll["poll"] == "counters" and poll["age_seconds"] is not None
    }


def _device(counter_ages: Mapping[str, float], plain: Mapping[str, Any]) -> Device:
    known = ("vendor", "index", "id", "device", "model", "uuid", "bus_id", "up", "parent")
    return Device(
        **{name: plain[name] for name in known},
        readings=_frozen(plain["readings"]),
        absent=_frozen(plain["absent"]),
        energy_age_seconds=counter_ages.get(plain["origin"].get("energy_joules_total")),
    )


def _frozen(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(
        {name: MappingProxyType(dict(value)) if isinstance(value, Mapping) else value for name, value in table.items()}
    )


class TelemetryError(Exception):
    """Anything that keeps a reading from being made."""


class UnknownNameError(TelemetryError, KeyError):
    """No metric, label, stretch or device has the name; the message suggests the one that was meant."""

    def __str__(self) -> str:
        """Return the message without the quotes that a KeyError puts around it."""
        return str(self.args[0])


class NotReachableError(TelemetryError):
    """No daemon answers at the given address, or the tools could not be read."""


class NotUnderstoodError(TelemetryError):
    """The answer is not understood: it is of another program, or of an older or newer daemon."""
