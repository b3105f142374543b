"""Which accelerators the PCI bus has, driver or not, and which of them sleep; reads nothing that wakes or blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")

_DISPLAY = 0x03
_COPROCESSOR = 0x0B40
_ACCELERATOR = 0x12
_FOR_GUESTS = frozenset({"vfio-pci", "pci-stub", "pciback", "xen-pciback"})


@dataclass(frozen=True, slots=True)
class PciDevice:
    """An accelerator on the bus; `suspended` is None where the kernel doesn't say.

    One that was given away belongs to a virtual machine, and no tool of this host lists it.
    """

    bus_id: str
    vendor: str
    class_code: int
    suspended: bool | None
    given_away: bool = False


@dataclass(frozen=True, slots=True)
class _Vendor:
    """What of a vendor's PCI functions is an accelerator: base classes, or base class and subclass.

    `but_not` are device ids to leave out; `behind_bridge` leaves out what sits on the first bus: a part of the CPU.
    """

    name: str
    classes: frozenset[int]
    but_not: frozenset[int] = frozenset()
    behind_bridge: bool = False


_ANY = frozenset({_DISPLAY, _COPROCESSOR, _ACCELERATOR})
# Audio, USB, bridges (NVSwitch) and network functions of the same cards are of other classes.
_VENDORS = {
    0x10DE: _Vendor("nvidia", frozenset({_DISPLAY, _ACCELERATOR})),
    # ES1000: the VGA of older servers' management controllers. Integrated graphics count: amdgpu lists them, too.
    0x1002: _Vendor("amd", frozenset({_DISPLAY, _ACCELERATOR}), but_not=frozenset({0x515E, 0x5969})),
    # Z100 is a display controller (0380), K100 a coprocessor (0b40). Hygon's CPUs have this vendor id as well.
    0x1D94: _Vendor("hygon", _ANY),
    0x1ED5: _Vendor("moorethreads", frozenset({_DISPLAY, _ACCELERATOR})),
    # Accelerators only: Huawei's display controllers (Hi1710) are the VGA of management controllers.
    0x19E5: _Vendor("ascend", frozenset({_ACCELERATOR})),
    0xCABC: _Vendor("cambricon", _ANY),
    0x9999: _Vendor("metax", _ANY),
    0x1E3E: _Vendor("iluvatar", _ANY),
    0x1E36: _Vendor("enflame", _ANY),
    # Arc, Flex and Max are display controllers behind a bridge; integrated graphics are 00:02.0, NPUs 00:0b.0.
    # Intel's other accelerators (QuickAssist 0b40, FPGA 1200) are no devices of its GPU tools.
    0x8086: _Vendor("intel", frozenset({_DISPLAY}), behind_bridge=True),
    0x1D22: _Vendor("kunlunxin", _ANY),
}


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
    vendor = _VENDORS.get(_hexadecimal(folder / "vendor"))
    if vendor is None:
        return None
    class_code = _hexadecimal(folder / "class")
    if not {class_code >> 16, class_code >> 8} & vendor.classes:
        return None
    bus_id = folder.name.lower()
    if (folder / "physfn").exists() or (vendor.behind_bridge and _on_first_bus(bus_id)):
        return None
    if vendor.but_not and _hexadecimal(folder / "device") in vendor.but_not:
        return None
    return PciDevice(bus_id, vendor.name, class_code, _is_suspended(folder), _is_given_away(folder))


def _on_first_bus(bus_id: str) -> bool:
    return ":00:" in bus_id


def _is_suspended(folder: Path) -> bool | None:
    status = _read(folder / "power" / "runtime_status")
    return None if not status else status == "suspended"


def _is_given_away(folder: Path) -> bool:
    """Whether it is bound to one of the drivers that only hold devices for virtual machines."""
    try:
        driver = (folder / "driver").readlink().name
    except OSError:  # bound to none
        return False
    return driver in _FOR_GUESTS or driver.endswith(("-vfio-pci", "_vfio_pci"))


def _hexadecimal(path: Path) -> int:
    """The number in a file, -1 if there is none."""
    try:
        return int(_read(path), 16)
    except ValueError:
        return -1


def _read(path: Path) -> str:
    """A file's text, empty if it cannot be read: the device went, or was never there."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # unplugged between listing and reading
        return ""
