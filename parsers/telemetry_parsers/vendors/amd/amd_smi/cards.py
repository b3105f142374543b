"""Joins the blocks of each card and partition, and reads identities and readings into the draft."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.model import Device, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Tool, ToolText, report_no_devices
from telemetry_parsers.text.lines import bus_address
from telemetry_parsers.vendors.amd.amd_smi import readings
from telemetry_parsers.vendors.amd.amd_smi.entries import OTHER_KINDS, TOOL, Block, Entry, field_path, printed_text
from telemetry_parsers.vendors.amd.amd_smi.keys import FACTS, FIELDS
from telemetry_parsers.vendors.amd.amd_smi.readings import read_readings

# If the driver is part of the kernel, the printed driver version is the text of /proc/version without its blanks.
_KERNEL_RELEASE = re.compile(r"Linuxversion([0-9][0-9A-Za-z.+~_-]{0,60})\(")
_CHIP_NUMBER = re.compile(r"0x[0-9A-Fa-f]{1,8}\Z")
_PLACEHOLDER_SERIALS = frozenset({"0", "0x0"})
# -1 means that there are no NUMA nodes. The library may return -1 as an unsigned number.
_NO_NUMA_NODES = frozenset({"-1", "4294967295"})


def _create_devices(blocks: Sequence[Block]) -> list[Device]:
    partition_numbers = [units.integer(_partition_text(block)) for block in blocks]
    first_partition_by_slot: dict[str | None, int] = {}
    devices: list[Device] = []
    last_card_position: int | None = None
    for position, (block, partition_number) in enumerate(zip(blocks, partition_numbers, strict=True)):
        device = _create_device(block)
        slot = device.bus_id.rpartition(".")[0] if device.bus_id else None
        if not partition_number:
            last_card_position = position
            first_partition_by_slot[slot] = position
        else:
            parent = first_partition_by_slot.get(slot, last_card_position if slot is None else None)
            device = replace(device, partition=str(partition_number), parent=parent)
        devices.append(device)
    return devices


def _text_at(block: Block, *paths: tuple[str, ...]) -> str | None:
    """Return the text at the first of `paths` that has a value, or None if none of them has."""
    candidates = [entry for entry in reversed(block.entries) if entry.path in paths]
    texts = {entry.path: entry.text for entry in candidates if printed_text(entry.text) is not None}
    return next((printed_text(texts[path]) for path in paths if path in texts), None)


def _partition_text(block: Block) -> str:
    return _text_at(block, ("partition_id",), ("partition", "partition_id"), ("xcp",)) or ""


def _create_device(block: Block) -> Device:
    serial = _text_at(block, ("board", "product_serial"))
    if serial in _PLACEHOLDER_SERIALS:
        serial = None
    return Device(
        vendor="amd",
        index=block.index,
        model=_model_name(block),
        uuid=_text_at(block, ("uuid",)),
        bus_id=bus_address(_text_at(block, ("bdf",), ("bus", "bdf")) or ""),
        serial=serial or _text_at(block, ("asic", "asic_serial")),
        driver=_driver_version(_text_at(block, ("driver", "version"), ("driver", "driver_version"))),
        facts=tuple(_card_facts(block)),
    )


def _model_name(block: Block) -> str | None:
    """Return the card's model name. A chip number such as `0x74a1` is not a name."""
    names = (_text_at(block, path) for path in (("asic", "market_name"), ("market_name",), ("board", "product_name")))
    return next((name for name in names if name is not None and not _CHIP_NUMBER.match(name)), None)


def _driver_version(text: str | None) -> str | None:
    kernel = _KERNEL_RELEASE.match(text) if text else None
    return kernel[1] if kernel else text


def _card_facts(block: Block) -> Iterable[tuple[str, str]]:
    for name, paths in FACTS:
        text = _text_at(block, *paths)
        if text is not None and not (name == "numa_node" and text in _NO_NUMA_NODES):
            yield name, text
    kind = _power_kind(block)
    if kind is not None:
        yield "power_kind", kind


def _power_kind(block: Block) -> str | None:
    """Return `instant` or `average`, the kind of power that `power_watts` contains, or None if unknown."""
    for key, kind in (("current_socket_power", "instant"), ("average_socket_power", "average")):
        if _text_at(block, ("power", key)) is not None:
            return kind
    return None


# The (path, group) of an entry. A later entry replaces an earlier entry with the same path and group.
_EntryKey = tuple[tuple[str, ...], int]


def read_blocks(draft: Draft, blocks: Sequence[Block]) -> None:
    """Read all cards and partitions in these blocks into the draft."""
    draft.facts = {name: text for name, text in sorted(draft.facts.items()) if printed_text(text)}
    cards = _join_blocks(draft, blocks)
    for position, device in enumerate(_create_devices(cards)):
        draft.device(position, device)
    for position, card in enumerate(cards):
        read_readings(draft, position, card)
        readings.read_links(draft, position, card)
        readings.read_processes(draft, position, card)
    if not cards and any(block.kind in OTHER_KINDS for block in blocks):
        draft.add_problem("text", "no GPU is listed, and the sections of processors and network cards are not read")


def report_no_cards(report: Report, text: ToolText, tool: Tool) -> Report:
    """Return a report with versions unchanged. In other reports, the empty list of cards must be complete."""
    return report if report.facts else report_no_devices(report, text, tool)


def _join_blocks(draft: Draft, blocks: Sequence[Block]) -> list[Block]:
    """Merge the blocks of each card or partition into one block."""
    groups: list[list[Block]] = []
    groups_by_index_and_partition: dict[int | None, dict[str, list[Block]]] = {}
    for block in (block for block in blocks if block.kind == "gpu"):
        groups_by_partition = groups_by_index_and_partition.setdefault(block.index, {})
        partition = _partition_text(block)
        group = _find_partition_blocks(groups_by_partition, partition)
        if group is None:
            group = groups_by_partition[partition] = []
            groups.append(group)
        group.append(block)
    if any(map(_has_repeated_reading, groups)):
        draft.add_problem("text", f"the text contains several runs of {TOOL}; only the last run is read")
    return [_merge_blocks(group) for group in groups]


def _find_partition_blocks(blocks_by_name: Mapping[str, list[Block]], name: str) -> list[Block] | None:
    """Return the partition's blocks, if any. If there is only one name so far, an empty name matches any name."""
    if name in blocks_by_name or len(blocks_by_name) != 1:
        return blocks_by_name.get(name)
    only_name, blocks = next(iter(blocks_by_name.items()))
    return None if only_name and name else blocks


def _has_repeated_reading(blocks: Sequence[Block]) -> bool:
    previous_keys: set[_EntryKey] = set()
    for block in blocks if len(blocks) > 1 else ():
        keys = set(map(_entry_key, block.entries))
        if any(field_path(path) in FIELDS for path, _ in previous_keys & keys):
            return True
        previous_keys |= keys
    return False


def _merge_blocks(blocks: Sequence[Block]) -> Block:
    """Return a block with the entries of all blocks. An entry of a later block replaces those of earlier blocks."""
    entries = [(position, entry) for position, block in enumerate(blocks) for entry in block.entries]
    last_positions = {_entry_key(entry): position for position, entry in entries}
    latest_entries = [entry for position, entry in entries if last_positions[_entry_key(entry)] == position]
    return replace(blocks[0], entries=latest_entries, open_path=blocks[-1].open_path)


def _entry_key(entry: Entry) -> _EntryKey:
    """Return the key under which an entry is merged. All entries of a process list have the same key."""
    if entry.path[0] == "process_list":
        return entry.path[:1], 0
    return entry.path, 0 if entry.path[0] != "process_info" else entry.group
