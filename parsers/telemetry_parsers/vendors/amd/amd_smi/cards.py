"""From blocks to the draft of a report: one block for each card and partition, which device it is, what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from telemetry_parsers.model import Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Text, Tool, must_be_whole
from telemetry_parsers.vendors.amd.amd_smi import links, processes
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Entry, Path, pattern
from telemetry_parsers.vendors.amd.amd_smi.devices import devices_of, partition_of
from telemetry_parsers.vendors.amd.amd_smi.keys import FIELDS
from telemetry_parsers.vendors.amd.amd_smi.readings import read_readings
from telemetry_parsers.vendors.amd.amd_smi.words import OTHER_KINDS, TOOL, known

# Where an entry stands in its block.
_Slot = tuple[Path, int]


def fill(draft: Draft, blocks: Sequence[Block]) -> None:
    """Read all cards and partitions of an output into the draft."""
    draft.facts = {name: text for name, text in sorted(draft.facts.items()) if known(text)}
    cards = _cards(draft, blocks)
    for place, device in enumerate(devices_of(cards)):
        draft.device(place, device)
    for position, card in enumerate(cards):
        read_readings(draft, position, card)
        links.read_links(draft, position, card)
        processes.read_processes(draft, position, card)
    if not cards and any(block.kind in OTHER_KINDS for block in blocks):
        draft.complain("text", "it lists no GPU: the sections of processors and network cards are not read")


def without_cards(report: Report, text: Text, tool: Tool) -> Report:
    """The report on an output that lists no card: versions alone are fine; a list that is cut off may have lost them all."""
    return report if report.facts else must_be_whole(report, text, tool)


def _cards(draft: Draft, blocks: Sequence[Block]) -> list[Block]:
    """One block for each card and partition: that of several outputs together; of two runs the second."""
    cards: list[list[Block]] = []
    by_index: dict[int | None, dict[str, list[Block]]] = {}
    for block in (block for block in blocks if block.kind == "gpu"):
        partitions = by_index.setdefault(block.index, {})
        name = partition_of(block)
        card = _same(partitions, name)
        if card is None:
            card = partitions[name] = []
            cards.append(card)
        card.append(block)
    if any(map(_is_read_again, cards)):
        draft.complain("text", f"several runs of {TOOL} in one text; the last one is read")
    return [_merged(card) for card in cards]


def _same(partitions: Mapping[str, list[Block]], name: str) -> list[Block] | None:
    """The blocks of one index that are about the same partition; an output need not name it."""
    if name in partitions or len(partitions) != 1:
        return partitions.get(name)
    other, blocks = next(iter(partitions.items()))
    return None if other and name else blocks


def _is_read_again(blocks: Sequence[Block]) -> bool:
    """Whether two of these blocks give the same reading."""
    before: set[_Slot] = set()
    for block in blocks if len(blocks) > 1 else ():
        slots = set(map(_slot, block.entries))
        if any(pattern(path) in FIELDS for path, _ in before & slots):
            return True
        before |= slots
    return False


def _merged(blocks: Sequence[Block]) -> Block:
    """One block in place of several; of two entries in the same place that of the later block."""
    latest = {_slot(entry): number for number, block in enumerate(blocks) for entry in block.entries}
    entries = [
        entry for number, block in enumerate(blocks) for entry in block.entries if latest[_slot(entry)] == number
    ]
    return replace(blocks[0], entries=entries, open_at=blocks[-1].open_at)


def _slot(entry: Entry) -> _Slot:
    """Entries of lists stand side by side; a second one in the same place is of another run, and so is a second list."""
    if entry.path[0] == "process_list":
        return entry.path[:1], 0
    return entry.path, 0 if entry.path[0] != "process_info" else entry.group
