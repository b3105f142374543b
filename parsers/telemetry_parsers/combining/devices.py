"""What two reports say of one device: whether their uuids and addresses can be compared, and what both say together."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.model import Device, Identity

_PLACEHOLDER_CHARACTERS = frozenset("0xfn/a- ")


def canonical_uuid(text: str | None) -> str | None:
    """A uuid in the form in which sources can be compared, None for a placeholder."""
    if text is None:
        return None
    bare = text.strip().lower().removeprefix("gpu-").removeprefix("0x")
    if set(bare) <= _PLACEHOLDER_CHARACTERS or len(bare) < 4:
        return None
    return bare


def differ(first: str | None, second: str | None) -> bool:
    """Whether two uuids name two devices; a placeholder names none."""
    old, new = canonical_uuid(first), canonical_uuid(second)
    return old is not None and new is not None and old != new


def name_of(device: Device) -> str:
    """How a problem names a device: `amd 0000:c1:00.0`."""
    return f"{device.vendor} {device.bus_id or device.uuid or device.index}"


def combine(first: Device, second: Device) -> Device:
    """The first device with what only the second knows filled in."""
    facts = first.facts
    if second.facts:
        facts = tuple(sorted({**dict(second.facts), **dict(first.facts)}.items()))
    bus_id = first.bus_id
    if bus_id is None or (second.bus_id is not None and second.bus_id.endswith(bus_id)):
        bus_id = second.bus_id or bus_id
    return Device(
        vendor=first.vendor,
        index=second.index if first.index is None else first.index,
        model=first.model or second.model,
        uuid=first.uuid or second.uuid,
        bus_id=bus_id,
        partition=second.partition if first.partition is None else first.partition,
        parent=first.parent,
        serial=first.serial or second.serial,
        driver=first.driver or second.driver,
        up=first.up or second.up,
        simulated=first.simulated or second.simulated,
        facts=facts,
    )


def has_address_or_uuid(device: Device | Identity) -> bool:
    """Whether more than a number is known of it: an address, or a uuid that is no placeholder."""
    return bool(device.bus_id) or canonical_uuid(device.uuid) is not None


def slot_of(bus_id: str, partition: str | None) -> str:
    """The address to compare by: a partition's without its function, in which AMD's tools count and sysfs does not."""
    return bus_id if partition is None else bus_id.rpartition(".")[0]


def without_domain(slot: str) -> str:
    """The address without its PCI domain, which some tools leave out."""
    return ":".join(slot.split(":")[-2:])


def same_slot(first: str, second: str) -> bool:
    """Whether two addresses can be the same, if one of them lacks the PCI domain."""
    return first == second or first.endswith(":" + second) or second.endswith(":" + first)


def repeats_an_index(devices: Sequence[Device]) -> bool:
    """Whether several devices have one number, such as a card and its partitions."""
    indices = [device.index for device in devices if device.index is not None]
    return len(set(indices)) < len(indices)
