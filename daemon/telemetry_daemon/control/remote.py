"""A report from the running daemon's JSON document, for a source whose tool the daemon is using."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Device, Plain, Reading, Report


class NoSuchPartError(Exception):
    """The document has nothing from that source."""


def report_of(document: Mapping[str, Plain], source: str) -> Report:
    """What the daemon read from one source: its devices and the readings that came from it."""
    if document["replay"] is not None:
        raise NoSuchPartError("the daemon plays a recording")
    if not any(item["source"] == source and item["state"] == "ok" for item in document["sources"]):
        raise NoSuchPartError(f"the daemon has no readings of {source} either")
    devices: list[Device] = []
    readings: list[Reading] = []
    for plain in document["devices"]:
        if plain["up"] is not True:
            continue
        device_readings = [
            reading for metric in plain["readings"] for reading in _readings(plain, metric, source, len(devices))
        ]
        if device_readings:
            devices.append(_device(plain))
            readings += device_readings
    return Report(devices=tuple(devices), readings=tuple(readings))


def _device(plain: Mapping[str, Any]) -> Device:
    return Device(
        vendor=plain["vendor"],
        index=plain["index"],
        model=plain["model"],
        uuid=plain["uuid"],
        bus_id=plain["bus_id"],
        partition=plain["partition"],
        serial=plain["serial"],
        driver=plain["driver"],
        simulated=plain["simulated"],
    )


def _readings(plain: Mapping[str, Any], metric: str, source: str, position: int) -> list[Reading]:
    value, origin = plain["readings"][metric], plain["origin"].get(metric)
    labelled = value if isinstance(value, dict) else {"": value}
    return [
        Reading(position, metric, float(number), label)
        for label, number in labelled.items()
        if metric in BY_KEY and (origin.get(label) if isinstance(origin, dict) else origin) == source
    ]
