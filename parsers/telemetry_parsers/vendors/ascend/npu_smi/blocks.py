"""The `key : value` answers of npu-smi (`-l`, `-t …`): the readings of each section, and sections without an owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Device, Problem, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import miscounted
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import (
    KNOWN,
    Block,
    Evidence,
    Slot,
    chip_at,
    is_measured,
    read_block,
    read_card_fields,
    slots_in,
)
from telemetry_parsers.vendors.ascend.npu_smi.sections import Card, Section, cards, is_process

_EVENT = re.compile(r"event id=(0x[0-9A-Fa-f]{1,16})")
_CODE = re.compile(r"(?:0x)?([0-9A-Fa-f]{4,16})\Z")
_MOST_CHIPS = 16  # of one card; 310 has four


def is_block_line(line: Line, common: frozenset[str] = keys.COMMON_WORDS) -> bool:
    """Return whether a line has a key that only npu-smi prints (none of the `common` keys), or is a process of `-t proc-mem`."""
    name, colon, _ = line.text.partition(":")
    key = split_key(name)[0]
    is_key = bool(colon) and line.ended and key in KNOWN and key not in common
    return is_key or is_process(line)


@dataclass(frozen=True, slots=True)
class Context:
    """Information outside the answer: the slot that the command named, and whether other answers show a product without HBM."""

    asked: Slot
    without_hbm: bool


def read(lines: Sequence[Line], context: Context, draft: Draft) -> None:
    """Read the answer into the draft."""
    totals = list(_totals(lines))
    for card in cards(lines, context.asked.card, draft.problems):
        before = len(draft.problems)
        sections = _read_card(draft, card, context)
        is_empty = not sections or any(section.is_empty for section in sections)
        if card.is_named and is_empty and not totals and len(draft.problems) == before:
            draft.complain(card.where, f"NPU {card.number} or one of its chips has no values")
    _check_totals(draft, totals)


@dataclass(frozen=True, slots=True)
class _CardAnswer:
    """The content of one answer about a card: `whole` is the slot for values without a chip, `chips` are the named slots."""

    draft: Draft
    card: Card
    whole: Slot
    chips: tuple[Slot, ...]
    names_owners: bool
    keys: frozenset[str]
    without_hbm: bool

    def all_chips(self) -> tuple[Slot, ...]:
        """Return the slots of all chips, for values of the whole card."""
        count = self.card.chip_count or 1
        counted = tuple(Slot(self.card.number, chip) for chip in range(count if count <= _MOST_CHIPS else 0))
        return self.chips or (counted if len(counted) > 1 else (Slot(self.card.number),))


def _read_card(draft: Draft, card: Card, context: Context) -> list[Section]:
    """Read the part of a card. Return its sections."""
    sections = list(card.sections(draft.problems))
    owners = [section.owner for section in sections if section.owner is not None]
    numbers = dict.fromkeys(owner.chip for owner in owners if owner.chip is not None)
    if card.number is None and (numbers or card.is_named or card.chip_count is not None):
        draft.complain(card.where, "values of a card without its NPU ID are not read")
        return sections
    asked = context.asked
    whole = Slot(card.number, asked.chip if card.number == asked.card else None)
    all_keys = frozenset(key for section in sections for key in section.entries)
    chips = tuple(Slot(card.number, chip) for chip in numbers)
    answer = _CardAnswer(draft, card, whole, chips, bool(owners), all_keys, context.without_hbm)
    for section in sections:
        _read_section(answer, section)
    _add_chip_faults(answer, sections)
    if numbers and len(numbers) < (card.chip_count or 0):
        text = f"NPU {card.number} counts {card.chip_count} chips and lists {len(numbers)}"
        draft.complain(card.where, text)
    if card.is_named and card.number not in {slot.card for slot in slots_in(draft)}:
        chip_at(draft, whole)
    return sections


def _read_section(answer: _CardAnswer, section: Section) -> None:
    draft, owner = answer.draft, section.owner
    refusal = _refusal(answer, section)
    if refusal:
        draft.complain(section.where, refusal)
    elif owner is not None and owner.is_part:
        _is_closed(draft, section, keys.ENDS_OF_PARTS, answer.keys)
        read_card_fields(draft, [chip_at(draft, slot) for slot in answer.all_chips()], section.entries)
    elif owner is None and _is_of_the_card(answer, section):
        read_card_fields(draft, [chip_at(draft, slot) for slot in answer.all_chips()], section.entries)
    elif owner is not None or section.rows or section.says_idle or not KNOWN.isdisjoint(section.entries):
        slot = answer.whole if owner is None else Slot(answer.card.number, owner.chip)
        names_only_card = answer.card.is_named and not answer.names_owners
        _give(answer, chip_at(draft, slot), section, keys.ENDS_OF_CARDS if names_only_card else keys.ENDS_OF_CHIPS)
    else:
        draft.name_unknown(*section.entries)


def _refusal(answer: _CardAnswer, section: Section) -> str:
    """Return why a section is not read, or an empty text."""
    if section.twice is not None and answer.whole == Slot() and section.owner is None:
        return "answers about several chips without their names are not read; save the command lines, too"
    if section.twice is not None:
        return "repeated values are not read: the name of a chip or part between them is lost"
    if section.owner is not None and section.owner.chip is None and not section.owner.is_part:
        return "a chip without a valid number is not read"
    is_nobodys = section.owner is None and section.has_content
    if is_nobodys and (
        answer.names_owners or (answer.card.chip_count is not None and not _holds_only(section, keys.CARD_FIELDS))
    ):
        what = "processes" if section.rows else "readings"
        return f"{what} of one of {answer.card.chip_count or 'several'} chips or parts without its name are not read"
    return ""


def _is_of_the_card(answer: _CardAnswer, section: Section) -> bool:
    """Return whether all values are of the whole card: its sensors, and its power if several chips share it."""
    return _holds_only(section, keys.CARD_FIELDS if len(answer.all_chips()) > 1 else keys.CARD_SENSORS)


def _holds_only(section: Section, fields: Mapping[str, object]) -> bool:
    measured = set(filter(is_measured, section.entries))
    return bool(measured) and not section.rows and measured <= fields.keys()


def _give(answer: _CardAnswer, device: int, section: Section, ends: Sequence[keys.End]) -> None:
    """Store the readings, facts, events and processes of one chip."""
    draft = answer.draft
    _describe(draft, device, section.entries)
    _add_events(draft, device, section.entries)
    if section.has_content:
        evidence = Evidence(_is_closed(draft, section, ends), answer.without_hbm)
        read_block(draft, device, section.entries, evidence)
    draft.processes.extend(Process(device, row.pid, row.name, row.memory_bytes) for row in section.rows)
    if section.says_idle and not section.rows:
        draft.give(device, metric("processes"), 0.0)


def _is_closed(
    draft: Draft, section: Section, ends: Sequence[keys.End], also_printed: AbstractSet[str] = frozenset()
) -> bool:
    """Return whether the last line proves that the section is complete: its owner's line, or a known last key. If not, report it."""
    last = section.last_key
    printed = {*section.entries, *also_printed} | ({keys.CHIP_KEY} if section.owner else set())
    closed = last not in KNOWN or any(
        end.key == last and end.instead not in printed and (not end.beside or end.beside in printed) for end in ends
    )
    draft.problems.extend([] if closed else [Problem(section.where, f'the answer is cut off below "{quote(last)}"')])
    return closed


def _add_events(draft: Draft, device: int, block: Block) -> None:
    """Report an event for each active fault."""
    words = block[keys.ERROR_CODES].text.replace(",", " ").split() if keys.ERROR_CODES in block else []
    for match in filter(None, map(_CODE.match, words)):
        draft.happens(device, f"error_{match[1].lower()}", quote(f"{keys.ERROR_CODES}: {match[1]}"))
    for match in _EVENT.finditer(block[keys.FAULT_EVENTS].text) if keys.FAULT_EVENTS in block else ():
        draft.happens(device, f"error_{match[1].lower().removeprefix('0x')}", quote(block[keys.FAULT_EVENTS].text))


def _add_chip_faults(answer: _CardAnswer, sections: Sequence[Section]) -> None:
    """Report an event for each chip if some chip of the card has a fault, because the answer does not name the chip."""
    counts = [
        (key, section.entries[key]) for section in sections for key in keys.FAULT_COUNTS if key in section.entries
    ]
    for key, entry in counts:
        if not entry.text:
            answer.draft.complain(entry.line.where, f"{key} has no value")
        for slot in answer.all_chips() if units.whole(entry.text) else ():
            answer.draft.happens(chip_at(answer.draft, slot), "chip_fault", quote(f"{key}: {entry.text}"))


def _describe(draft: Draft, device: int, block: Block) -> None:
    def text(*names: str) -> str | None:
        return next((units.text_or_none(block[name].text) for name in names if name in block), None)

    address = text(keys.ADDRESS)
    described = Device(
        draft.vendor,
        model=text(*keys.MODELS),
        uuid=text(*keys.UUIDS),
        bus_id=bus_address(address) if address else None,
        serial=text(keys.SERIAL),
        driver=text(keys.DRIVER),
    )
    facts = {name: units.text_or_none(block[key].text) for key, name in keys.FACTS.items() if key in block}
    if keys.FAULT_EVENTS in block:
        facts["error_codes"] = " ".join(_EVENT.findall(block[keys.FAULT_EVENTS].text)) or None
    if keys.RATED_POWER in block:
        facts["power_kind"] = "rated"
    draft.describe(device, described, facts)


def _totals(lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
    for line in lines:
        name, _, value = line.text.partition(":")
        count = units.whole(value)
        if line.ended and count is not None and split_key(name)[0] in keys.TOTALS:
            yield line, count


def _check_totals(draft: Draft, totals: Sequence[tuple[Line, int]]) -> None:
    """Report a list with fewer cards than its total as truncated."""
    listed = {slot.card for slot in slots_in(draft)}
    for line, count in totals:
        if count != len(listed):
            draft.is_cut = True
            draft.complain(line.where, miscounted(count, len(listed)))
