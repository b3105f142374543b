"""Who the devices in a library's answers are: whole ones, and instances cut from them."""

from __future__ import annotations

from telemetry_parsers.library_answers.plain import text, whole
from telemetry_parsers.model import Device, Plain
from telemetry_parsers.text.lines import bus_address

_Facts = tuple[tuple[str, str], ...]


def device_in(recorded: dict[str, Plain], vendor: str, driver: Plain, facts: _Facts) -> Device:
    """A whole device; one that does not answer any more is down."""
    return Device(
        vendor=vendor,
        index=whole(recorded.get("index")),
        model=text(recorded.get("name")),
        uuid=text(recorded.get("uuid")),
        bus_id=_bus_id(recorded),
        serial=text(recorded.get("serial")),
        driver=text(driver),
        up="lost" not in recorded,
        facts=facts,
    )


def instance_in(recorded: dict[str, Plain], parent: Device, position: int, facts: _Facts) -> Device | None:
    """An instance of the device at that position; None for one without a number."""
    index = whole(recorded.get("index"))
    if index is None:
        return None
    return Device(
        vendor=parent.vendor,
        index=parent.index,
        model=text(recorded.get("name")),
        uuid=text(recorded.get("uuid")),
        bus_id=_bus_id(recorded) or parent.bus_id,
        partition=str(index),
        parent=position,
        driver=parent.driver,
        up=parent.up,
        facts=facts,
    )


def _bus_id(recorded: dict[str, Plain]) -> str | None:
    return bus_address(text(recorded.get("bus_id")) or "")
