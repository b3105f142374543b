"""The node and its devices as frozen types, made from the document `telemetry.snapshot/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

_SCHEMA = "telemetry.snapshot/1"
_OTHER_SENSORS = ("memory", "hbm", "stack", "board", "baseboard", "ubb", "vr", "lm75", "inlet", "outlet", "optical")

Reading = float | Mapping[str, float]


@dataclass(frozen=True)
class Device:
    """One device. `readings` has numbers by metric (docs/metrics.md, JSON key), those of a metric with a label by its words.

    `absent` says why there is no number. `up` is None when nobody knows.
    """

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
    # How long before the node's `time` the energy counter was read, where it is read in a poll of its own.
    energy_age_seconds: float | None = field(default=None, repr=False)

    def value(self, metric: str, label: str = "") -> float | None:
        """The number of a metric, with a label the one of that word; None where it was not read."""
        found = self.readings.get(metric)
        if isinstance(found, Mapping):
            return found.get(label)
        return found if not label else None

    @property
    def temperature_celsius(self) -> float | None:
        """The hottest sensor other than memory and board; None where there is none."""
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
    """The node that a document tells. Raises NotUnderstoodError."""
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
        raise NotUnderstoodError(
            f"the document lacks or garbles {error}: install the same release at both ends"
        ) from error


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
    """The same, which nobody can change."""
    return MappingProxyType(
        {name: MappingProxyType(dict(value)) if isinstance(value, Mapping) else value for name, value in table.items()}
    )


class TelemetryError(Exception):
    """Anything that keeps a reading from being made."""


class NotReachableError(TelemetryError):
    """No daemon answers at the given address, or the tools could not be read."""


class NotUnderstoodError(TelemetryError):
    """The answer is not what this version understands: it is of another program, or of an older or newer daemon."""
