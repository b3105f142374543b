"""From a listing to devices and readings: the vocabulary applied to each card."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Device, Form, Problem, Reading, Report
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.identity import devices_of
from telemetry_parsers.rocm.keys import MOST_KEYS, Field, Key
from telemetry_parsers.rocm.listing import Card, Entry, Listing
from telemetry_parsers.text.answers import capped
from telemetry_parsers.text.lines import quote

MOST_CARDS = 1024
# What both tools give.
GIVES = (
    "temperature_celsius", "power_watts", "power_average_watts", "power_instant_watts", "power_cap_watts", "energy_joules_total",
    "memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_used_ratio", "memory_activity_ratio",
    "utilization_ratio", "engine_utilization_ratio", "fan_ratio", "clock_hertz", "performance_level",
    "pcie_link_generation", "pcie_link_width", "pcie_replays_total", "processes",
)  # fmt: skip

# A card in none of these was asked for nothing that tells whether it answers.
_SIGNS_OF_LIFE = frozenset(
    {"temperature_celsius", "utilization_ratio", "power_average_watts", "power_instant_watts", "power_watts"}
)
_KIND_OF_SIGN = MappingProxyType({"power_average_watts": "power_watts", "power_instant_watts": "power_watts"})
# What a card that does not answer is printed with where it tells nothing: a zero of these is none of its readings.
_ZEROS = frozenset(
    {"utilization_ratio", "fan_ratio", "fan_rpm", "memory_used_ratio", "memory_used_bytes", "memory_activity_ratio", "clock_hertz"}
)  # fmt: skip
# One kind alone may be missing for other reasons, as the power of a second die.
_FEWEST_SIGNS = 2
_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)


@dataclass(slots=True)
class _Read:
    """What is collected over all cards, of the metrics that the tool gives."""

    gives: Collection[str]
    readings: list[Reading] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)


def report(
    listing: Listing, *, default_vendor: str, index_space: str, form: Form, gives: Collection[str] = GIVES
) -> Report:
    """The report on a listing; a card's vendor is what it says of itself, else the tool's own.

    `gives` are the metrics that the tool is known to tell: another that a key stands for is an unknown field.
    """
    read = _Read(gives, problems=list(listing.problems), unknown={quote(entry.key): None for entry in listing.unknown})
    driver = _driver(listing.system)
    cards = _distinct(listing.cards, read.problems)[:MOST_CARDS]
    devices = [
        _read_card(position, card, replace(device, driver=_driver(card.entries) or driver), read)
        for position, (card, device) in enumerate(zip(cards, devices_of(cards, default_vendor), strict=True))
    ]
    return Report(
        outcome="ok" if devices or listing.system else "no_devices",
        devices=tuple(devices),
        readings=tuple(read.readings),
        problems=capped(read.problems),
        unknown_fields=tuple(read.unknown)[:MOST_CARDS],
        facts=(("driver_version", driver),) if driver else (),
        index_space=index_space,
        form=form,
    )


def _read_card(position: int, card: Card, device: Device, read: _Read) -> Device:
    """Reads a card's readings; the device with what they tell of it."""
    found, kind = _readings(position, card, read)
    read.readings.extend(_without_zeros(found))
    if len(card.entries) > MOST_KEYS:
        text = f"{len(card.entries)} values; those after the first {MOST_KEYS} are not read"
        read.problems.append(Problem(f"card {card.index}", text))
    # Of a card in partitions, only the first one has readings in some versions (MI300A in TPX, ROCm 6.4).
    alive = device.parent is not None or _is_alive(found)
    if not alive:
        text = "none of its temperature, power and use can be read: the card does not answer"
        read.problems.append(Problem(f"card {card.index}", text))
    facts = tuple(sorted((*device.facts, ("power_kind", kind)))) if kind else device.facts
    return replace(device, up=alive, facts=facts)


def _distinct(cards: Sequence[Card], problems: list[Problem]) -> list[Card]:
    """Each card once: a second one of the same number would be another's readings."""
    found: dict[int, Card] = {}
    for card in cards:
        if card.index in found:
            problems.append(Problem(f"card {card.index}", "the card is listed a second time; the first is kept"))
        else:
            found[card.index] = card
    return list(found.values())


def _driver(entries: Sequence[Entry]) -> str | None:
    texts = (entry.text.strip() for entry in entries[:MOST_KEYS] if keys.key_of(entry.key).name == keys.DRIVER)
    return next((text for text in texts if units.placeholder(text) is None), None)


def _readings(device: int, card: Card, read: _Read) -> tuple[list[Reading], str]:
    """A card's readings, the first number of each; and which kind of power its main figure is."""
    found: dict[tuple[str, str], Reading] = {}
    main: dict[str, Reading] = {}
    for entry in _pieces(card):
        key = keys.key_of(entry.key)
        level_only = keys.is_level_only(key, entry.text)
        meant = () if level_only else keys.fields_of(key)
        fields = [wanted for wanted in meant if wanted.metric in read.gives]
        if key.name in keys.LEVEL_KEYS:
            _add_level(device, entry, found, read)
        elif not fields and (
            meant or not (level_only or keys.is_known(key)) or not (key.name or not entry.text.strip())
        ):
            read.unknown[quote(entry.key) or "(blank)"] = None
        for wanted in fields:
            item = _read_one(device, key, entry, wanted, read)
            _keep(found, item)
            if wanted.power_kind:
                main.setdefault(wanted.power_kind, item)
    kind = _main_power(device, main, found)
    return list(found.values()), kind


def _pieces(card: Card) -> list[Entry]:
    return [
        Entry(key, text, entry.where)
        for entry in card.entries[:MOST_KEYS]
        for key, text in keys.pieces_of(entry.key, entry.text)
    ]


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
    elif word is Absent.NOT_UNDERSTOOD or not entry.text.strip():
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


def _without_zeros(found: Sequence[Reading]) -> list[Reading]:
    """The readings; of a card of which neither temperature nor power can be read without the zeros beside them."""
    signs = [item for item in found if item.metric in _SIGNS_OF_LIFE - {"utilization_ratio"}]
    asked = {_KIND_OF_SIGN.get(item.metric, item.metric) for item in signs}
    if len(asked) < _FEWEST_SIGNS or any(item.value is not Absent.NOT_REPORTED for item in signs):
        return list(found)
    return [
        replace(item, value=Absent.IMPLAUSIBLE) if item.metric in _ZEROS and item.value == 0.0 else item
        for item in found
    ]


def _is_alive(found: Iterable[Reading]) -> bool:
    """Whether something that tells of life can be read, or too little of the kind was asked for to tell."""
    signs = [item for item in found if item.metric in _SIGNS_OF_LIFE]
    asked = {_KIND_OF_SIGN.get(item.metric, item.metric) for item in signs}
    return len(asked) < _FEWEST_SIGNS or any(item.value is not Absent.NOT_REPORTED for item in signs)
