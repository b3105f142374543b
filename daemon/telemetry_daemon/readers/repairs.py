"""What changes when the machine is started anew, and when a card is bound anew to its driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.readers.pci import PCI_DEVICES
from telemetry_parsers.text.lines import bus_address

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NOT_BOUND = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """The id of the machine's start, empty where nobody knows it, and the binding of the card at a bus address."""

    boot: str = ""
    binding: Callable[[str], int] = lambda _: NOT_BOUND


def this_machine(boot_id: Path = BOOT_ID, pci_devices: Path = PCI_DEVICES) -> Machine:
    """The machine as the kernel tells of it."""
    try:
        boot = boot_id.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # a container may hide it
        boot = ""
    return Machine(boot, lambda bus_id: _binding(pci_devices, bus_id))


def _binding(pci_devices: Path, bus_id: str) -> int:
    """The number of the link from a card to its driver.

    The kernel makes the link when it binds the two, and gives no number a second time until the next start of the machine. So another number
    means that the driver was loaded anew, or that the card was away from it.
    """
    address = bus_address(bus_id)
    if address is None:  # a plugin may say anything, also a way to a place that hangs
        return NOT_BOUND
    try:
        return (pci_devices / address / "driver").lstat().st_ino
    except OSError:  # no driver has the card, or there is no card at that address
        return NOT_BOUND
