"""The identity and the readings of one card, from its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Device, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.rocm.values import level_of
from telemetry_parsers.vendors.amd.amdgpu_sysfs import gpu_metrics, values
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import CardFiles, Tree

_MOST_SENSORS = 16
_UNIQUE_ID = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,32}\Z")
_MOST_RAILS = 8
_RAS = "ras/"
_RAS_END = "_err_count"
_RAS_METRICS: Mapping[str, str] = {
    "ue": "ecc_uncorrected_total",
    "ce": "ecc_corrected_total",
    "de": "ecc_deferred_total",
}
# The main power is the instantaneous power if the card reports it, as in rocm-smi since 6.0, else the average.
_POWER_KINDS: Mapping[str, str] = {"instant": "power_instant_watts", "average": "power_average_watts"}
_POWERS = frozenset(_POWER_KINDS.values())
_FACTS: Mapping[str, str] = {
    "chip_id": "device",
    "firmware": "vbios_version",
    "numa_node": "numa_node",
    "compute_partition": "current_compute_partition",
    "memory_partition": "current_memory_partition",
}


def read_cards(tree: Tree, draft: Draft) -> dict[str, CardFiles]:
    """Put the cards of these drivers into the draft. Return the cards that are awake, by their address."""
    awake = {}
    for card in sorted(tree.cards.values(), key=lambda card: (card.bus_id, card.number or 0)):
        if not card.vendor or not (card.listed or card.files):
            continue
        position = draft.add(_device(card, tree.versions.get(card.module)))
        if card.listed and not card.files:
            # Its folder is listed, but its files are not read: the reader found it suspended.
            draft.keep(reading(position, "suspended", 1.0))
            continue
        _read_card(position, card, draft)
        if any(name in values.FILES or name in values.CLOCKS for name in card.files):
            awake[card.bus_id] = card
    return awake


def _read_card(position: int, card: CardFiles, draft: Draft) -> None:
    if card.text("power/runtime_status"):
        draft.keep(reading(position, "suspended", float(card.text("power/runtime_status") == "suspended")))
    for name, target in values.FILES.items():
        if name in card.files:
            value = values.value_in(card.files[name], target)
            draft.give(position, target, _power(position, value, draft) if target.key in _POWERS else value)
    _sensors(position, card, draft)
    _clocks(position, card, draft)
    _voltages(position, card, draft)
    _fan(position, card, draft)
    _faults(position, card, draft)
    _level(position, card, draft)
    kind = _main_power(position, draft)
    for item in _blob(card, draft):
        if not item.partition:
            is_power = item.metric in _POWERS
            value = _power(position, item.value, draft) if is_power else item.value
            draft.keep(reading(position, item.metric, value, item.label))
    kind = kind or _main_power(position, draft)
    if kind:
        device = draft.device_at(position)
        facts = {**dict(device.facts), "power_kind": kind}
        draft.rewrite(position, replace(device, facts=tuple(sorted(facts.items()))))


def _power(position: int, value: Value, draft: Draft) -> Value:
    """Return a power. The second die of an MI200 prints 0 W under a limit of 0 W, because the first reports the power of both."""
    has_limit = isinstance(draft.value(position, "power_cap_watts"), float)
    return Absent.NOT_SUPPORTED if value == 0.0 and not has_limit else value


def read_partition(position: int, partition: str, card: CardFiles, draft: Draft) -> None:
    """Put the readings of a partition in the card's binary table into the draft."""
    for item in _blob(card, draft):
        if str(item.partition) == partition:
            draft.keep(reading(position, item.metric, item.value, item.label))


def _device(card: CardFiles, driver: str | None) -> Device:
    facts = {fact: text for fact, name in _FACTS.items() if (text := card.text(name)) and text != "-1"}
    return Device(
        vendor=card.vendor,
        index=card.number,
        model=card.text("product_name") or None,
        uuid=_known(card.text("unique_id")) if _UNIQUE_ID.match(card.text("unique_id")) else None,
        bus_id=card.bus_id or None,
        serial=_known(card.text("serial_number")),
        driver=driver or None,
        facts=tuple(sorted(facts.items())),
    )


def _known(text: str) -> str | None:
    return None if not text.strip("0") or units.placeholder(text) is not None else text


def _sensors(position: int, card: CardFiles, draft: Draft) -> None:
    for number in range(1, _MOST_SENSORS):
        source = card.files.get(f"temp{number}_input")
        if source is None:
            continue
        if card.has_lost(f"temp{number}_label"):
            draft.complain(
                f"{card.bus_id or card.number} temp{number}_label", "is empty, so that the sensor is unknown"
            )
            continue
        word = values.sensor_word(card.text(f"temp{number}_label"), number)
        draft.keep(reading(position, "temperature_celsius", values.value_in(source, values.TEMPERATURE), word))
        for suffix, target in values.LIMITS.items():
            limit = card.files.get(f"temp{number}_{suffix}")
            if limit is not None:
                draft.keep(reading(position, target.key, values.value_in(limit, target), word))


def _clocks(position: int, card: CardFiles, draft: Draft) -> None:
    for name, domain in values.CLOCKS.items():
        levels = card.files.get(name)
        if levels is not None:
            none = values.why_none(levels)
            draft.keep(reading(position, "clock_hertz", none or values.current_clock(levels.text), domain))
            highest = none or values.highest_clock(levels.text)
            if highest is Absent.NOT_UNDERSTOOD or (not isinstance(highest, Absent) and highest > 0):
                draft.keep(reading(position, "clock_max_hertz", highest, domain))
    for name, target in values.HWMON_CLOCKS.items():
        if name in card.files:
            draft.give(position, target, values.value_in(card.files[name], target))


def _voltages(position: int, card: CardFiles, draft: Draft) -> None:
    for number in range(_MOST_RAILS):
        if card.has_lost(f"in{number}_label"):
            draft.complain(f"{card.bus_id or card.number} in{number}_label", "is empty, so that the rail is unknown")
        source, rail = card.files.get(f"in{number}_input"), values.RAILS.get(card.text(f"in{number}_label"))
        if source is not None and rail is not None:
            draft.keep(reading(position, "voltage_volts", values.value_in(source, values.VOLTAGE), rail))


def _fan(position: int, card: CardFiles, draft: Draft) -> None:
    """Keep the fan's speed as a share of the highest speed or, if the driver knows no speed, of the highest drive."""
    for part, whole in (("fan1_input", "fan1_max"), ("pwm1", "pwm1_max")):
        now, highest = units.number(card.text(part)), units.number(card.text(whole))
        if not isinstance(now, Absent) and not isinstance(highest, Absent) and highest > 0:
            draft.keep(reading(position, "fan_ratio", now / highest))


def _faults(position: int, card: CardFiles, draft: Draft) -> None:
    for name, output in sorted(card.files.items()):
        if name.startswith(_RAS) and name.endswith(_RAS_END) and not output.status:
            block = values.word(name.removeprefix(_RAS).removesuffix(_RAS_END)) or "other"
            for kind, value in values.error_counts(output.text).items():
                draft.keep(reading(position, _RAS_METRICS[kind], value, block))
    pages = values.bad_pages(card.text("ras/gpu_vram_bad_pages"))
    if pages is None and card.text("ras/gpu_vram_bad_pages"):
        draft.keep(reading(position, "retired_pages", Absent.NOT_UNDERSTOOD, "all"))
    if pages is not None:
        draft.keep(reading(position, "retired_pages", pages[0], "all"))
        draft.keep(reading(position, "retired_pages_pending", pages[1]))


def _blob(card: CardFiles, draft: Draft) -> list[gpu_metrics.BlobReading]:
    """Return the readings of the binary table. A table that cannot be read is an unknown field."""
    output = card.files.get("gpu_metrics")
    if output is None or output.status:
        return []
    try:
        return gpu_metrics.read_blob(gpu_metrics.content_of(output.data))
    except gpu_metrics.UnknownBlobError as error:
        draft.name_unknown(f"gpu_metrics {error}")
        return []


def _level(position: int, card: CardFiles, draft: Draft) -> None:
    word = level_of(card.text("power_dpm_force_performance_level"))
    if not isinstance(word, Absent):
        for item in states(position, "performance_level", word):
            draft.keep(item)


def _main_power(position: int, draft: Draft) -> str:
    """Keep the main power. Return its kind; empty without a power."""
    reported: dict[str, Value] = {}
    for kind, metric in _POWER_KINDS.items():
        value = draft.value(position, metric)
        if value is not None:
            reported[kind] = value
    number = next((kind for kind, value in reported.items() if not isinstance(value, Absent)), "")
    if reported:
        draft.keep(reading(position, "power_watts", reported[number] if number else next(iter(reported.values()))))
    return number
