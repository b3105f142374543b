"""Devices that the PCI bus has and a source does not list. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from telemetry_exporters.text import named
from telemetry_parsers.model import Device, Problem

# Where the problem is.
WHERE = "PCI bus"


def unlisted(devices: Iterable[Device], vendor: str, addresses: Sequence[str]) -> Problem | None:
    """The problem of a source that lists fewer of its vendor's devices than the bus has; None if it lists them all.

    `addresses` are those on the bus. The missing ones are named if every listed device has an address of its own.
    """
    whole = [device for device in devices if device.vendor == vendor and device.parent is None]
    listed = {device.bus_id for device in whole if device.bus_id is not None}
    missing = [address for address in addresses if not _is_listed(address, listed)] if len(listed) == len(whole) else []
    count = max(len(missing), len(addresses) - len(whole))
    if count <= 0:
        return None
    names = f" ({named(missing)})" if len(missing) == count else ""
    text = f"{count} of {len(addresses)} devices on the PCI bus {'is' if count == 1 else 'are'} not listed{names}"
    return Problem(WHERE, f"{text}: see the kernel's log, or whether this process may see only some of them")


def _is_listed(address: str, listed: Collection[str]) -> bool:
    """Whether an address is on the list; a tool that knows no PCI domain prints `bb:dd.f` only."""
    return address in listed or address.partition(":")[2] in listed
