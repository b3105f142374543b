"""Groups the files of a capture by card, KFD node and process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Output

VENDORS_BY_DRIVER: Mapping[str, str] = {"amdgpu": "amd", "hydcu": "hygon", "hycu": "hygon"}
VENDORS_BY_PCI_ID: Mapping[str, str] = {"0x1002": "amd", "0x1d94": "hygon"}
# Display controllers, accelerators and coprocessors. The bridges and audio devices of cards have other classes.
_PCI_CLASSES = ("0x03", "0x12", "0x0b40")
# Prefixes of file names that only these drivers create.
_UNIQUE_PREFIXES = ("gpu_busy_percent", "mem_info_", "pp_dpm_", "gpu_metrics", "chip_power_average", "unique_id")

_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_DRM_PATH = re.compile(r"(?:(.{0,200})/)?card([0-9]{1,4})/device(?:/(.{1,120}))?\Z")
_PCI_PATH = re.compile(rf"(.{{0,200}})/({_ADDRESS})(?:/(.{{1,120}}))?\Z")
_DRIVER_FOLDER = re.compile(r"(?:.{0,200}/)?drivers/([a-z]{1,12})\Z")
_NODE_FILE = re.compile(
    r"(?:.{0,200}/)?nodes/([0-9]{1,4})/(gpu_id|properties|mem_banks/[0-9]{1,3}/(?:properties|used_memory))\Z"
)
_PROCESS_FILE = re.compile(r"(?:.{0,200}/)?kfd/proc/([0-9]{1,10})/vram_([0-9]{1,10})\Z")
_PROCESS_LIST_FOLDER = re.compile(r"(?:.{0,200}/)?kfd/proc\Z")
_VERSION_FILE = re.compile(r"(?:.{0,200}/)?module/([a-z]{1,12})/version\Z")
_UEVENT_ADDRESS = re.compile(rf"^PCI_SLOT_NAME=({_ADDRESS})$", re.MULTILINE)
_UEVENT_PCI_ID = re.compile(r"^PCI_ID=([0-9A-Fa-f]{4}):", re.MULTILINE)
_UEVENT_DRIVER = re.compile(r"^DRIVER=([a-z]{1,12})$", re.MULTILINE)
_HWMON_FILE = re.compile(r"hwmon/hwmon[0-9]{1,4}/(.{1,60})\Z")


@dataclass(slots=True)
class CardFiles:
    """The files of one card by path. Paths are relative to the card's folder, or to its hwmon folder."""

    driver: str = ""
    bus_id: str = ""
    number: int | None = None  # as in `/sys/class/drm/card0`
    has_folder: bool = False
    files: dict[str, Output] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the text of a file, or an empty string if it could not be read."""
        output = self.files.get(name)
        return "" if output is None or output.status else output.text.strip()

    def is_empty(self, name: str) -> bool:
        """Return whether a file was read and is empty."""
        output = self.files.get(name)
        return output is not None and not output.status and not output.text.strip()

    @property
    def module(self) -> str:
        """Return the name of the driver's kernel module, or an empty string."""
        match = _UEVENT_DRIVER.search(self.text("uevent"))
        return self.driver or (match[1] if match else "")

    @property
    def vendor(self) -> str:
        """Return the vendor, or an empty string if unknown."""
        vendor_id = self.text("vendor") or self._uevent_vendor()
        if vendor_id:
            return VENDORS_BY_PCI_ID.get(vendor_id, "") if self._is_accelerator() else ""
        if self.text("chip_power_average"):
            return "hygon"
        if self.module:
            return VENDORS_BY_DRIVER.get(self.module, "")
        return "amd" if self._has_unique_file() else ""

    def _uevent_vendor(self) -> str:
        match = _UEVENT_PCI_ID.search(self.text("uevent"))
        return f"0x{match[1].lower()}" if match else ""

    def _is_accelerator(self) -> bool:
        code = self.text("class")
        if code:
            return code.startswith(_PCI_CLASSES)
        return self.number is not None or bool(self.driver) or self._has_unique_file()

    def _has_unique_file(self) -> bool:
        return any(name.startswith(_UNIQUE_PREFIXES) and not output.status for name, output in self.files.items())


@dataclass(slots=True)
class Tree:
    """The files of a capture by card (PCI address), KFD node (number) and process (PID, GPU id)."""

    cards: dict[str, CardFiles] = field(default_factory=dict)
    nodes: dict[int, dict[str, Output]] = field(default_factory=dict)
    processes: dict[tuple[int, str], Output] = field(default_factory=dict)
    lists_processes: bool = False
    versions: dict[str, str] = field(default_factory=dict)  # driver versions by kernel module


def build_tree(outputs: Iterable[Output]) -> Tree:
    """Group the files of a capture by card, KFD node and process."""

    tree = Tree()
    for output in outputs:
        _add_file(tree, output)
    for card_key, card in list(tree.cards.items()):
        slot = _UEVENT_ADDRESS.search(card.text("uevent"))
        if not card.bus_id and slot is not None:
            _set_address(tree, card_key, slot[1].lower())
    return tree


def is_card_folder(path: str) -> bool:
    """Return whether a path is the folder of a card."""
    match = _DRM_PATH.match(path) or _PCI_PATH.match(path)
    return match is not None and match[3] is None


def is_expected_path(path: str) -> bool:
    """Return whether this is the path of a card, KFD node, process or driver version file."""
    patterns = (_DRM_PATH, _PCI_PATH, _NODE_FILE, _PROCESS_FILE, _VERSION_FILE)
    return any(pattern.match(path) is not None for pattern in patterns)


def _set_address(tree: Tree, card_key: str, bus_id: str) -> None:
    """Set a card's PCI address. Merge the card with the card that already has this address."""
    card = tree.cards.pop(card_key)
    existing_card = tree.cards.setdefault(bus_id, card)
    existing_card.bus_id, existing_card.number = bus_id, card.number
    existing_card.files = {**card.files, **existing_card.files}


def _add_file(tree: Tree, output: Output) -> None:
    if not _add_card_file(tree, output):
        _add_kfd_file(tree, output)


def _add_card_file(tree: Tree, output: Output) -> bool:
    """Store a file of a card. Return False for any other file."""
    drm = _DRM_PATH.match(output.name) if "/device" in output.name else None  # a fast check; most names are PCI paths
    pci = _PCI_PATH.match(output.name if drm is None else drm[1] or "")
    if drm is not None:
        _store_file(_find_or_add_card(tree, pci[2].lower() if pci else "", int(drm[2])), drm[3], output)
    elif pci is not None:
        card = _find_or_add_card(tree, pci[2].lower(), None)
        driver = _DRIVER_FOLDER.match(pci[1])
        card.driver = driver[1] if driver else card.driver
        _store_file(card, pci[3], output)
    return drm is not None or pci is not None


def _add_kfd_file(tree: Tree, output: Output) -> None:
    if (node := _NODE_FILE.match(output.name)) is not None:
        tree.nodes.setdefault(int(node[1]), {})[node[2]] = output
    elif (process := _PROCESS_FILE.match(output.name)) is not None:
        tree.lists_processes = True
        tree.processes[int(process[1]), process[2]] = output
    elif _PROCESS_LIST_FOLDER.match(output.name) is not None:
        tree.lists_processes = True
    elif (version := _VERSION_FILE.match(output.name)) is not None and not output.status:
        tree.versions[version[1]] = output.text.strip()


def _find_or_add_card(tree: Tree, bus_id: str, number: int | None) -> CardFiles:
    card = tree.cards.setdefault(bus_id or f"card{number}", CardFiles(bus_id=bus_id))
    card.number = number if number is not None else card.number
    return card


def _store_file(card: CardFiles, name: str | None, output: Output) -> None:
    if name is None:
        card.has_folder = card.has_folder or not output.status
        return
    sensor = _HWMON_FILE.match(name)
    card.files[sensor[1] if sensor else name] = output
