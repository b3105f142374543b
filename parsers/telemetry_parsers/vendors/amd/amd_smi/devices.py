"""Which device each block is about, and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.model import Device
from telemetry_parsers.text.lines import bus_address
from telemetry_parsers.vendors.amd import VENDOR
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Path
from telemetry_parsers.vendors.amd.amd_smi.keys import FACTS
from telemetry_parsers.vendors.amd.amd_smi.words import known

# The whole of /proc/version without blanks is what an in-tree driver has for a version; its first word is the kernel's.
_KERNEL = re.compile(r"Linuxversion([0-9][0-9A-Za-z.+~_-]{0,60})\(")
_CHIP = re.compile(r"0x[0-9A-Fa-f]{1,8}\Z")
_NO_SERIALS = frozenset({"0", "0x0"})
# -1, also as the unsigned number that the library returns: the machine has no NUMA nodes.
_NO_NUMA_NODES = frozenset({"-1", "4294967295"})


def devices_of(blocks: Sequence[Block]) -> list[Device]:
    """The device of each block; a partition other than the first belongs to the card that the first stands for."""
    numbers = [units.whole(partition_of(block)) for block in blocks]
    owners: dict[str | None, int] = {}
    devices: list[Device] = []
    nearest: int | None = None
    for position, (block, number) in enumerate(zip(blocks, numbers, strict=True)):
        device = _device(block)
        card = device.bus_id.rpartition(".")[0] if device.bus_id else None
        if not number:
            nearest = position
            owners[card] = position
        else:
            parent = owners.get(card, nearest if card is None else None)
            device = replace(device, partition=str(number), parent=parent)
        devices.append(device)
    return devices


def _first(block: Block, *paths: Path) -> str | None:
    """The first of these paths that has a value."""
    asked = [entry for entry in reversed(block.entries) if entry.path in paths]
    texts = {entry.path: entry.text for entry in asked if known(entry.text) is not None}
    return next((known(texts[path]) for path in paths if path in texts), None)


def partition_of(block: Block) -> str:
    """The number of the partition that a block is about, empty where it names none."""
    return _first(block, ("partition_id",), ("partition", "partition_id"), ("xcp",)) or ""


def _device(block: Block) -> Device:
    serial = _first(block, ("board", "product_serial"))
    if serial in _NO_SERIALS:
        serial = None
    return Device(
        vendor=VENDOR.word,
        index=block.index,
        model=_model(block),
        uuid=_first(block, ("uuid",)),
        bus_id=bus_address(_first(block, ("bdf",), ("bus", "bdf")) or ""),
        serial=serial or _first(block, ("asic", "asic_serial")),
        driver=_driver(_first(block, ("driver", "version"), ("driver", "driver_version"))),
        facts=tuple(_facts(block)),
    )


def _model(block: Block) -> str | None:
    """The card's name; the number of its chip, which stands there for chips without one, is none."""
    names = (_first(block, path) for path in (("asic", "market_name"), ("market_name",), ("board", "product_name")))
    return next((name for name in names if name is not None and not _CHIP.match(name)), None)


def _driver(text: str | None) -> str | None:
    kernel = _KERNEL.match(text) if text else None
    return kernel[1] if kernel else text


def _facts(block: Block) -> Iterable[tuple[str, str]]:
    for name, paths in FACTS:
        text = _first(block, *paths)
        if text is not None and not (name == "numa_node" and text in _NO_NUMA_NODES):
            yield name, text
    kind = _power_kind(block)
    if kind is not None:
        yield "power_kind", kind


def _power_kind(block: Block) -> str | None:
    """Which power the main figure is, where the version prints both apart."""
    for key, kind in (("current_socket_power", "instant"), ("average_socket_power", "average")):
        if _first(block, ("power", key)) is not None:
            return kind
    return None
