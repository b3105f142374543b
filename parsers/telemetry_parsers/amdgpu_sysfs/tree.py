"""The files that were read, by the card, KFD node or process that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from telemetry_parsers.model import Output

# Cards of these drivers only: another vendor's files are not even opened.
DRIVERS: Mapping[str, str] = MappingProxyType({"amdgpu": "amd", "hydcu": "hygon", "hycu": "hygon"})
VENDORS: Mapping[str, str] = MappingProxyType({"0x1002": "amd", "0x1d94": "hygon"})

_CARD = re.compile(
    r"(?:.{0,200}/)?(?:drivers/([a-z]{1,12})/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])|drm/card([0-9]{1,4})/device)(?:/(.{1,120}))?\Z"
)
_NODE = re.compile(r"(?:.{0,200}/)?nodes/([0-9]{1,4})/(gpu_id|name|properties|mem_banks/[0-9]{1,3}/properties)\Z")
_PROCESS = re.compile(r"(?:.{0,200}/)?kfd/proc/([0-9]{1,10})/vram_([0-9]{1,10})\Z")
_VERSION = re.compile(r"(?:.{0,200}/)?module/([a-z]{1,12})/version\Z")
_SLOT = re.compile(r"^PCI_SLOT_NAME=([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$", re.MULTILINE)
_HWMON = re.compile(r"hwmon/hwmon[0-9]{1,4}/(.{1,60})\Z")


@dataclass(slots=True)
class CardFiles:
    """One card's files by their name below its folder, those of its sensors without the number of the hwmon folder.

    `listed` tells that its folder is there, though its files may have been left alone.
    """

    driver: str = ""
    bus_id: str = ""
    number: int | None = None
    listed: bool = False
    files: dict[str, Output] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """What a file says, empty when it could not be read."""
        output = self.files.get(name)
        return "" if output is None or output.status else output.text.strip()

    @property
    def vendor(self) -> str:
        """Whose card it is, by its PCI vendor, else by a file that only Hygon's driver has, else by its driver."""
        known = VENDORS.get(self.text("vendor"))
        if known is None and "chip_power_average" in self.files:
            return "hygon"
        return known or DRIVERS.get(self.driver, "")


@dataclass(slots=True)
class Tree:
    """All that was read."""

    cards: dict[str, CardFiles] = field(default_factory=dict)
    nodes: dict[int, dict[str, Output]] = field(default_factory=dict)
    processes: dict[tuple[int, str], Output] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    strangers: list[Output] = field(default_factory=list)


def tree_of(outputs: Iterable[Output]) -> Tree:
    """The outputs sorted by what they belong to."""
    tree = Tree()
    for output in outputs:
        _take(tree, output)
    for card in tree.cards.values():
        slot = _SLOT.search(card.text("uevent"))
        if not card.bus_id and slot is not None:
            card.bus_id = slot[1]
    return tree


def is_folder(name: str) -> bool:
    """Whether a path is that of a card itself and not of a file below it."""
    match = _CARD.match(name)
    return match is not None and match[4] is None


def _take(tree: Tree, output: Output) -> None:
    card, node = _CARD.match(output.name), _NODE.match(output.name)
    process, version = _PROCESS.match(output.name), _VERSION.match(output.name)
    if card is not None:
        _take_card(tree, card, output)
    elif node is not None:
        tree.nodes.setdefault(int(node[1]), {})[node[2]] = output
    elif process is not None:
        tree.processes[int(process[1]), process[2]] = output
    elif version is not None:
        tree.versions[version[1]] = output.text.strip()
    else:
        tree.strangers.append(output)


def _take_card(tree: Tree, match: re.Match[str], output: Output) -> None:
    driver, bus_id, number, name = match.groups()
    key = bus_id or f"card{number}"
    card = tree.cards.setdefault(key, CardFiles(driver or "amdgpu", bus_id or ""))
    card.number = int(number) if number else card.number
    if name is None:
        card.listed = card.listed or not output.status
        return
    sensor = _HWMON.match(name)
    card.files[sensor[1] if sensor else name] = output
