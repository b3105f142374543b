"""From a listing to devices and readings: the vocabulary applied to each card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Device, Form, Problem, Reading, Report
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.keys import Field, Key
from telemetry_parsers.rocm.listing import Card, Entry, Listing
from telemetry_parsers.text.answers import told
from telemetry_parsers.text.lines import bus_address, quote

MOST_CARDS = 1024

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
_HYGON_CHIPS = frozenset({"0x55b7", "0x62b7", "0x6210", "0x54b7", "0x6320"})
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
# Hygon's hy-smi: `0000:09:00.0 --> SN: 01-000206 --> OAM ID: 1`.
_ARROW = re.compile(r"\s{0,4}-->\s{0,4}")
# A card in none of these was asked for nothing that tells whether it answers.
_SIGNS_OF_LIFE = frozenset(
    {"temperature_celsius", "utilization_ratio", "power_average_watts", "power_instant_watts", "power_watts"}
)
_KIND_OF_SIGN = MappingProxyType({"power_average_watts": "power_watts", "power_instant_watts": "power_watts"})
# One kind alone may be missing for other reasons, as the power of a second die.
_FEWEST_SIGNS = 2
_SILENCE = (Absent.NOT_REPORTED, Absent.NOT_SUPPORTED)
_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)


@dataclass(slots=True)
class _Known:
    """What one card's entries say, by key; the first text of a key that is no placeholder counts."""

    card: Card
    texts: dict[str, str] = field(default_factory=dict)

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these keys that tells something."""
        return next((self.texts[name] for name in names if name in self.texts), None)


@dataclass(slots=True)
class _Read:
    """What is collected over all cards."""

    readings: list[Reading] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)


def report(listing: Listing, *, default_vendor: str, index_space: str, form: Form) -> Report:
    """The report on a listing; a card's vendor is what it says of itself, else the tool's own."""
    read = _Read(problems=list(listing.problems), unknown={quote(entry.key): None for entry in listing.unknown})
    devices: list[Device] = []
    driver = _driver(listing.system)
    cards = _distinct(listing.cards, read.problems)[:MOST_CARDS]
    known = [_Known(card, _texts(card)) for card in cards]
    for position, item in enumerate(known):
        found, kind = _readings(position, item.card, read)
        alive = _is_alive(found)
        if not alive:
            text = "none of its temperature, power and use can be read: the card does not answer"
            read.problems.append(Problem(f"card {item.card.index}", text))
        read.readings.extend(found)
        parent = _parent(position, known)
        devices.append(_device(item, driver, kind, default_vendor, parent, alive=alive))
    return Report(
        outcome="ok" if devices or driver else "no_devices",
        devices=tuple(devices),
        readings=tuple(read.readings),
        problems=told(read.problems),
        unknown_fields=tuple(read.unknown)[:MOST_CARDS],
        facts=(("driver_version", driver),) if driver else (),
        index_space=index_space,
        form=form,
    )


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
    for entry in card.entries:
        if units.placeholder(entry.text) is None:
            texts.setdefault(keys.key_of(entry.key).name, entry.text.strip())
    return texts


def _distinct(cards: Sequence[Card], problems: list[Problem]) -> list[Card]:
    """Each card once: a second one of the same number would be another's readings."""
    found: dict[int, Card] = {}
    for card in cards:
        if card.index in found:
            problems.append(Problem(f"card {card.index}", "the card is listed a second time; the first is kept"))
        else:
            found[card.index] = card
    return list(found.values())


def _driver(system: Sequence[Entry]) -> str | None:
    texts = (entry.text.strip() for entry in system if keys.key_of(entry.key).name == "driver version")
    return next((text for text in texts if units.placeholder(text) is None), None)


def _device(
    known: _Known, driver: str | None, power_kind: str, default_vendor: str, parent: int | None, *, alive: bool
) -> Device:
    bus = _ARROW.split(known.first(keys.BUS) or "", maxsplit=1)[0]
    serial = known.first(keys.SERIAL)
    uuid = known.first(keys.UUID)
    facts = {name: text for name, names in keys.FACTS.items() if (text := known.first(names)) is not None}
    if power_kind:
        facts["power_kind"] = power_kind
    chip = known.first(keys.CHIP)
    if chip is not None:
        facts["chip_id"] = chip.lower()
    return Device(
        vendor=_vendor(known) or default_vendor,
        index=known.card.index,
        model=_model(known),
        # On BW cards hy-smi prints the serial number as the unique id, and serial numbers repeat.
        uuid=uuid if uuid != serial else None,
        bus_id=bus_address(bus),
        partition=_partition(known) if parent is not None or _is_secondary(known) else None,
        parent=parent,
        serial=None if serial == "0" else serial,
        driver=driver,
        up=alive,
        facts=tuple(sorted(facts.items())),
    )


def _model(known: _Known) -> str | None:
    """The name of the card; some versions print a number where the name should be, which is none."""
    names = (known.texts.get(name) for name in (*keys.SERIES, *keys.MODEL))
    return next((name for name in names if name and not _HEXADECIMAL.match(name)), None)


def _partition(known: _Known) -> str | None:
    number = units.whole(known.texts.get(keys.PARTITION, ""))
    return None if number is None else str(number)


def _is_secondary(known: _Known) -> bool:
    return _partition(known) not in (None, "0")


def _parent(position: int, known: Sequence[_Known]) -> int | None:
    """The card whose partition this is: the last one before it that is partition 0 of the same chip."""
    if not _is_secondary(known[position]):
        return None
    for before in range(position - 1, -1, -1):
        other = known[before]
        if other.first(keys.CHIP) != known[position].first(keys.CHIP):
            return None
        if not _is_secondary(other):
            return before
    return None


def _readings(device: int, card: Card, read: _Read) -> tuple[list[Reading], str]:
    """A card's readings, the first number of each; and which kind of power its main figure is."""
    found: dict[tuple[str, str], Reading] = {}
    main: dict[str, Reading] = {}
    for entry in card.entries:
        key = keys.key_of(entry.key)
        fields = () if keys.is_level_only(key, entry.text) else keys.fields_of(key)
        if key.name == keys.LEVEL_KEY:
            _add_level(device, entry, found, read)
        elif not fields and not keys.is_known(key) and not keys.is_level_only(key, entry.text):
            read.unknown[quote(entry.key) or "(blank)"] = None
        for wanted in fields:
            item = _read_one(device, key, entry, wanted, read)
            _keep(found, item)
            if wanted.power_kind:
                main.setdefault(wanted.power_kind, item)
    kind = _main_power(device, main, found)
    return list(found.values()), kind


def _read_one(device: int, key: Key, entry: Entry, wanted: Field, read: _Read) -> Reading:
    item = reading(device, wanted.metric, wanted.read(entry.text, key.unit), wanted.label)
    if item.value in _LOUD:
        read.problems.append(
            Problem(f"{entry.where} {quote(entry.key)}", f'"{quote(entry.text)}" is {item.value.value}')
        )
    return item


def _keep(found: dict[tuple[str, str], Reading], item: Reading) -> None:
    known = found.get((item.metric, item.label))
    if known is None or (isinstance(known.value, Absent) and not isinstance(item.value, Absent)):
        found[item.metric, item.label] = item


def _add_level(device: int, entry: Entry, found: dict[tuple[str, str], Reading], read: _Read) -> None:
    word = keys.level_word(entry.text)
    if not isinstance(word, Absent):
        for item in states(device, "performance_level", word):
            _keep(found, item)
    elif word is Absent.NOT_UNDERSTOOD:
        read.problems.append(Problem(entry.where, f'"{quote(entry.text)}" is no performance level that we know'))


def _main_power(device: int, told_power: Mapping[str, Reading], found: dict[tuple[str, str], Reading]) -> str:
    """The main figure is the instantaneous power where it is told, else the average; never one for the other."""
    for kind in ("instant", "average"):
        item = told_power.get(kind)
        if item is not None and not isinstance(item.value, Absent):
            _keep(found, reading(device, "power_watts", item.value))
            return kind
    for item in told_power.values():
        _keep(found, reading(device, "power_watts", item.value))
    return ""


def _is_alive(found: Iterable[Reading]) -> bool:
    """Whether something that tells of life can be read, or too little of the kind was asked for to tell."""
    signs = [item for item in found if item.metric in _SIGNS_OF_LIFE]
    asked = {_KIND_OF_SIGN.get(item.metric, item.metric) for item in signs}
    return len(asked) < _FEWEST_SIGNS or any(item.value not in _SILENCE for item in signs)


# What both tools give.
GIVES = (
    "temperature_celsius", "power_watts", "power_average_watts", "power_instant_watts", "power_cap_watts", "energy_joules_total",
    "memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_used_ratio", "memory_activity_ratio",
    "utilization_ratio", "engine_utilization_ratio", "fan_ratio", "clock_hertz", "performance_level",
    "pcie_link_generation", "pcie_link_width", "pcie_replays_total", "processes",
)  # fmt: skip
