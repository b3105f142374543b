"""From a listing to devices and readings: the vocabulary applied to each card."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from telemetry_parsers.metrics import states
from telemetry_parsers.model import Absent, Reading
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.rocm import keys
from telemetry_parsers.rocm.identity import devices_of, first_of, texts_of
from telemetry_parsers.rocm.keys import MOST_KEYS
from telemetry_parsers.rocm.levels import level_of
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.saved.keys import pieces_of
from telemetry_parsers.text.lines import quote

# A card of which one alone was asked may lack it for other reasons, as a second die its power.
_SIGNS_OF_LIFE = frozenset({"temperature_celsius", "power_watts", "utilization_ratio"})
_FEWEST_SIGNS = 2
# A card that does not answer is printed with zeros of these, which are none of its readings.
_ZEROS = frozenset(
    {"utilization_ratio", "fan_ratio", "fan_rpm", "memory_used_ratio", "memory_used_bytes", "memory_activity_ratio", "clock_hertz"}
)  # fmt: skip


def read_cards(listing: Listing, gives: Collection[str], draft: Draft) -> None:
    """Put the cards into the draft; a card's vendor is the one that it names itself, else the tool's own.

    `gives` are the metrics that the tool is known to print; a key that stands for another one is an unknown field.
    """
    draft.problems.extend(listing.problems)
    draft.name_unknown(*listing.unknown)
    draft.is_cut = listing.is_cut
    driver = first_of(texts_of(listing.system), "driver")
    if driver:
        draft.facts["driver_version"] = driver
    for (index, entries), known in zip(listing.cards.items(), devices_of(listing.cards, draft.vendor), strict=True):
        device = draft.device(index, replace(known, driver=known.driver or driver))
        _read_card(device, f"card {index}", entries, gives, draft)


def _read_card(device: int, where: str, entries: Sequence[Entry], gives: Collection[str], draft: Draft) -> None:
    """Put a card's readings into the draft, and what follows from them for the device."""
    for entry in entries[:MOST_KEYS]:
        for key, text in pieces_of(entry.key, entry.text):
            _take(Entry(key, text, entry.where), device, gives, draft)
    kind = _take_main_power(device, draft)
    readings = draft.readings_of(device)
    _deny_zeros(readings, draft)
    if len(entries) > MOST_KEYS:
        draft.complain(where, f"{len(entries)} values; those after the first {MOST_KEYS} are not read")
    known = draft.device_at(device)
    # Of a card in partitions, only the first one has readings in some versions (MI300A in TPX, ROCm 6.4).
    is_up = known.parent is not None or _may_answer(readings, _SIGNS_OF_LIFE)
    if not is_up:
        draft.complain(where, "none of its temperature, power and use can be read: the card does not answer")
    facts = tuple(sorted((*known.facts, ("power_kind", kind)))) if kind else known.facts
    draft.rewrite(device, replace(known, up=is_up, facts=facts))


def _take(entry: Entry, device: int, gives: Collection[str], draft: Draft) -> None:
    key = keys.key_of(entry.key)
    targets = keys.targets_of(key)
    readable = [target for target in targets if target.key in gives]
    if key.name in keys.LEVEL_KEYS:
        _take_level(entry, device, draft)
    elif keys.is_level_only(key, entry.text):
        return
    elif readable:
        draft.take(device, readable, entry.text, f"{entry.where} {quote(entry.key)}", key.unit)
    elif targets or not keys.is_quiet(key, entry.text):
        draft.name_unknown(entry.key)


def _take_level(entry: Entry, device: int, draft: Draft) -> None:
    level = level_of(entry.text)
    if not isinstance(level, Absent):
        for item in states(device, "performance_level", level):
            draft.keep(item)
    elif level is Absent.NOT_UNDERSTOOD or not entry.text.strip():
        draft.complain(entry.where, f'"{quote(entry.text)}" is no performance level that we know')


def _take_main_power(device: int, draft: Draft) -> str:
    """Give the card's main power; its kind: instantaneous where that is printed, else average."""
    printed = {kind: draft.value(device, f"power_{kind}_watts") for kind in ("instant", "average")}
    values = [(kind, value) for kind, value in printed.items() if value is not None]
    numbers = [(kind, value) for kind, value in values if not isinstance(value, Absent)]
    for _, value in numbers[:1] or values[:1]:
        draft.give(device, metric("power_watts"), value)
    return numbers[0][0] if numbers else ""


def _deny_zeros(readings: Sequence[Reading], draft: Draft) -> None:
    """Believe no zero of a card of which neither temperature nor power can be read."""
    if not _may_answer(readings, _SIGNS_OF_LIFE - {"utilization_ratio"}):
        for item in readings:
            if item.metric in _ZEROS and item.value == 0.0:
                draft.overrule(replace(item, value=Absent.IMPLAUSIBLE))


def _may_answer(readings: Iterable[Reading], kinds: Collection[str]) -> bool:
    """Whether something of these kinds can be read, or too few of them were asked for to know."""
    signs = [item for item in readings if item.metric in kinds]
    asked = {item.metric for item in signs}
    return len(asked) < _FEWEST_SIGNS or any(item.value is not Absent.NOT_REPORTED for item in signs)
