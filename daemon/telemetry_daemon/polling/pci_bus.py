"""What the PCI bus says of a vendor's devices, looked at anew every few seconds at most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from telemetry_daemon.polling.source import PciView
from telemetry_daemon.readers import pci

LOOK_AGAIN_SECONDS = 5.0


class PciBus:
    """The accelerators on the bus by vendor."""

    def __init__(self, root: Path, monotonic: Callable[[], float]) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._views: dict[str, PciView] = {}

    def view(self, vendor: str) -> PciView:
        """How many devices of the vendor there are, and how many of them sleep."""
        with self._lock:
            self._look()
            return self._views.get(vendor, PciView())

    def counts(self) -> dict[str, int]:
        """How many accelerators of each vendor there are."""
        with self._lock:
            self._look()
            return {vendor: view.count for vendor, view in sorted(self._views.items())}

    def _look(self) -> None:
        now = self._monotonic()
        if now - self._looked < LOOK_AGAIN_SECONDS:
            return
        devices = pci.scan(self._root)
        asleep = [device.vendor for device in devices if device.suspended]
        self._views = {vendor: PciView(count, asleep.count(vendor)) for vendor, count in pci.counts(devices).items()}
        self._looked = now
