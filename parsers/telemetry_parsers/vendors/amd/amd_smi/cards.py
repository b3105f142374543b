"""Turns blocks into the draft of a report: one block for each card and partition, its identity and its readings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.model import Device, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Text, Tool, must_be_whole
from telemetry_parsers.text.lines import bus_address
from telemetry_parsers.vendors.amd.amd_smi import readings
from telemetry_parsers.vendors.amd.amd_smi.entries import OTHER_KINDS, TOOL, Block, Entry, Path, pattern, printed_text
from telemetry_parsers.vendors.amd.amd_smi.keys import FACTS, FIELDS
from telemetry_parsers.vendors.amd.amd_smi.readings import read_readings

# The version of an in-tree driver is /proc/version without blanks, which contains the kernel's version.
_KERNEL = re.compile(r"Linuxversion([0-9][0-9A-Za-z.+~_-]{0,60})\(")
_CHIP = re.compile(r"0x[0-9A-Fa-f]{1,8}\Z")
_NO_SERIALS = frozenset({"0", "0x0"})
# -1, also as the unsigned number that the library returns: the machine has no NUMA nodes.
_NO_NUMA_NODES = frozenset({"-1", "4294967295"})


def _devices_of(blocks: Sequence[Block]) -> list[Device]:
    """Return the device of each block. A partition other than the first belongs to the card that the first partition represents."""
    numbers = [units.whole(_partition_of(block)) for block in blocks]
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
    """Return the text of the first of these paths that has a value."""
    asked = [entry for entry in reversed(block.entries) if entry.path in paths]
    texts = {entry.path: entry.text for entry in asked if printed_text(entry.text) is not None}
    return next((printed_text(texts[path]) for path in paths if path in texts), None)


def _partition_of(block: Block) -> str:
    """Return the number of the partition of a block, or an empty text."""
    return _first(block, ("partition_id",), ("partition", "partition_id"), ("xcp",)) or ""


def _device(block: Block) -> Device:
    serial = _first(block, ("board", "product_serial"))
    if serial in _NO_SERIALS:
        serial = None
    return Device(
        vendor="amd",
        index=block.index,
        model=_model(block),
        uuid=_first(block, ("uuid",)),
        bus_id=bus_address(_first(block, ("bdf",), ("bus", "bdf")) or ""),
        serial=serial or _first(block, ("asic", "asic_serial")),
        driver=_driver(_first(block, ("driver", "version"), ("driver", "driver_version"))),
        facts=tuple(_facts(block)),
    )


def _model(block: Block) -> str | None:
    """Return the card's name. Chips without a name print the number of the chip instead, which is ignored."""
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
    """Return the kind of the main power, if the version prints average and instantaneous power separately."""
    for key, kind in (("current_socket_power", "instant"), ("average_socket_power", "average")):
        if _first(block, ("power", key)) is not None:
            return kind
    return None


# The position of an entry in its block.
_Slot = tuple[Path, int]


def fill(draft: Draft, blocks: Sequence[Block]) -> None:
    """Read all cards and partitions of an output into the draft."""
    draft.facts = {name: text for name, text in sorted(draft.facts.items()) if printed_text(text)}
    cards = _cards(draft, blocks)
    for position_of_card, device in enumerate(_devices_of(cards)):
        draft.device(position_of_card, device)
    for position, card in enumerate(cards):
        read_readings(draft, position, card)
        readings.read_links(draft, position, card)
        readings.read_processes(draft, position, card)
    if not cards and any(block.kind in OTHER_KINDS for block in blocks):
        draft.complain("text", "no GPU is listed; sections of processors and network cards are not read")


def without_cards(report: Report, text: Text, tool: Tool) -> Report:
    """Return the report on an output without cards. Versions alone are fine; a truncated list may have lost all cards."""
    return report if report.facts else must_be_whole(report, text, tool)


def _cards(draft: Draft, blocks: Sequence[Block]) -> list[Block]:
    """Return one block for each card and partition, joined from several outputs. Of two runs, the second counts."""
    cards: list[list[Block]] = []
    by_index: dict[int | None, dict[str, list[Block]]] = {}
    for block in (block for block in blocks if block.kind == "gpu"):
        partitions = by_index.setdefault(block.index, {})
        name = _partition_of(block)
        card = _same(partitions, name)
        if card is None:
            card = partitions[name] = []
            cards.append(card)
        card.append(block)
    if any(map(_is_read_again, cards)):
        draft.complain("text", f"several runs of {TOOL} in one text; the last one is read")
    return [_merged(card) for card in cards]


def _same(partitions: Mapping[str, list[Block]], name: str) -> list[Block] | None:
    """Return the blocks of the same partition among those of one index. An output need not name the partition."""
    if name in partitions or len(partitions) != 1:
        return partitions.get(name)
    other, blocks = next(iter(partitions.items()))
    return None if other and name else blocks


def _is_read_again(blocks: Sequence[Block]) -> bool:
    """Return whether two of these blocks have the same reading."""
    before: set[_Slot] = set()
    for block in blocks if len(blocks) > 1 else ():
        slots = set(map(_slot, block.entries))
        if any(pattern(path) in FIELDS for path, _ in before & slots):
            return True
        before |= slots
    return False


def _merged(blocks: Sequence[Block]) -> Block:
    """Return several blocks as one. If two entries are in the same slot, the one in the later block counts."""
    latest = {_slot(entry): number for number, block in enumerate(blocks) for entry in block.entries}
    entries = [
        entry for number, block in enumerate(blocks) for entry in block.entries if latest[_slot(entry)] == number
    ]
    return replace(blocks[0], entries=entries, open_at=blocks[-1].open_at)


def _slot(entry: Entry) -> _Slot:
    """Return the slot of an entry. Entries of a list have different slots; a second entry in a slot, or a second list, is of another run."""
    if entry.path[0] == "process_list":
        return entry.path[:1], 0
    return entry.path, 0 if entry.path[0] != "process_info" else entry.group
