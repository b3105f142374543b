"""Turns a listing into devices and readings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import state_readings
from telemetry_parsers.model import Absent, Device, Reading
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.keys import MAX_KEYS
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.saved import key_text_pairs
from telemetry_parsers.rocm.values import level_of
from telemetry_parsers.text.lines import bus_address, quote

# Words that identify the vendor in a printed vendor or product name.
_VENDOR_WORDS: Mapping[str, str] = {
    "haiguang": "hygon",
    "c-3000": "hygon",
    "hygon": "hygon",
    "advanced micro devices": "amd",
    "amd/ati": "amd",
    "0x1002": "amd",
    "0x1d94": "hygon",
}
# PCI device ids of Hygon's cards, for which AMD's tools print no vendor.
_HYGON_CHIPS = frozenset({"0x54b7", "0x55b7", "0x62b7", "0x6210", "0x6211", "0x6320", "0x6370", "0x6430"})
_VENDOR_MARKS = {**_VENDOR_WORDS, **dict.fromkeys(_HYGON_CHIPS, "hygon")}
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
# The separator in a line of Hygon's hy-smi: `0000:09:00.0 --> SN: 01-000206 --> OAM ID: 1`.
_ARROW = re.compile(r"\s{0,4}-->\s{0,4}")
_DIES_PER_PACKAGE = 2
_SECOND_DIE_NOTE = "secondary die"
_CHIP_ID = re.compile(r"[0-9a-f]{4}\Z")
# -1 means that there are no NUMA nodes. Older versions print -1 as an unsigned number.
_NO_NUMA_NODE = ("-1", "4294967295")
# (partition number on the card, position of the card's first partition if known)
_Partition = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _Card:
    """The printed texts of one card, by key."""

    index: int
    texts: Mapping[str, str]
    is_second_die: bool

    def identity_text(self, field_name: str) -> str | None:
        return _identity_text(self.texts, field_name)

    @property
    def bus(self) -> str | None:
        return bus_address(_ARROW.split(self.identity_text("bus") or "", maxsplit=1)[0])


def _devices_of(entries_by_card: Mapping[int, Sequence[Entry]], default_vendor: str) -> list[Device]:
    cards = [
        _Card(index, texts_of(entries), any(_SECOND_DIE_NOTE in entry.text.lower() for entry in entries))
        for index, entries in entries_by_card.items()
    ]
    positions_by_uuid: dict[str, list[int]] = {}
    for position, card in enumerate(cards):
        if uuid := card.identity_text("uuid"):
            positions_by_uuid.setdefault(uuid, []).append(position)
    primary_dies = _primary_dies(cards, positions_by_uuid)
    partitions = _partitions_by_function(cards, positions_by_uuid.values()) | _partitions_by_number(cards)
    return [
        _create_device(card, default_vendor, partitions.get(position, (None, None)), primary_dies.get(position))
        for position, card in enumerate(cards)
    ]


def texts_of(entries: Sequence[Entry]) -> dict[str, str]:
    """For each normalized key, return the first text that is not a placeholder."""
    texts: dict[str, str] = {}
    for entry in entries[: keys.MAX_KEYS]:
        if units.placeholder(entry.text) is None:
            texts.setdefault(keys.parse_key(entry.key).name, entry.text.strip())
    return texts


def _identity_text(texts: Mapping[str, str], field_name: str) -> str | None:
    return next((texts[name] for name in keys.IDENTITY[field_name] if name in texts), None)


def mentions_vendor(vendor: str, text: str) -> bool:
    """Return whether the text contains a word that identifies that vendor."""
    lower = text.lower()
    return any(mark in lower for mark, marked_vendor in _VENDOR_MARKS.items() if marked_vendor == vendor)


def vendor_of(texts: Mapping[str, str]) -> str | None:
    """Return the vendor that is named in a card's texts, or None."""
    names = " ".join(texts.get(name, "") for name in (*keys.IDENTITY["vendor"], *keys.IDENTITY["series"])).lower()
    vendors = (vendor for words, vendor in _VENDOR_WORDS.items() if words in names)
    return next(vendors, "hygon" if (_identity_text(texts, "chip") or "").lower() in _HYGON_CHIPS else None)


def _create_device(
    card: _Card, default_vendor: str, partition: tuple[str | None, int | None], primary_die: str | None
) -> Device:
    serial, uuid = card.identity_text("serial"), card.identity_text("uuid")
    partition_name, parent = partition
    facts = _card_facts(card) | ({"primary_die": primary_die} if primary_die else {})
    return Device(
        vendor=vendor_of(card.texts) or default_vendor,
        index=card.index,
        model=_model_name(card),
        # On BW cards, hy-smi prints the serial number as the unique id, although this number is not unique.
        uuid=uuid if uuid != serial else None,
        bus_id=card.bus,
        partition=partition_name,
        parent=parent,
        serial=None if serial == "0" else serial,
        driver=card.identity_text("driver"),
        facts=tuple(sorted(facts.items())),
    )


def _model_name(card: _Card) -> str | None:
    """Return the card's model name, ignoring hexadecimal numbers."""
    names = (card.texts.get(key) for key in (*keys.IDENTITY["series"], *keys.IDENTITY["model"]))
    return next((name for name in names if name and not _HEXADECIMAL.match(name)), None)


def _card_facts(card: _Card) -> dict[str, str]:
    facts = {name: text for name in keys.FACTS if (text := card.identity_text(name)) is not None}
    chip = (card.identity_text("chip") or "").lower()
    if chip:
        facts["chip_id"] = f"0x{chip}" if _CHIP_ID.match(chip) else chip
    node = card.identity_text("numa_node")
    if node is not None and node not in _NO_NUMA_NODE:
        facts["numa_node"] = node
    return facts


def _primary_dies(cards: Sequence[_Card], positions_by_uuid: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Map each second die to the first die of its package. The first die's power is that of both dies."""
    # The first die is not the second die's parent, because both are separate devices on the PCI bus.
    packages = [dies for dies in positions_by_uuid.values() if len(dies) == _DIES_PER_PACKAGE]
    return {
        second_die: cards[first_die].bus or str(cards[first_die].index)
        for package in packages
        for first_die, second_die in (package, reversed(package))
        if cards[second_die].is_second_die
    }


def _partitions_by_number(cards: Sequence[_Card]) -> dict[int, _Partition]:
    partitions: dict[int, _Partition] = {}
    parent: int | None = None
    for position, card in enumerate(cards):
        partition_number = units.integer(card.identity_text("partition") or "")
        if not partition_number:
            parent = position if partition_number == 0 else None
            continue
        has_parent = parent is not None and card.identity_text("chip") in (None, cards[parent].identity_text("chip"))
        partitions[position] = (str(partition_number), parent if has_parent else None)
    return partitions


def _partitions_by_function(cards: Sequence[_Card], uuid_groups: Iterable[Sequence[int]]) -> dict[int, _Partition]:
    partitions: dict[int, _Partition] = {}
    for positions in uuid_groups:
        buses = {position: cards[position].bus or "" for position in positions}
        parent = next((position for position, bus in buses.items() if bus.endswith(".0")), None)
        slots = {bus.rpartition(".")[0] for bus in buses.values()}
        if parent is not None and len(slots) == 1 and len(set(buses.values())) == len(buses):
            other_cards = ((position, bus) for position, bus in buses.items() if position != parent)
            partitions |= {position: (bus.rpartition(".")[2], parent) for position, bus in other_cards}
    return partitions


# A card that does not answer has no readings of these metrics.
_BASIC_METRICS = frozenset({"temperature_celsius", "power_watts", "utilization_ratio"})
_MIN_BASIC_METRICS = 2
# For a card that does not answer, the tool prints these metrics as zeros.
_ZEROED_METRICS = frozenset(
    {"utilization_ratio", "fan_ratio", "fan_rpm", "memory_used_ratio", "memory_used_bytes", "memory_activity_ratio", "clock_hertz"}
)  # fmt: skip


def read_cards(listing: Listing, metric_keys: Collection[str], draft: Draft) -> None:
    """Add the cards to the draft."""
    draft.problems.extend(listing.problems)
    draft.add_unknown(*listing.unknown)
    draft.is_cut = listing.is_cut
    driver = _identity_text(texts_of(listing.system), "driver")
    if driver:
        draft.facts["driver_version"] = driver
    for (index, entries), template in zip(listing.cards.items(), _devices_of(listing.cards, draft.vendor), strict=True):
        device = draft.device(index, replace(template, driver=template.driver or driver))
        _read_card(device, f"card {index}", entries, metric_keys, draft)


def _read_card(device: int, where: str, entries: Sequence[Entry], metric_keys: Collection[str], draft: Draft) -> None:
    """Add a card's readings to the draft, and describe the card."""
    for entry in entries[:MAX_KEYS]:
        for key, text in key_text_pairs(entry.key, entry.text):
            _read_entry(Entry(key, text, entry.where), device, metric_keys, draft)
    power_kind = _store_main_power(device, draft)
    readings = draft.readings_of(device)
    _discard_zeros(readings, draft)
    if len(entries) > MAX_KEYS:
        draft.add_problem(where, f"only the first {MAX_KEYS} of {len(entries)} values are read")
    description = draft.device_at(device)
    # In some versions, only the first partition of a card has readings (MI300A in TPX, ROCm 6.4).
    is_up = description.parent is not None or _may_be_up(readings, _BASIC_METRICS)
    if not is_up:
        draft.add_problem(where, "temperature, power and utilization cannot be read: the card does not answer")
    facts = (*description.facts, ("power_kind", power_kind)) if power_kind else description.facts
    draft.replace_device(device, replace(description, up=is_up, facts=tuple(sorted(facts))))


def _read_entry(entry: Entry, device: int, metric_keys: Collection[str], draft: Draft) -> None:
    key = keys.parse_key(entry.key)
    targets = keys.targets_of(key)
    readable_targets = [target for target in targets if target.key in metric_keys]
    if key.name in keys.LEVEL_KEYS:
        _read_level(entry, device, draft)
    elif keys.is_level_only(key, entry.text):
        return
    elif readable_targets:
        draft.store(device, readable_targets, entry.text, f"{entry.where} {quote(entry.key)}", key.unit)
    elif targets or not keys.is_ignored(key, entry.text):
        draft.add_unknown(entry.key)


def _read_level(entry: Entry, device: int, draft: Draft) -> None:
    level = level_of(entry.text)
    if not isinstance(level, Absent):
        for state_reading in state_readings(device, "performance_level", level):
            draft.add_reading(state_reading)
    elif level is Absent.NOT_UNDERSTOOD or not entry.text.strip():
        draft.add_problem(entry.where, f'"{quote(entry.text)}" is not a known performance level')


def _store_main_power(device: int, draft: Draft) -> str:
    """Store the card's main power. Return its kind, or an empty string if no power is a number."""
    value_by_kind = {kind: draft.value(device, f"power_{kind}_watts") for kind in ("instant", "average")}
    values = [(kind, value) for kind, value in value_by_kind.items() if value is not None]
    numbers = [(kind, value) for kind, value in values if not isinstance(value, Absent)]
    if candidates := numbers or values:
        draft.set_value(device, metric("power_watts"), candidates[0][1])
    return numbers[0][0] if numbers else ""


def _discard_zeros(readings: Sequence[Reading], draft: Draft) -> None:
    """Mark zeros as absent if neither temperature nor power can be read."""
    if not _may_be_up(readings, _BASIC_METRICS - {"utilization_ratio"}):
        for item in readings:
            if item.metric in _ZEROED_METRICS and item.value == 0.0:
                draft.replace_reading(replace(item, value=Absent.IMPLAUSIBLE))


def _may_be_up(readings: Iterable[Reading], metrics: Collection[str]) -> bool:
    """Return False if at least two of these metrics were printed, but none can be read."""
    basic_readings = [item for item in readings if item.metric in metrics]
    printed = {item.metric for item in basic_readings}
    return len(printed) < _MIN_BASIC_METRICS or any(item.value is not Absent.NOT_REPORTED for item in basic_readings)
