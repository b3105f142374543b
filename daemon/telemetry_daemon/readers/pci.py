"""Which accelerators the PCI bus has, which of them sleep, and whether the machine or a card's driver started again; nothing here wakes a card or blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from telemetry_parsers.text.lines import bus_address
from telemetry_parsers.vendors import VENDORS

PCI_DEVICES = Path("/sys/bus/pci/devices")

# The drivers that only hold devices for virtual machines.
_FOR_GUESTS = frozenset({"vfio-pci", "pci-stub", "pciback", "xen-pciback"})
_BY_ID = {vendor.pci.vendor_id: vendor for vendor in VENDORS}
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NOT_BOUND = 0


@dataclass(frozen=True, slots=True)
class PciDevice:
    """An accelerator on the bus; `suspended` is None where the kernel doesn't say, `driver` is empty where none is bound."""

    bus_id: str
    vendor: str
    class_code: int
    suspended: bool | None
    driver: str = ""

    @property
    def given_away(self) -> bool:
        """Whether it belongs to a virtual machine, so that no tool of this host lists it."""
        return self.driver in _FOR_GUESTS or self.driver.endswith(("-vfio-pci", "_vfio_pci"))


def scan(root: Path = PCI_DEVICES) -> tuple[PciDevice, ...]:
    """The accelerators below `root`, by bus address; none where there is no PCI bus.

    Virtual functions count in a guest, where they are what there is, not beside the physical one that they are part of.
    """
    try:
        folders = sorted(root.iterdir())
    except OSError:  # no PCI bus, as on some boards
        return ()
    found = (_device(folder) for folder in folders)
    return tuple(device for device in found if device is not None)


def counts(devices: Iterable[PciDevice]) -> dict[str, int]:
    """How many accelerators of each vendor there are; a vendor without any is left out."""
    return dict(Counter(device.vendor for device in devices))


def is_suspended(bus_id: str, root: Path = PCI_DEVICES) -> bool | None:
    """Whether the device at that address sleeps, None where the kernel does not say."""
    return _is_suspended(root / bus_id)


def _device(folder: Path) -> PciDevice | None:
    vendor = _BY_ID.get(_hexadecimal(folder / "vendor"))
    if vendor is None:
        return None
    pci = vendor.pci
    class_code = _hexadecimal(folder / "class")
    if class_code >> 16 not in pci.classes and class_code >> 8 not in pci.classes:
        return None
    bus_id = folder.name.lower()
    if (folder / "physfn").exists() or (pci.behind_bridge and ":00:" in bus_id):
        return None
    if pci.but_not and _hexadecimal(folder / "device") in pci.but_not:
        return None
    return PciDevice(bus_id, vendor.word, class_code, _is_suspended(folder), _driver(folder))


def _is_suspended(folder: Path) -> bool | None:
    status = _read(folder / "power" / "runtime_status")
    return None if not status else status == "suspended"


def _driver(folder: Path) -> str:
    """The name of the driver that is bound to it, empty where there is none."""
    try:
        return (folder / "driver").readlink().name
    except OSError:  # bound to none
        return ""


def _hexadecimal(path: Path) -> int:
    """The number in a file, -1 if there is none."""
    try:
        return int(_read(path), 16)
    except ValueError:  # blank where the file is gone: no card has that number
        return -1


def _read(path: Path) -> str:
    """A file's text, empty if it cannot be read: the device went, or was never there."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # unplugged between listing and reading
        return ""


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
