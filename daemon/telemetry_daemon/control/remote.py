"""A report from the running daemon's JSON document, for a source whose tool the daemon is using."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_daemon.nodes.document import snapshot_of
from telemetry_daemon.nodes.plain import DocumentError
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Device, MergedDevice, Plain, Reading, Report


class NoSuchPartError(Exception):
    """The document has nothing from that source."""


def report_of(document: Mapping[str, Plain], source: str) -> Report:
    """Return what the daemon read from one source: its devices and the readings that came from it. Raises NoSuchPartError."""
    try:
        snapshot = snapshot_of(document)
    except DocumentError as error:
        raise NoSuchPartError(f"the daemon's document is not understood: {error}") from None
    if snapshot.recorded is not None:
        raise NoSuchPartError("the daemon plays a recording")
    if not any(status.source == source and status.state == "ok" for status in snapshot.sources):
        raise NoSuchPartError(f"the daemon has no readings of {source} either")
    devices: list[Device] = []
    readings: list[Reading] = []
    for merged in snapshot.devices:
        of_source = [
            Reading(len(devices), reading.metric, reading.value, reading.label)
            for reading in merged.readings
            if reading.source == source and reading.metric in BY_KEY and not isinstance(reading.value, Absent)
        ]
        if merged.up and of_source:
            devices.append(_device(merged))
            readings += of_source
    return Report(devices=tuple(devices), readings=tuple(readings))


def _device(merged: MergedDevice) -> Device:
    return Device(
        vendor=merged.vendor,
        index=merged.index,
        model=merged.model,
        uuid=merged.uuid,
        bus_id=merged.bus_id,
        partition=merged.partition,
        serial=merged.serial,
        driver=merged.driver,
        simulated=merged.simulated,
    )
