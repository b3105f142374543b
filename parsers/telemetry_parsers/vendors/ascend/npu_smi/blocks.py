"""Reads the `key : value` output of npu-smi (`-l`, `-t …`), section by section."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Device, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import wrong_count
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import (
    KNOWN_KEYS,
    Block,
    Evidence,
    Slot,
    ensure_chip,
    is_measured,
    read_block,
    read_card_fields,
    slots_in,
)
from telemetry_parsers.vendors.ascend.npu_smi.sections import Card, Section, cards_in, is_process_line

_EVENT = re.compile(r"event id=(0x[0-9A-Fa-f]{1,16})")
_CODE = re.compile(r"(?:0x)?([0-9A-Fa-f]{4,16})\Z")
_MAX_CHIPS = 16  # chips of one card; a 310 card has four


def is_block_line(line: Line, common_keys: frozenset[str] = keys.COMMON_KEYS) -> bool:
    """Return whether a line is a process, or has a known key that is not in `common_keys`."""
    name, colon, _ = line.text.partition(":")
    key = split_key(name)[0]
    is_key = bool(colon) and line.ended and key in KNOWN_KEYS and key not in common_keys
    return is_key or is_process_line(line)


@dataclass(frozen=True, slots=True)
class OutputContext:
    """The chip in the command line, and whether the output shows that the product has no HBM."""

    requested_slot: Slot
    has_no_hbm: bool


def read_answer(lines: Sequence[Line], context: OutputContext, draft: Draft) -> None:
    """Add the readings in an answer to the draft."""
    printed_totals = list(_totals_in(lines))
    for card in cards_in(lines, context.requested_slot.card, draft.problems):
        problem_count = len(draft.problems)
        sections = _read_card(draft, card, context)
        is_empty = not sections or any(section.is_empty for section in sections)
        if card.is_named and is_empty and not printed_totals and len(draft.problems) == problem_count:
            draft.add_problem(card.where, f"NPU {card.number} or one of its chips has no values")
    _check_totals(draft, printed_totals)


@dataclass(frozen=True, slots=True)
class _CardAnswer:
    """An answer about one card. Values without a chip's name belong to `default_slot`."""

    draft: Draft
    card: Card
    default_slot: Slot
    chips: tuple[Slot, ...]
    has_named_parts: bool
    printed_keys: frozenset[str]
    has_no_hbm: bool

    def all_chips(self) -> tuple[Slot, ...]:
        """Return the slots of all chips of the card."""
        count = self.card.chip_count or 1
        numbered_slots = tuple(Slot(self.card.number, chip) for chip in range(count if count <= _MAX_CHIPS else 0))
        return self.chips or (numbered_slots if len(numbered_slots) > 1 else (Slot(self.card.number),))


def _read_card(draft: Draft, card: Card, context: OutputContext) -> list[Section]:
    """Store the values of one card. Return its sections."""
    sections = list(card.sections(draft.problems))
    parts = [section.part for section in sections if section.part is not None]
    chip_numbers = dict.fromkeys(part.chip for part in parts if part.chip is not None)
    if card.number is None and (chip_numbers or card.is_named or card.chip_count is not None):
        draft.add_problem(card.where, "values are not read, because the card's NPU ID is missing")
        return sections
    requested_slot = context.requested_slot
    default_slot = Slot(card.number, requested_slot.chip if card.number == requested_slot.card else None)
    all_keys = frozenset(key for section in sections for key in section.entries)
    chips = tuple(Slot(card.number, chip) for chip in chip_numbers)
    answer = _CardAnswer(draft, card, default_slot, chips, bool(parts), all_keys, context.has_no_hbm)
    for section in sections:
        _read_section(answer, section)
    _add_chip_faults(answer, sections)
    if chip_numbers and len(chip_numbers) < (card.chip_count or 0):
        text = f"NPU {card.number}: only {len(chip_numbers)} of {card.chip_count} chips are listed"
        draft.add_problem(card.where, text)
    if card.is_named and card.number not in {slot.card for slot in slots_in(draft)}:
        ensure_chip(draft, default_slot)
    return sections


def _read_section(answer: _CardAnswer, section: Section) -> None:
    draft, part = answer.draft, section.part
    reason = _reason_to_skip(answer, section)
    if reason:
        draft.add_problem(section.where, reason)
    elif part is not None and part.is_other_part:
        _check_end(draft, section, keys.END_KEYS_OF_PARTS, answer.printed_keys)
        read_card_fields(draft, [ensure_chip(draft, slot) for slot in answer.all_chips()], section.entries)
    elif part is None and _is_of_whole_card(answer, section):
        read_card_fields(draft, [ensure_chip(draft, slot) for slot in answer.all_chips()], section.entries)
    elif part is not None or section.rows or section.is_idle or not KNOWN_KEYS.isdisjoint(section.entries):
        slot = answer.default_slot if part is None else Slot(answer.card.number, part.chip)
        names_only_card = answer.card.is_named and not answer.has_named_parts
        end_keys = keys.END_KEYS_OF_CARDS if names_only_card else keys.END_KEYS_OF_CHIPS
        _store_chip(answer, ensure_chip(draft, slot), section, end_keys)
    else:
        draft.add_unknown(*section.entries)


def _reason_to_skip(answer: _CardAnswer, section: Section) -> str:
    """Return why a section is not read, or an empty string if it is read."""
    if section.repeated_line is not None and answer.default_slot == Slot() and section.part is None:
        return "answers about several unnamed chips are not read: save them with their command lines"
    if section.repeated_line is not None:
        return "repeated values are not read, because the name of a chip or part between them is missing"
    if section.part is not None and section.part.chip is None and not section.part.is_other_part:
        return "a chip without a valid number is not read"
    is_unnamed = section.part is None and section.has_content
    if is_unnamed and (
        answer.has_named_parts or (answer.card.chip_count is not None and not _has_only_keys(section, keys.CARD_FIELDS))
    ):
        content = "processes" if section.rows else "readings"
        return f"{content} are not read, because the name of their chip or part is missing"
    return ""


def _is_of_whole_card(answer: _CardAnswer, section: Section) -> bool:
    """Return whether all values of the section belong to the card as a whole."""
    return _has_only_keys(section, keys.CARD_FIELDS if len(answer.all_chips()) > 1 else keys.CARD_SENSORS)


def _has_only_keys(section: Section, fields: Mapping[str, object]) -> bool:
    measured_keys = set(filter(is_measured, section.entries))
    return bool(measured_keys) and not section.rows and measured_keys <= fields.keys()


def _store_chip(answer: _CardAnswer, device: int, section: Section, end_keys: Sequence[keys.EndKey]) -> None:
    draft = answer.draft
    _store_identity(draft, device, section.entries)
    _add_events(draft, device, section.entries)
    if section.has_content:
        is_complete = _check_end(draft, section, end_keys)
        read_block(draft, device, section.entries, Evidence(is_complete, answer.has_no_hbm))
    draft.processes.extend(Process(device, row.pid, row.name, row.memory_bytes) for row in section.rows)
    if section.is_idle and not section.rows:
        draft.set_value(device, metric("processes"), 0.0)


def _check_end(
    draft: Draft, section: Section, end_keys: Sequence[keys.EndKey], other_keys: AbstractSet[str] = frozenset()
) -> bool:
    """Return whether the section is complete, and report a truncated section."""
    # An end key may require or exclude a key that is printed in another section (`other_keys`).
    last_key = section.last_key
    printed_keys = {*section.entries, *other_keys} | ({keys.CHIP_KEY} if section.part else set())
    is_complete = last_key not in KNOWN_KEYS or any(
        end.key == last_key and end.excludes not in printed_keys and (not end.requires or end.requires in printed_keys)
        for end in end_keys
    )
    if not is_complete:
        draft.add_problem(section.where, f'the answer is cut off below "{quote(last_key)}"')
    return is_complete


def _add_events(draft: Draft, device: int, block: Block) -> None:
    """Report an event for each active fault."""
    codes = block[keys.ERROR_CODE_KEY].text.replace(",", " ").split() if keys.ERROR_CODE_KEY in block else []
    events_text = block[keys.FAULT_EVENT_KEY].text if keys.FAULT_EVENT_KEY in block else ""
    for match in filter(None, map(_CODE.match, codes)):
        draft.add_event(device, f"error_{match[1].lower()}", quote(f"{keys.ERROR_CODE_KEY}: {match[1]}"))
    for match in _EVENT.finditer(events_text):
        draft.add_event(device, f"error_{match[1].lower().removeprefix('0x')}", quote(events_text))


def _add_chip_faults(answer: _CardAnswer, sections: Sequence[Section]) -> None:
    """Report an event for each chip of the card if a fault count is above 0."""
    counts = [
        (key, section.entries[key]) for section in sections for key in keys.FAULT_COUNT_KEYS if key in section.entries
    ]
    for key, entry in counts:
        if not entry.text:
            answer.draft.add_problem(entry.line.where, f"{key} has no value")
        if units.integer(entry.text):
            for slot in answer.all_chips():
                answer.draft.add_event(ensure_chip(answer.draft, slot), "chip_fault", quote(f"{key}: {entry.text}"))


def _store_identity(draft: Draft, device: int, block: Block) -> None:
    def text(*names: str) -> str | None:
        return next((units.text_or_none(block[name].text) for name in names if name in block), None)

    address = text(keys.ADDRESS_KEY)
    template = Device(
        draft.vendor,
        model=text(*keys.MODEL_KEYS),
        uuid=text(*keys.UUID_KEYS),
        bus_id=bus_address(address) if address else None,
        serial=text(keys.SERIAL_KEY),
        driver=text(keys.DRIVER_KEY),
    )
    facts = {name: units.text_or_none(block[key].text) for key, name in keys.FACTS.items() if key in block}
    if keys.FAULT_EVENT_KEY in block:
        facts["error_codes"] = " ".join(_EVENT.findall(block[keys.FAULT_EVENT_KEY].text)) or None
    if keys.RATED_POWER_KEY in block:
        facts["power_kind"] = "rated"
    draft.describe(device, template, facts)


def _totals_in(lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
    for line in lines:
        name, _, value = line.text.partition(":")
        count = units.integer(value)
        if line.ended and count is not None and split_key(name)[0] in keys.TOTAL_KEYS:
            yield line, count


def _check_totals(draft: Draft, printed_totals: Sequence[tuple[Line, int]]) -> None:
    """Report a truncated list if a printed total differs from the number of listed cards."""
    listed_cards = {slot.card for slot in slots_in(draft)}
    for line, count in printed_totals:
        if count != len(listed_cards):
            draft.is_cut = True
            draft.add_problem(line.where, wrong_count(count, len(listed_cards)))
