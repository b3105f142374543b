"""Finds accelerators on the PCI bus, without waking them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.text.lines import bus_address
from telemetry_parsers.vendors import VENDORS

PCI_DEVICES = Path("/sys/bus/pci/devices")

# These drivers pass devices to virtual machines.
_PASSTHROUGH_DRIVERS = frozenset({"vfio-pci", "pci-stub", "pciback", "xen-pciback"})
_VENDORS_BY_ID = {vendor.pci.vendor_id: vendor for vendor in VENDORS}
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")
NOT_BOUND = 0


@dataclass(frozen=True, slots=True)
class PciDevice:
    """An accelerator on the PCI bus."""

    bus_id: str
    vendor: str
    class_code: int
    driver: str = ""

    @property
    def is_passed_through(self) -> bool:
        """Return whether the device is passed to a virtual machine."""
        return self.driver in _PASSTHROUGH_DRIVERS or self.driver.endswith(("-vfio-pci", "_vfio_pci"))


def find_accelerators(root: Path = PCI_DEVICES) -> tuple[PciDevice, ...]:
    """Return this host's accelerators, sorted by address."""
    try:
        folders = sorted(root.iterdir())
    except OSError:  # some boards have no PCI bus
        return ()
    devices = (_read_device(folder) for folder in folders)
    return tuple(device for device in devices if device is not None)


def count_by_vendor(devices: Iterable[PciDevice]) -> dict[str, int]:
    """Count each vendor's accelerators."""
    return dict(Counter(device.vendor for device in devices))


def is_suspended(bus_id: str, root: Path = PCI_DEVICES) -> bool | None:
    """Return whether a device is suspended. Return None if its state cannot be read."""
    status = _read_text(root / bus_id / "power" / "runtime_status")
    return None if not status else status == "suspended"


def _read_device(folder: Path) -> PciDevice | None:
    vendor = _VENDORS_BY_ID.get(_read_hexadecimal(folder / "vendor"))
    if vendor is None:
        return None
    pci = vendor.pci
    class_code = _read_hexadecimal(folder / "class")
    if class_code >> 16 not in pci.classes and class_code >> 8 not in pci.classes:
        return None
    bus_id = folder.name.lower()
    if (folder / "physfn").exists() or (pci.behind_bridge and ":00:" in bus_id):  # virtual, or integrated
        return None
    if pci.excluded_ids and _read_hexadecimal(folder / "device") in pci.excluded_ids:
        return None
    return PciDevice(bus_id, vendor.word, class_code, _driver_name(folder))


def _driver_name(folder: Path) -> str:
    try:
        return (folder / "driver").readlink().name
    except OSError:  # no driver is bound
        return ""


def _read_hexadecimal(path: Path) -> int:
    try:
        return int(_read_text(path), 16)
    except ValueError:  # the file has disappeared; -1 is not a valid ID
        return -1


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # the device was removed in the meantime
        return ""


@dataclass(frozen=True, slots=True)
class MachineState:
    """The machine's boot ID, and a function that returns the driver binding of the card with a PCI address."""

    boot: str = ""
    binding_of: Callable[[str], int] = lambda _: NOT_BOUND


def read_machine_state(boot_id: Path = BOOT_ID_PATH, pci_devices: Path = PCI_DEVICES) -> MachineState:
    """Return the boot ID and the driver bindings of this machine."""
    try:
        boot = boot_id.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # a container may hide the boot ID
        boot = ""
    return MachineState(boot, lambda bus_id: _driver_binding(pci_devices, bus_id))


def _driver_binding(pci_devices: Path, bus_id: str) -> int:
    """Return a number that changes when a driver is bound to the device again."""
    address = bus_address(bus_id)
    if address is None:  # a plugin may return any string
        return NOT_BOUND
    try:
        return (pci_devices / address / "driver").lstat().st_ino
    except OSError:  # no driver is bound, or no card has this address
        return NOT_BOUND
