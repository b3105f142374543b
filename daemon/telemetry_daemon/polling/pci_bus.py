"""A vendor's devices on the PCI bus: which there are, looked up rarely, and which of them sleep."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from telemetry_daemon.polling.source import PciView
from telemetry_daemon.readers import pci
from telemetry_daemon.readers.pci import PciDevice

# A node may have hundreds of PCI functions, and cards come and go seldom.
SCAN_SECONDS = 60.0
# The few accelerators among them may fall asleep at any time.
LOOK_AGAIN_SECONDS = 5.0


class PciBus:
    """The accelerators on the bus by vendor."""

    def __init__(self, root: Path, monotonic: Callable[[], float]) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._scanned = float("-inf")
        self._looked = float("-inf")
        self._devices: tuple[PciDevice, ...] = ()
        self._views: dict[str, PciView] = {}

    def view(self, vendor: str) -> PciView:
        """The vendor's devices: how many there are, how many sleep, and their addresses."""
        with self._lock:
            self._look()
            return self._views.get(vendor, PciView())

    def counts(self) -> dict[str, int]:
        """How many accelerators of each vendor there are."""
        with self._lock:
            self._look()
            return pci.counts(sorted(self._devices, key=lambda device: device.vendor))

    def _look(self) -> None:
        now = self._monotonic()
        if now - self._scanned >= SCAN_SECONDS:
            self._scanned = now
            self._devices = pci.scan(self._root)
        if now - self._looked >= LOOK_AGAIN_SECONDS:
            self._looked = now
            ours = [device for device in self._devices if not device.given_away]
            asleep = Counter(d.vendor for d in ours if pci.is_suspended(d.bus_id, self._root))
            self._views = {
                vendor: PciView(count, asleep[vendor], tuple(d.bus_id for d in ours if d.vendor == vendor))
                for vendor, count in pci.counts(ours).items()
            }
