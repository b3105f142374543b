"""Counts each vendor's accelerators on the PCI bus, and finds those that no source lists."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from telemetry_daemon.readers import pci
from telemetry_daemon.readers.pci import PciDevice
from telemetry_exporters.text import first_names
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Device, Problem

# Scans are rare, because a node may have hundreds of PCI functions.
SCAN_SECONDS = 60.0
# Suspended cards are checked often, because suspension may change at any time.
REFRESH_SECONDS = 5.0
# The value of `Problem.where` if a source lists fewer devices than the PCI bus has.
PCI_BUS = "PCI bus"


@dataclass(frozen=True, slots=True)
class PciView:
    """One vendor's devices on the PCI bus. Passed-through devices are not included."""

    count: int = 0
    suspended_count: int = 0
    addresses: tuple[str, ...] = ()


class PciBus:
    """The accelerators on the PCI bus by vendor, cached for a few seconds."""

    def __init__(self, root: Path, monotonic: Callable[[], float]) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._scanned_at = float("-inf")
        self._refreshed_at = float("-inf")
        self._devices: tuple[PciDevice, ...] = ()
        self._views: dict[str, PciView] = {}

    def view(self, vendor: str) -> PciView:
        """Return the vendor's devices, or an empty view if the bus has none."""
        with self._lock:
            self._refresh()
            return self._views.get(vendor, PciView())

    def count_by_vendor(self) -> dict[str, int]:
        """Count each vendor's accelerators."""
        with self._lock:
            self._refresh()
            return pci.count_by_vendor(sorted(self._devices, key=lambda device: device.vendor))

    def _refresh(self) -> None:
        now = self._monotonic()
        if now - self._scanned_at >= SCAN_SECONDS:
            self._scanned_at = now
            self._devices = pci.find_accelerators(self._root)
        if now - self._refreshed_at >= REFRESH_SECONDS:
            self._refreshed_at = now
            devices = [device for device in self._devices if not device.is_passed_through]
            suspended = Counter(device.vendor for device in devices if pci.is_suspended(device.bus_id, self._root))
            self._views = {}
            for vendor, count in pci.count_by_vendor(devices).items():
                addresses = tuple(device.bus_id for device in devices if device.vendor == vendor)
                self._views[vendor] = PciView(count, suspended[vendor], addresses)


def unlisted_devices_problem(devices: Iterable[Device], vendor: str, addresses: Sequence[str]) -> Problem | None:
    """Return a problem if devices on the PCI bus are missing from `devices`."""
    cards = [device for device in devices if device.vendor == vendor and device.parent is None]
    listed = {device.bus_id for device in cards if device.bus_id is not None}
    missing = [address for address in addresses if not _is_listed(address, listed)] if len(listed) == len(cards) else []
    count = max(len(missing), len(addresses) - len(cards))
    if count <= 0:
        return None
    names = f" ({first_names(missing)})" if len(missing) == count else ""
    text = f"{count} of {len(addresses)} devices on the PCI bus {'is' if count == 1 else 'are'} not listed{names}"
    return Problem(PCI_BUS, f"{text}: check the kernel log, and whether this process may access all devices")


def _is_listed(address: str, listed: Collection[str]) -> bool:
    """Return whether an address is listed, with or without its PCI domain."""
    return address in listed or address.partition(":")[2] in listed
