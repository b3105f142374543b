"""Turns a listing into devices and readings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import state_readings
from telemetry_parsers.model import Absent, Device, Reading
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.saved import key_text_pairs
from telemetry_parsers.rocm.values import performance_level_of
from telemetry_parsers.text.lines import bus_address, quote

# Parts of printed vendor and product names, which identify the vendor.
_VENDOR_BY_NAME: Mapping[str, str] = {
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
_VENDOR_BY_MARK = {**_VENDOR_BY_NAME, **dict.fromkeys(_HYGON_CHIPS, "hygon")}
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
# The separator in a line of Hygon's hy-smi: `0000:09:00.0 --> SN: 01-000206 --> OAM ID: 1`.
_ARROW = re.compile(r"\s{0,4}-->\s{0,4}")
_DIES_PER_PACKAGE = 2
_SECONDARY_DIE_NOTE = "secondary die"
_CHIP_ID = re.compile(r"[0-9a-f]{4}\Z")
# -1 means that there are no NUMA nodes. Older versions print -1 as an unsigned number.
_NO_NUMA_NODE = ("-1", "4294967295")
# (number of the partition on its card, position of the card's first partition or None if unknown)
_Partition = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _Card:
    """A card. `texts` maps each key to the text that the tool prints for it."""

    index: int
    texts: Mapping[str, str]
    is_secondary_die: bool

    def identity_text(self, field_name: str) -> str | None:
        return _identity_text(self.texts, field_name)

    @property
    def bus_id(self) -> str | None:
        return bus_address(_ARROW.split(self.identity_text("bus") or "", maxsplit=1)[0])


def _create_devices(entries_by_card: Mapping[int, Sequence[Entry]], default_vendor: str) -> list[Device]:
    cards = [
        _Card(index, texts_of(entries), any(_SECONDARY_DIE_NOTE in entry.text.lower() for entry in entries))
        for index, entries in entries_by_card.items()
    ]
    positions_by_uuid: dict[str, list[int]] = {}
    for position, card in enumerate(cards):
        if uuid := card.identity_text("uuid"):
            positions_by_uuid.setdefault(uuid, []).append(position)
    primary_dies = _primary_dies(cards, positions_by_uuid)
    partitions = _partitions_from_bus_ids(cards, positions_by_uuid.values()) | _partitions_from_numbers(cards)
    return [
        _create_device(card, default_vendor, partitions.get(position, (None, None)), primary_dies.get(position))
        for position, card in enumerate(cards)
    ]


def texts_of(entries: Sequence[Entry]) -> dict[str, str]:
    """Map each normalized key to its first text that is not a placeholder."""
    texts: dict[str, str] = {}
    for entry in entries[: keys.MAX_KEYS]:
        if units.placeholder(entry.text) is None:
            texts.setdefault(keys.parse_key(entry.key).name, entry.text.strip())
    return texts


def _identity_text(texts: Mapping[str, str], field_name: str) -> str | None:
    return next((texts[name] for name in keys.IDENTITY[field_name] if name in texts), None)


def mentions_vendor(vendor: str, text: str) -> bool:
    """Return whether the text contains a name or a PCI device id of this vendor."""
    lower = text.lower()
    return any(mark in lower for mark, vendor_of_mark in _VENDOR_BY_MARK.items() if vendor_of_mark == vendor)


def vendor_of(texts: Mapping[str, str]) -> str | None:
    """Return the vendor that a card's printed names or PCI device id identify, or None if unknown."""
    names = " ".join(texts.get(name, "") for name in (*keys.IDENTITY["vendor"], *keys.IDENTITY["series"])).lower()
    vendors = (vendor for name, vendor in _VENDOR_BY_NAME.items() if name in names)
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
        bus_id=card.bus_id,
        partition=partition_name,
        parent=parent,
        serial=None if serial == "0" else serial,
        driver=card.identity_text("driver"),
        facts=tuple(sorted(facts.items())),
    )


def _model_name(card: _Card) -> str | None:
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
    """Map the position of each secondary die to the primary die's bus address or index."""
    # The power of the primary die includes that of the secondary die. The primary die is not the parent of the
    # secondary die, because both are separate devices on the PCI bus.
    packages = [dies for dies in positions_by_uuid.values() if len(dies) == _DIES_PER_PACKAGE]
    return {
        secondary_die: cards[primary_die].bus_id or str(cards[primary_die].index)
        for package in packages
        for primary_die, secondary_die in permutations(package)
        if cards[secondary_die].is_secondary_die
    }


def _partitions_from_numbers(cards: Sequence[_Card]) -> dict[int, _Partition]:
    """Return the partition of each card whose printed partition number is not 0, by position."""
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


def _partitions_from_bus_ids(cards: Sequence[_Card], uuid_groups: Iterable[Sequence[int]]) -> dict[int, _Partition]:
    """Return the partitions among cards with the same UUID and bus slot. The parent is PCI function 0."""
    partitions: dict[int, _Partition] = {}
    for positions in uuid_groups:
        buses = {position: cards[position].bus_id or "" for position in positions}
        parent = next((position for position, bus in buses.items() if bus.endswith(".0")), None)
        slots = {bus.rpartition(".")[0] for bus in buses.values()}
        if parent is not None and len(slots) == 1 and len(set(buses.values())) == len(buses):
            other_cards = ((position, bus) for position, bus in buses.items() if position != parent)
            partitions |= {position: (bus.rpartition(".")[2], parent) for position, bus in other_cards}
    return partitions


# A card without numbers for these metrics does not answer.
_BASIC_METRICS = frozenset({"temperature_celsius", "power_watts", "utilization_ratio"})
_MIN_BASIC_METRICS = 2
# For a card that does not answer, the tool prints these metrics as zeros.
_ZEROED_METRICS = frozenset(
    {"utilization_ratio", "fan_ratio", "fan_rpm", "memory_used_ratio", "memory_used_bytes", "memory_activity_ratio", "clock_hertz"}
)  # fmt: skip


def read_cards(listing: Listing, metric_keys: Collection[str], draft: Draft) -> None:
    """Add the cards in a listing to the draft, with their readings of the metrics in `metric_keys`."""
    draft.problems.extend(listing.problems)
    draft.add_unknown(*listing.unknown)
    draft.is_cut = listing.is_cut
    driver = _identity_text(texts_of(listing.system), "driver")
    if driver:
        draft.facts["driver_version"] = driver
    for (index, entries), template in zip(
        listing.cards.items(), _create_devices(listing.cards, draft.vendor), strict=True
    ):
        position = draft.device(index, replace(template, driver=template.driver or driver))
        _read_card(position, f"card {index}", entries, metric_keys, draft)


def _read_card(position: int, where: str, entries: Sequence[Entry], metric_keys: Collection[str], draft: Draft) -> None:
    """Store a card's readings, its kind of power, and whether it is up."""
    for entry in entries[: keys.MAX_KEYS]:
        for key, text in key_text_pairs(entry.key, entry.text):
            _read_entry(Entry(key, text, entry.where), position, metric_keys, draft)
    power_kind = _store_main_power(position, draft)
    readings = draft.readings_of(position)
    _mark_zeros_absent(readings, draft)
    if len(entries) > keys.MAX_KEYS:
        draft.add_problem(where, f"only the first {keys.MAX_KEYS} of {len(entries)} values are read")
    device = draft.device_at(position)
    # In some versions, only the first partition of a card has readings (MI300A in TPX, ROCm 6.4).
    is_up = device.parent is not None or _may_be_up(readings, _BASIC_METRICS)
    if not is_up:
        draft.add_problem(where, "temperature, power and utilization cannot be read: the card does not answer")
    facts = (*device.facts, ("power_kind", power_kind)) if power_kind else device.facts
    draft.replace_device(position, replace(device, up=is_up, facts=tuple(sorted(facts))))


def _read_entry(entry: Entry, position: int, metric_keys: Collection[str], draft: Draft) -> None:
    key = keys.parse_key(entry.key)
    targets = keys.targets_of(key)
    readable_targets = [target for target in targets if target.key in metric_keys]
    if key.name in keys.PERFORMANCE_LEVEL_KEYS:
        _read_level(entry, position, draft)
    elif keys.is_level_only(key, entry.text):
        return
    elif readable_targets:
        draft.store(position, readable_targets, entry.text, f"{entry.where} {quote(entry.key)}", key.unit)
    elif targets or not keys.is_ignored(key, entry.text):
        draft.add_unknown(entry.key)


def _read_level(entry: Entry, position: int, draft: Draft) -> None:
    level = performance_level_of(entry.text)
    if not isinstance(level, Absent):
        for state_reading in state_readings(position, "performance_level", level):
            draft.add_reading(state_reading)
    elif level is Absent.NOT_UNDERSTOOD or not entry.text.strip():
        draft.add_problem(entry.where, f'"{quote(entry.text)}" is not a known performance level')


def _store_main_power(position: int, draft: Draft) -> str:
    """Store `power_watts`. Return its kind, `instant` or `average`, or an empty string if neither is a number."""
    value_by_kind = {kind: draft.value(position, f"power_{kind}_watts") for kind in ("instant", "average")}
    values = [(kind, value) for kind, value in value_by_kind.items() if value is not None]
    numbers = [(kind, value) for kind, value in values if not isinstance(value, Absent)]
    if candidates := numbers or values:
        draft.set_value(position, metric("power_watts"), candidates[0][1])
    return numbers[0][0] if numbers else ""


def _mark_zeros_absent(readings: Sequence[Reading], draft: Draft) -> None:
    """Mark zeros as absent if neither temperature nor power can be read."""
    if not _may_be_up(readings, _BASIC_METRICS - {"utilization_ratio"}):
        for reading in readings:
            if reading.metric in _ZEROED_METRICS and reading.value == 0.0:
                draft.replace_reading(replace(reading, value=Absent.IMPLAUSIBLE))


def _may_be_up(readings: Iterable[Reading], metrics: Collection[str]) -> bool:
    """Return False if at least two of `metrics` were printed, but none of them with a value."""
    printed = [(reading.metric, reading.value) for reading in readings if reading.metric in metrics]
    is_any_known = any(value is not Absent.NOT_REPORTED for _, value in printed)
    return is_any_known or len({metric for metric, _ in printed}) < _MIN_BASIC_METRICS
