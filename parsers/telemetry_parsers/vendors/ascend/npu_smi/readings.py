"""Reads the values of a block, and the mapping of slots to chips (`npu-smi info -m`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, Device, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.answers import not_a_row, not_understood
from telemetry_parsers.text.framed import headings_in
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import PHYSICAL_SPACE


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a chip: its NPU id and chip number, or its physical id."""

    card: int | None = None
    chip: int | None = None
    physical_id: int | None = None

    def device(self, vendor: str) -> Device:
        """Return the device in this slot, with the NPU id as its index."""
        numbers = {"card": self.card, "chip": self.chip}
        facts = tuple((name, str(number)) for name, number in numbers.items() if number is not None)
        return Device(vendor, self.card, facts=facts)


def ensure_chip(draft: Draft, slot: Slot) -> int:
    """Return the position of this chip in the draft. Add the chip if it is missing."""
    return draft.device(slot) if draft.has_device(slot) else draft.device(slot, slot.device(draft.vendor))


def slots_in(draft: Draft) -> list[Slot]:
    """Return the slots of the draft's chips, in the order of their positions."""
    return [slot for slot in draft.device_keys() if isinstance(slot, Slot)]


_NAME = "chip name"
_MAPPING = frozenset({"npu id", "slot id", "chip id", "chip logic id", "chip phy-id", _NAME})


def read_mapping(lines: Sequence[Line], draft: Draft) -> None:
    """Read each chip's logic id and physical id."""
    headings: tuple[str, ...] = ()
    index_spaces: set[str | None] = set()
    for line in lines:
        names = mapping_headings(line)
        if names:
            headings = names
        elif not line.ended or not line.text.strip():
            continue
        elif not headings:
            draft.add_problem(line.where, not_understood(line.text))
        elif (row := _mapping_row(line, headings)) is None:
            draft.add_problem(line.where, not_a_row(line.text, "the mapping"))
        else:
            index_spaces.add(_add_mapped_chip(draft, row))
    if headings and not index_spaces:
        draft.add_problem(lines[-1].where, "the mapping names no chip")
    draft.index_space = PHYSICAL_SPACE if index_spaces - {None} == {PHYSICAL_SPACE} else ""


def mapping_headings(line: Line) -> tuple[str, ...]:
    """Return the headings of `npu-smi info -m`, or () for any other line."""
    names = headings_in(line.text.replace("\t", "  "), _MAPPING) if line.ended else ()
    return names if names[:1] == ("npu id",) and "chip id" in names else ()


def _mapping_row(line: Line, headings: Sequence[str]) -> dict[str, str] | None:
    """Return the cells of a row that consists of numbers and a name, or None for any other line."""
    words = line.text.split(maxsplit=len(headings) - 1)
    *number_texts, name = words or [""]
    if len(words) != len(headings) or units.integer(words[0]) is None or _is_number(name.split()[0]):
        return None
    if headings[-1] != _NAME or not all(map(_is_number, number_texts)):
        return None
    return {heading: word.strip() for heading, word in zip(headings, words, strict=True)}


def _is_number(word: str) -> bool:
    return word == "-" or units.integer(word) is not None


def _add_mapped_chip(draft: Draft, row: Mapping[str, str]) -> str | None:
    """Add a chip. Return the space of its index, or None if the row is not that of a chip."""
    slot = Slot(units.integer(row["npu id"]), units.integer(row["chip id"]))
    logic_id, physical_id = units.integer(row.get("chip logic id", "")), units.integer(row.get("chip phy-id", ""))
    if slot.chip is None or (logic_id is None and physical_id is None):
        return None
    device = ensure_chip(draft, slot)
    draft.set_index(device, logic_id if physical_id is None else physical_id)
    headings_by_fact = {"logic_id": "chip logic id", "phy_id": "chip phy-id", "slot": "slot id"}
    facts = {name: units.text_or_none(row.get(heading)) for name, heading in headings_by_fact.items()}
    draft.describe(device, Device(draft.vendor, model=units.text_or_none(row.get(_NAME))), facts)
    return "logic" if physical_id is None else PHYSICAL_SPACE


@dataclass(frozen=True, slots=True)
class Entry:
    """A printed value with its line and the unit in its key."""

    text: str
    unit: str
    line: Line


Block = Mapping[str, Entry]

_HBM, _DDR = range(len(keys.MEMORY_NAMES))
_MEMORY_KEYS: Mapping[str, tuple[int, Target]] = {
    **{
        pattern.format(name): (kind, target)
        for pattern, target in keys.MEMORY_FIELDS.items()
        for kind, names in enumerate(keys.MEMORY_NAMES)
        for name in names
    },
    **{name: (_DDR, keys.MEMORY_FIELDS["{} " + name]) for name in keys.BARE_MEMORY_KEYS},
}
_JPEG_TARGET = metric("engine_utilization_ratio", "jpeg")
_PENDING_TARGET = metric("retired_pages_pending")
KNOWN_KEYS = frozenset(
    {
        *keys.FIELDS, *_MEMORY_KEYS, *keys.ECC_FIELDS, *keys.ECC_ENABLED_KEYS, *keys.JPEG_KEYS, *keys.PENDING_PAGE_KEYS,
        *keys.HEALTH_KEYS, *keys.IDENTITY_KEYS, *keys.KEYS_WITHOUT_METRIC,
    }
)  # fmt: skip


def is_measured(key: str) -> bool:
    """Return whether a key is known to have a measured value."""
    return key in KNOWN_KEYS and key not in keys.IDENTITY_KEYS


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether a block is complete, and whether the product certainly has no HBM."""

    is_complete: bool
    has_no_hbm: bool


def read_block(draft: Draft, device: int, block: Block, evidence: Evidence) -> None:
    """Add the readings of a block to the draft, and report its unknown keys."""
    is_ambiguous = _is_memory_ambiguous(block)
    memory_kind = None if is_ambiguous else _memory_kind(block, evidence)
    if memory_kind is None and evidence.is_complete and _has_memory(block):
        text = "HBM's capacity is missing" if is_ambiguous else "the text does not show whether the chip has HBM"
        draft.add_problem(next(iter(block.values())).line.where, f"{text}, so the DDR readings are ignored")
    for key, target in _targets_of(block, memory_kind):
        _store_entry(draft, device, block[key], target)
    for key in keys.HEALTH_KEYS:
        if key in block:
            _store_entry(draft, device, block[key], keys.HEALTH_TARGET)
    _store_jpeg(draft, device, block)
    _store_pending_pages(draft, device, block)
    enabled_entry = next((block[key] for key in keys.ECC_ENABLED_KEYS if key in block), None)
    if enabled_entry is not None:
        _store_entry(draft, device, enabled_entry, keys.ECC_ENABLED_TARGET)
    for key in block:
        if key not in KNOWN_KEYS and not key.startswith(keys.IGNORED_PREFIXES):
            draft.add_unknown(key)


def read_card_fields(draft: Draft, devices: Sequence[int], block: Block) -> None:
    """Add the readings of a whole card to each of its chips, `devices`."""
    for key, entry in block.items():
        target = keys.CONTROLLER_FIELDS.get(key)
        if target is not None and (len(devices) > 1 or target.key != "power_card_watts"):
            for device in devices:
                _store_entry(draft, device, entry, target)
        elif key not in KNOWN_KEYS:
            draft.add_unknown(key)


def _targets_of(block: Block, memory_kind: int | None) -> Iterator[tuple[str, Target]]:
    """Yield (key, target) for each reading of the block. Only memory readings of `memory_kind` are included."""
    yield from ((key, target) for key in block for target in keys.FIELDS.get(key, ()))
    yield from ((key, keys.ECC_FIELDS[key]) for key in block if key in keys.ECC_FIELDS)
    memory = {key: _MEMORY_KEYS[key] for key in block if key in _MEMORY_KEYS}
    yield from ((key, target) for key, (kind, target) in memory.items() if kind == memory_kind)


def _has_memory(block: Block) -> bool:
    """Return whether the block contains readings of a chip's memory, not only of flash memory."""
    return (
        keys.FLASH_KEY not in block
        and not _is_zero(block, "ddr capacity")
        and not _MEMORY_KEYS.keys().isdisjoint(block)
    )


def _memory_kind(block: Block, evidence: Evidence) -> int | None:
    """Return `_HBM` or `_DDR`, or None if there is no memory or its kind is unknown."""
    if keys.FLASH_KEY in block:
        return None
    kinds = {_MEMORY_KEYS[key][0] for key in block if key in _MEMORY_KEYS}
    if _HBM in kinds and not _is_zero(block, "hbm capacity"):
        return _HBM
    if _DDR not in kinds or _is_zero(block, "ddr capacity"):
        return None
    has_no_hbm = _HBM in kinds or evidence.has_no_hbm or not keys.KEYS_WITHOUT_HBM.isdisjoint(block)
    may_have_hbm = not evidence.is_complete or not keys.KEYS_WITH_HBM.isdisjoint(block)
    return _DDR if has_no_hbm or not may_have_hbm else None


def _is_memory_ambiguous(block: Block) -> bool:
    """Return whether HBM and DDR are printed, but not the HBM's capacity."""
    has_hbm = any(_MEMORY_KEYS[key][0] == _HBM for key in block if key in _MEMORY_KEYS)
    capacity = block.get("hbm capacity")
    has_ddr = "ddr capacity" in block and not _is_zero(block, "ddr capacity")
    return has_hbm and has_ddr and (capacity is None or units.placeholder(capacity.text) is not None)


def _is_zero(block: Block, key: str) -> bool:
    return key in block and block[key].text == "0"


def _store_entry(draft: Draft, device: int, entry: Entry, target: Target) -> None:
    draft.store(device, (target,), entry.text, entry.line.where, entry.unit)


def _value_of(draft: Draft, entry: Entry, target: Target) -> Value:
    value = draft.value_in(target, entry.text, entry.unit)
    return Absent.NOT_UNDERSTOOD if value is None else value


def _store_jpeg(draft: Draft, device: int, block: Block) -> None:
    """Store the utilization of the busier JPEG engine."""
    entries = [block[key] for key in keys.JPEG_KEYS if key in block]
    values = [_value_of(draft, entry, _JPEG_TARGET) for entry in entries]
    if not entries:
        return
    numbers = [value for value in values if not isinstance(value, Absent)]
    missing = [value for value in values if isinstance(value, Absent)] + [Absent.NOT_REPORTED] * (len(entries) == 1)
    result: Value = missing[0] if missing else max(numbers)
    entry = entries[values.index(result) if result in values else 0]
    draft.set_value(device, _JPEG_TARGET, result, entry.text, entry.line.where)


def _store_pending_pages(draft: Draft, device: int, block: Block) -> None:
    """Store 1 if pages will be retired at the next start, or 0 if none will be."""
    entries = [block[key] for key in keys.PENDING_PAGE_KEYS if key in block]
    values = [_value_of(draft, entry, metric("retired_pages")) for entry in entries]
    for entry, value in zip(entries, values, strict=True):
        if isinstance(value, Absent):
            draft.set_value(device, _PENDING_TARGET, value, entry.text, entry.line.where)
            return
    is_pending = any(value != 0 for value in values)
    if is_pending or (values and len(values) % len(keys.BITS) == 0):
        draft.set_value(device, _PENDING_TARGET, float(is_pending), "", entries[0].line.where)
