"""Which device a card is: its names, its vendor, its partition, its other die."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from telemetry_parsers import units
from telemetry_parsers.model import Device
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.listing import Entry
from telemetry_parsers.text.lines import bus_address

# Words in a card's vendor or name that show whose it is.
_VENDOR_WORDS: Mapping[str, str] = {
    "haiguang": "hygon",
    "c-3000": "hygon",
    "hygon": "hygon",
    "advanced micro devices": "amd",
    "amd/ati": "amd",
    "0x1002": "amd",
    "0x1d94": "hygon",
}
# PCI device ids of Hygon's cards; AMD's tools print no vendor beside them.
_HYGON_CHIPS = frozenset({"0x54b7", "0x55b7", "0x62b7", "0x6210", "0x6211", "0x6320", "0x6370", "0x6430"})
_MARKS = {**_VENDOR_WORDS, **dict.fromkeys(_HYGON_CHIPS, "hygon")}
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
# Hygon's hy-smi: `0000:09:00.0 --> SN: 01-000206 --> OAM ID: 1`.
_ARROW = re.compile(r"\s{0,4}-->\s{0,4}")
_DIES = 2
_SECOND_DIE = "secondary die"
_CHIP_ID = re.compile(r"[0-9a-f]{4}\Z")
# -1, also as the unsigned number that older versions print: the machine has no NUMA nodes.
_NO_NUMA_NODE = ("-1", "4294967295")
# Which partition a card is, and the position of the card that stands for the whole; None where that is not known.
_Partition = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _Card:
    """The texts of one card's identity, by key."""

    index: int
    texts: Mapping[str, str]
    is_second_die: bool

    def first(self, what: str) -> str | None:
        """Its `uuid` or another of these, None where it is not printed."""
        return first_of(self.texts, what)

    @property
    def bus(self) -> str | None:
        """The address of the card, None where none is printed."""
        return bus_address(_ARROW.split(self.first("bus") or "", maxsplit=1)[0])


def devices_of(listed: Mapping[int, Sequence[Entry]], default_vendor: str) -> list[Device]:
    """The device of each card as far as its identity goes; a card that names no vendor is of this one."""
    cards = [_card(index, entries) for index, entries in listed.items()]
    chips: dict[str, list[int]] = {}
    for position, card in enumerate(cards):
        if uuid := card.first("uuid"):
            chips.setdefault(uuid, []).append(position)
    primary_dies = _primary_dies(cards, chips)
    partitions = _by_function(cards, chips.values()) | _by_number(cards)
    return [
        _device(card, default_vendor, partitions.get(position, (None, None)), primary_dies.get(position))
        for position, card in enumerate(cards)
    ]


def texts_of(entries: Sequence[Entry]) -> dict[str, str]:
    """The first text of each key that is no placeholder, by the key's one form."""
    texts: dict[str, str] = {}
    for entry in entries[: keys.MOST_KEYS]:
        if units.placeholder(entry.text) is None:
            texts.setdefault(keys.key_of(entry.key).name, entry.text.strip())
    return texts


def first_of(texts: Mapping[str, str], what: str) -> str | None:
    """The first text of the keys that mean this part of its identity, such as `driver`."""
    return next((texts[name] for name in keys.WHO[what] if name in texts), None)


def may_name(vendor: str, text: str) -> bool:
    """Whether a card in this text names that vendor."""
    lower = text.lower()
    return any(mark in lower for mark, owner in _MARKS.items() if owner == vendor)


def vendor_of(texts: Mapping[str, str]) -> str | None:
    """The vendor that the card names, None when it names none."""
    names = " ".join(texts.get(name, "") for name in (*keys.WHO["vendor"], *keys.WHO["series"])).lower()
    vendors = (vendor for words, vendor in _VENDOR_WORDS.items() if words in names)
    return next(vendors, "hygon" if (first_of(texts, "chip") or "").lower() in _HYGON_CHIPS else None)


def _card(index: int, entries: Sequence[Entry]) -> _Card:
    return _Card(index, texts_of(entries), any(_SECOND_DIE in entry.text.lower() for entry in entries))


def _device(
    card: _Card, default_vendor: str, partition: tuple[str | None, int | None], primary_die: str | None
) -> Device:
    serial, uuid = card.first("serial"), card.first("uuid")
    facts = _facts(card) | ({"primary_die": primary_die} if primary_die else {})
    return Device(
        vendor=vendor_of(card.texts) or default_vendor,
        index=card.index,
        model=_model(card),
        # On BW cards hy-smi prints the serial number as the unique id, and serial numbers repeat.
        uuid=uuid if uuid != serial else None,
        bus_id=card.bus,
        partition=partition[0],
        parent=partition[1],
        serial=None if serial == "0" else serial,
        driver=card.first("driver"),
        facts=tuple(sorted(facts.items())),
    )


def _model(card: _Card) -> str | None:
    """The name of the card; some versions print a number where the name should be, which is none."""
    names = (card.texts.get(key) for key in (*keys.WHO["series"], *keys.WHO["model"]))
    return next((name for name in names if name and not _HEXADECIMAL.match(name)), None)


def _facts(card: _Card) -> dict[str, str]:
    facts = {name: text for name in keys.FACTS if (text := card.first(name)) is not None}
    chip = (card.first("chip") or "").lower()
    if chip:
        facts["chip_id"] = f"0x{chip}" if _CHIP_ID.match(chip) else chip
    node = card.first("numa_node")
    if node is not None and node not in _NO_NUMA_NODE:
        facts["numa_node"] = node
    return facts


def _primary_dies(cards: Sequence[_Card], chips: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """For each second die, by its position, the die that prints the power of both: the other one of the same unique id.

    A fact and not the parent: each die is a device of its own on the PCI bus and for programs.
    """
    pairs = [dies for dies in chips.values() if len(dies) == _DIES]
    return {
        second: cards[first].bus or str(cards[first].index)
        for one, two in pairs
        for first, second in ((one, two), (two, one))
        if cards[second].is_second_die
    }


def _by_number(cards: Sequence[_Card]) -> dict[int, _Partition]:
    """A partition other than 0 belongs to the last partition 0 before it of the same kind of chip."""
    partitions: dict[int, _Partition] = {}
    owner: int | None = None
    for position, card in enumerate(cards):
        number = units.whole(card.first("partition") or "")
        if not number:
            owner = position if number == 0 else None
            continue
        is_owned = owner is not None and card.first("chip") in (None, cards[owner].first("chip"))
        partitions[position] = (str(number), owner if is_owned else None)
    return partitions


def _by_function(cards: Sequence[_Card], chips: Iterable[Sequence[int]]) -> dict[int, _Partition]:
    """Cards that share a unique id and a PCI slot are partitions of the one that has function 0 in it."""
    partitions: dict[int, _Partition] = {}
    for positions in chips:
        buses = {position: cards[position].bus or "" for position in positions}
        owner = next((position for position, bus in buses.items() if bus.endswith(".0")), None)
        slots = {bus.rpartition(".")[0] for bus in buses.values()}
        if owner is not None and len(slots) == 1 and len(set(buses.values())) == len(buses):
            others = ((position, bus) for position, bus in buses.items() if position != owner)
            partitions |= {position: (bus.rpartition(".")[2], owner) for position, bus in others}
    return partitions
