"""The devices on the PCI bus by vendor: all (read rarely), the suspended, and those missing from a source's list."""

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

# A node may have hundreds of PCI functions, and cards rarely appear or disappear.
SCAN_SECONDS = 60.0
# The few accelerators may be suspended at any time.
LOOK_AGAIN_SECONDS = 5.0
# The `where` of the problem.
WHERE = "PCI bus"


@dataclass(frozen=True, slots=True)
class PciView:
    """One vendor's devices on the PCI bus, without those that were passed to virtual machines."""

    count: int = 0
    suspended: int = 0
    addresses: tuple[str, ...] = ()


class PciBus:
    """The accelerators on the bus by vendor."""

    def __init__(self, root: Path, monotonic: Callable[[], float]) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._scanned_at = float("-inf")
        self._refreshed_at = float("-inf")
        self._devices: tuple[PciDevice, ...] = ()
        self._views: dict[str, PciView] = {}

    def view(self, vendor: str) -> PciView:
        """Return the vendor's devices: their number, the number of suspended devices, and the addresses."""
        with self._lock:
            self._refresh()
            return self._views.get(vendor, PciView())

    def counts(self) -> dict[str, int]:
        """Return the number of accelerators of each vendor."""
        with self._lock:
            self._refresh()
            return pci.counts(sorted(self._devices, key=lambda device: device.vendor))

    def _refresh(self) -> None:
        now = self._monotonic()
        if now - self._scanned_at >= SCAN_SECONDS:
            self._scanned_at = now
            self._devices = pci.scan(self._root)
        if now - self._refreshed_at >= LOOK_AGAIN_SECONDS:
            self._refreshed_at = now
            usable = [device for device in self._devices if not device.given_away]
            suspended = Counter(d.vendor for d in usable if pci.is_suspended(d.bus_id, self._root))
            self._views = {
                vendor: PciView(count, suspended[vendor], tuple(d.bus_id for d in usable if d.vendor == vendor))
                for vendor, count in pci.counts(usable).items()
            }


def unlisted(devices: Iterable[Device], vendor: str, addresses: Sequence[str]) -> Problem | None:
    """Return a problem with the missing devices if a source lists fewer devices than the PCI bus has, else None."""
    whole = [device for device in devices if device.vendor == vendor and device.parent is None]
    listed = {device.bus_id for device in whole if device.bus_id is not None}
    missing = [address for address in addresses if not _is_listed(address, listed)] if len(listed) == len(whole) else []
    count = max(len(missing), len(addresses) - len(whole))
    if count <= 0:
        return None
    names = f" ({first_names(missing)})" if len(missing) == count else ""
    text = f"{count} of {len(addresses)} devices on the PCI bus {'is' if count == 1 else 'are'} not listed{names}"
    return Problem(WHERE, f"{text}: see the kernel's log, or whether this process may see only some of them")


def _is_listed(address: str, listed: Collection[str]) -> bool:
    """Return whether an address is on the list; a tool without PCI domains prints `bb:dd.f` only."""
    return address in listed or address.partition(":")[2] in listed
