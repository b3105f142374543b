"""Which device a card is: its names, its vendor, its partition, its other die."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.model import Device
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.listing import Card
from telemetry_parsers.text.lines import bus_address

# Words in a card's vendor or name that tell whose it is.
_VENDOR_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "haiguang": "hygon",
        "c-3000": "hygon",
        "hygon": "hygon",
        "advanced micro devices": "amd",
        "amd/ati": "amd",
        "0x1002": "amd",
        "0x1d94": "hygon",
    }
)
# PCI device ids of Hygon's cards; AMD's tools print no vendor beside them.
_HYGON_CHIPS = frozenset({"0x54b7", "0x55b7", "0x62b7", "0x6210", "0x6211", "0x6320", "0x6370", "0x6430"})
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
# Hygon's hy-smi: `0000:09:00.0 --> SN: 01-000206 --> OAM ID: 1`.
_ARROW = re.compile(r"\s{0,4}-->\s{0,4}")
_DIES = 2
_SECOND_DIE = "secondary die"
_CHIP_ID = re.compile(r"[0-9a-f]{4}\Z")


@dataclass(slots=True)
class _Known:
    """What one card's entries say, by key; the first text of a key that is no placeholder counts."""

    card: Card
    texts: dict[str, str] = field(default_factory=dict)

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these keys that tells something."""
        return next((self.texts[name] for name in names if name in self.texts), None)


@dataclass(frozen=True, slots=True)
class _Partition:
    """Which partition of a card this is; `owner` is the position of the one that stands for the card."""

    name: str
    owner: int | None


def devices_of(cards: Sequence[Card], default_vendor: str) -> list[Device]:
    """The device of each card as far as its identity goes; a card that does not say whose it is is of this vendor."""
    known = [_Known(card, _texts(card)) for card in cards]
    primary, partitions = _primary_dies(known), _partitions(known)
    return [
        _device(item, default_vendor, partitions.get(position), primary.get(position))
        for position, item in enumerate(known)
    ]


def vendor_of(card: Card) -> str | None:
    """Whose card it is by what it says of itself, None when it does not say."""
    known = _Known(card, _texts(card))
    return _vendor(known)


def _vendor(known: _Known) -> str | None:
    text = " ".join(known.texts.get(name, "") for name in (*keys.VENDOR, *keys.SERIES)).lower()
    for words, vendor in _VENDOR_WORDS.items():
        if words in text:
            return vendor
    return "hygon" if (known.first(keys.CHIP) or "").lower() in _HYGON_CHIPS else None


def _texts(card: Card) -> dict[str, str]:
    texts: dict[str, str] = {}
    for entry in card.entries[: keys.MOST_KEYS]:
        if units.placeholder(entry.text) is None:
            texts.setdefault(keys.key_of(entry.key).name, entry.text.strip())
    return texts


def _device(known: _Known, default_vendor: str, partition: _Partition | None, primary_die: str | None) -> Device:
    bus = _ARROW.split(known.first(keys.BUS) or "", maxsplit=1)[0]
    serial = known.first(keys.SERIAL)
    uuid = known.first(keys.UUID)
    return Device(
        vendor=_vendor(known) or default_vendor,
        index=known.card.index,
        model=_model(known),
        # On BW cards hy-smi prints the serial number as the unique id, and serial numbers repeat.
        uuid=uuid if uuid != serial else None,
        bus_id=bus_address(bus),
        partition=None if partition is None else partition.name,
        parent=None if partition is None else partition.owner,
        serial=None if serial == "0" else serial,
        facts=tuple(sorted((_facts(known) | ({"primary_die": primary_die} if primary_die else {})).items())),
    )


def _facts(known: _Known) -> dict[str, str]:
    facts = {name: text for name, names in keys.FACTS.items() if (text := known.first(names)) is not None}
    chip = (known.first(keys.CHIP) or "").lower()
    if chip:
        facts["chip_id"] = f"0x{chip}" if _CHIP_ID.match(chip) else chip
    node = known.first(keys.NUMA_NODE)
    if node is not None and node not in keys.NO_NUMA_NODE:
        facts["numa_node"] = node
    return facts


def _primary_dies(known: Sequence[_Known]) -> dict[int, str]:
    """For each second die, by its position, the die that tells the power of both: the other one of the same unique id.

    A fact and not the parent: each die is a device of its own on the PCI bus and for programs.
    """
    chips = _chips(known)
    found: dict[int, str] = {}
    for position, item in enumerate(known):
        dies = chips.get(item.first(keys.UUID) or "", [])
        if len(dies) == _DIES and any(_SECOND_DIE in entry.text.lower() for entry in item.card.entries):
            other = known[dies[0] if dies[1] == position else dies[1]]
            found[position] = bus_address(other.first(keys.BUS) or "") or str(other.card.index)
    return found


def _chips(known: Sequence[_Known]) -> dict[str, list[int]]:
    """The positions of the cards of each unique id."""
    chips: dict[str, list[int]] = {}
    for position, item in enumerate(known):
        uuid = item.first(keys.UUID)
        if uuid is not None:
            chips.setdefault(uuid, []).append(position)
    return chips


def _model(known: _Known) -> str | None:
    """The name of the card; some versions print a number where the name should be, which is none."""
    names = (known.texts.get(name) for name in (*keys.SERIES, *keys.MODEL))
    return next((name for name in names if name and not _HEXADECIMAL.match(name)), None)


def _partitions(known: Sequence[_Known]) -> dict[int, _Partition]:
    """The cards, by position, that are partitions of another: by their printed number, else by their PCI function."""
    return _by_function(known) | _by_number(known)


def _by_number(known: Sequence[_Known]) -> dict[int, _Partition]:
    """A partition other than 0 belongs to the last partition 0 before it of the same kind of chip."""
    found: dict[int, _Partition] = {}
    owner: int | None = None
    for position, item in enumerate(known):
        number = units.whole(item.texts.get(keys.PARTITION, ""))
        if not number:
            owner = position if number == 0 else None
        elif owner is not None and item.first(keys.CHIP) in (None, known[owner].first(keys.CHIP)):
            found[position] = _Partition(str(number), owner)
        else:
            found[position] = _Partition(str(number), None)
    return found


def _by_function(known: Sequence[_Known]) -> dict[int, _Partition]:
    """Cards that share a unique id and a PCI slot are partitions of the one that has function 0 in it."""
    found: dict[int, _Partition] = {}
    for positions in _chips(known).values():
        functions = {position: bus_address(known[position].first(keys.BUS) or "") or "" for position in positions}
        owner = next((position for position, bus in functions.items() if bus.endswith(".0")), None)
        slots = {bus.rpartition(".")[0] for bus in functions.values()}
        if owner is None or len(slots) != 1 or len(set(functions.values())) != len(functions):
            continue
        for position, bus in functions.items():
            if position != owner:
                found[position] = _Partition(bus.rpartition(".")[2], owner)
    return found
