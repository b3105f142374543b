"""Reads the identity and the readings of each card from its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, state_readings
from telemetry_parsers.model import Absent, Device, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.rocm.values import performance_level_of
from telemetry_parsers.vendors.amd.amdgpu_sysfs import gpu_metrics, values
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import CardFiles, Tree

_MAX_SENSORS = 16
_UNIQUE_ID = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,32}\Z")
_MAX_RAILS = 8
_RAS_PREFIX = "ras/"
_RAS_SUFFIX = "_err_count"
_RAS_METRICS: Mapping[str, str] = {
    "ue": "ecc_uncorrected_total",
    "ce": "ecc_corrected_total",
    "de": "ecc_deferred_total",
}
# In order of preference for the main power, `power_watts`. rocm-smi has the same order since 6.0.
_POWER_KINDS: Mapping[str, str] = {"instant": "power_instant_watts", "average": "power_average_watts"}
_POWER_METRICS = frozenset(_POWER_KINDS.values())
_FACT_FILES: Mapping[str, str] = {
    "chip_id": "device",
    "firmware": "vbios_version",
    "numa_node": "numa_node",
    "compute_partition": "current_compute_partition",
    "memory_partition": "current_memory_partition",
}


def read_cards(tree: Tree, draft: Draft) -> dict[str, CardFiles]:
    """Add the cards to the draft. Return the files of awake cards by PCI address."""
    awake_cards = {}
    for card in sorted(tree.cards.values(), key=lambda card: (card.bus_id, card.number or 0)):
        if not card.vendor or not (card.has_folder or card.files):
            continue
        position = draft.add_device(_create_device(card, tree.versions.get(card.module)))
        if card.has_folder and not card.files:
            # The reader skips the files of a suspended card.
            draft.add_reading(reading(position, "suspended", 1.0))
            continue
        _read_card(position, card, draft)
        if any(name in values.TARGETS_BY_FILE or name in values.CLOCK_FILES for name in card.files):
            awake_cards[card.bus_id] = card
    return awake_cards


def _read_card(position: int, card: CardFiles, draft: Draft) -> None:
    if card.text("power/runtime_status"):
        draft.add_reading(reading(position, "suspended", float(card.text("power/runtime_status") == "suspended")))
    for name, target in values.TARGETS_BY_FILE.items():
        if name in card.files:
            value = values.value_in(card.files[name], target)
            draft.set_value(
                position, target, _valid_power(position, value, draft) if target.key in _POWER_METRICS else value
            )
    _read_sensors(position, card, draft)
    _read_clocks(position, card, draft)
    _read_voltages(position, card, draft)
    _read_fan(position, card, draft)
    _read_ras_files(position, card, draft)
    _read_performance_level(position, card, draft)
    power_kind = _store_main_power(position, draft)
    for item in _gpu_metrics_readings(card, draft):
        if not item.partition:
            is_power = item.metric in _POWER_METRICS
            value = _valid_power(position, item.value, draft) if is_power else item.value
            draft.add_reading(reading(position, item.metric, value, item.label))
    power_kind = power_kind or _store_main_power(position, draft)
    if power_kind:
        device = draft.device_at(position)
        facts = {**dict(device.facts), "power_kind": power_kind}
        draft.replace_device(position, replace(device, facts=tuple(sorted(facts.items()))))


def _valid_power(position: int, value: Value, draft: Draft) -> Value:
    """Return the power, or `Absent.NOT_SUPPORTED` for 0 W if the card has no power limit."""
    has_limit = isinstance(draft.value(position, "power_cap_watts"), float)
    return Absent.NOT_SUPPORTED if value == 0.0 and not has_limit else value


def read_partition_metrics(position: int, partition: str, card: CardFiles, draft: Draft) -> None:
    """Add a partition's readings from the card's gpu_metrics file."""
    for item in _gpu_metrics_readings(card, draft):
        if str(item.partition) == partition:
            draft.add_reading(reading(position, item.metric, item.value, item.label))


def _create_device(card: CardFiles, driver_version: str | None) -> Device:
    facts = {fact: text for fact, name in _FACT_FILES.items() if (text := card.text(name)) and text != "-1"}
    return Device(
        vendor=card.vendor,
        index=card.number,
        model=card.text("product_name") or None,
        uuid=_valid_id(card.text("unique_id")) if _UNIQUE_ID.match(card.text("unique_id")) else None,
        bus_id=card.bus_id or None,
        serial=_valid_id(card.text("serial_number")),
        driver=driver_version or None,
        facts=tuple(sorted(facts.items())),
    )


def _valid_id(text: str) -> str | None:
    """Return the text, or None if it is empty, a placeholder or zero."""
    return None if not text.strip("0") or units.placeholder(text) is not None else text


def _read_sensors(position: int, card: CardFiles, draft: Draft) -> None:
    for sensor_number in range(1, _MAX_SENSORS):
        output = card.files.get(f"temp{sensor_number}_input")
        if output is None:
            continue
        if card.is_empty(f"temp{sensor_number}_label"):
            draft.add_problem(
                f"{card.bus_id or card.number} temp{sensor_number}_label", "the file is empty; the sensor is unknown"
            )
            continue
        label = values.sensor_label(card.text(f"temp{sensor_number}_label"), sensor_number)
        draft.add_reading(reading(position, "temperature_celsius", values.value_in(output, values.TEMPERATURE), label))
        for suffix, target in values.LIMIT_TARGETS.items():
            limit = card.files.get(f"temp{sensor_number}_{suffix}")
            if limit is not None:
                draft.add_reading(reading(position, target.key, values.value_in(limit, target), label))


def _read_clocks(position: int, card: CardFiles, draft: Draft) -> None:
    for name, domain in values.CLOCK_FILES.items():
        levels = card.files.get(name)
        if levels is not None:
            absence = values.absence_of(levels)
            draft.add_reading(reading(position, "clock_hertz", absence or values.current_clock(levels.text), domain))
            highest = absence or values.highest_clock(levels.text)
            if highest is Absent.NOT_UNDERSTOOD or (not isinstance(highest, Absent) and highest > 0):
                draft.add_reading(reading(position, "clock_max_hertz", highest, domain))
    for name, target in values.HWMON_CLOCK_TARGETS.items():
        if name in card.files:
            draft.set_value(position, target, values.value_in(card.files[name], target))


def _read_voltages(position: int, card: CardFiles, draft: Draft) -> None:
    for index in range(_MAX_RAILS):
        if card.is_empty(f"in{index}_label"):
            draft.add_problem(f"{card.bus_id or card.number} in{index}_label", "the file is empty; the rail is unknown")
        output, rail = card.files.get(f"in{index}_input"), values.RAIL_LABELS.get(card.text(f"in{index}_label"))
        if output is not None and rail is not None:
            draft.add_reading(reading(position, "voltage_volts", values.value_in(output, values.VOLTAGE), rail))


def _read_fan(position: int, card: CardFiles, draft: Draft) -> None:
    """Store the fan's speed or, if unknown, its PWM value as a share of the maximum."""
    for name, highest_name in (("fan1_input", "fan1_max"), ("pwm1", "pwm1_max")):
        current, highest = units.number(card.text(name)), units.number(card.text(highest_name))
        if not isinstance(current, Absent) and not isinstance(highest, Absent) and highest > 0:
            draft.add_reading(reading(position, "fan_ratio", current / highest))


def _read_ras_files(position: int, card: CardFiles, draft: Draft) -> None:
    for name, output in sorted(card.files.items()):
        if name.startswith(_RAS_PREFIX) and name.endswith(_RAS_SUFFIX) and not output.status:
            block = values.label_word(name.removeprefix(_RAS_PREFIX).removesuffix(_RAS_SUFFIX)) or "other"
            for kind, value in values.error_counts(output.text).items():
                draft.add_reading(reading(position, _RAS_METRICS[kind], value, block))
    pages = values.parse_bad_pages(card.text("ras/gpu_vram_bad_pages"))
    if pages is None and card.text("ras/gpu_vram_bad_pages"):
        draft.add_reading(reading(position, "retired_pages", Absent.NOT_UNDERSTOOD, "all"))
    if pages is not None:
        draft.add_reading(reading(position, "retired_pages", pages[0], "all"))
        draft.add_reading(reading(position, "retired_pages_pending", pages[1]))


def _gpu_metrics_readings(card: CardFiles, draft: Draft) -> list[gpu_metrics.BlobReading]:
    """Return the readings in the gpu_metrics file, and report an unreadable file."""
    output = card.files.get("gpu_metrics")
    if output is None or output.status:
        return []
    try:
        return gpu_metrics.read_blob(gpu_metrics.decode_content(output.data))
    except gpu_metrics.UnreadableBlobError as error:
        draft.add_unknown(f"gpu_metrics {error}")
        return []


def _read_performance_level(position: int, card: CardFiles, draft: Draft) -> None:
    word = performance_level_of(card.text("power_dpm_force_performance_level"))
    if not isinstance(word, Absent):
        for item in state_readings(position, "performance_level", word):
            draft.add_reading(item)


def _store_main_power(position: int, draft: Draft) -> str:
    """Store the main power, `power_watts`. Return its kind, or an empty string if it is absent."""
    values_by_kind: dict[str, Value] = {}
    for kind, metric in _POWER_KINDS.items():
        value = draft.value(position, metric)
        if value is not None:
            values_by_kind[kind] = value
    available_kind = next((kind for kind, value in values_by_kind.items() if not isinstance(value, Absent)), "")
    if values_by_kind:
        value = values_by_kind[available_kind] if available_kind else next(iter(values_by_kind.values()))
        draft.add_reading(reading(position, "power_watts", value))
    return available_kind
