"""Numbers that vendors print or return for "no value" never become a reading, for any metric."""

from typing import Any

import pytest

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY, CATALOGUE, in_range, reading
from telemetry_parsers.model import Absent, Capture, Library, Output, Report
from telemetry_parsers.vendors.moorethreads import mtml as mtml_tables
from telemetry_parsers.vendors.moorethreads.mtml import PARSER as MTML
from telemetry_parsers.vendors.nvidia.nvml import PARSER as NVML
from telemetry_parsers.vendors.nvidia.nvml import tables as nvml_tables

# As printed, and in multiples and fractions of the base unit.
RAW = (-1, 0xFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 511.875, 10**9)
PARTS = {
    "celsius": (1, 100, 1000), "watts": (1, 1000, 10**6), "volts": (1, 1000), "hertz": (1e-6,), "ratio": (100,),
    "joules": (1,), "bytes": (1,), "seconds": (1,), "": (1,),
}  # fmt: skip
# Sentinels that are valid values, by kind or unit, and by metric.
MEANT_COUNTS = {0xFF, 0xFFFF, 511.875, 10**9}
MEANT = {
    # 65.535 degrees, watts and volts are sentinels; 0.255, 2.55 and 5.11875 degrees are only cold.
    "celsius": {(0xFF, 100), (0xFF, 1000), (511.875, 100), (511.875, 1000)},
    "watts": {(0xFF, part) for part in PARTS["watts"]} | {(511.875, part) for part in PARTS["watts"]} | {(0xFFFF, 10**6), (10**9, 10**6)},
    "volts": {(0xFF, 1000), (511.875, 1000)},
    "hertz": {(0xFF, 1e-6), (511.875, 1e-6)},
}  # fmt: skip
BY_METRIC = {
    # One degree above the slowdown temperature.
    "temperature_margin_celsius": {(-1, 1), (-1, 100), (-1, 1000), (0xFFFF, 1000), (-1, 1)},
    "temperature_margin_limit_celsius": {(-1, 1), (-1, 100), (-1, 1000)},
    "compute_units": {(0xFF, 1), (511.875, 1)},
    "processes": {(0xFF, 1), (511.875, 1)},
    "retired_pages": {(0xFF, 1), (511.875, 1)},
    "remapped_rows": {(0xFF, 1), (511.875, 1)},
    "fan_rpm": {(0xFF, 1), (511.875, 1)},
    **{
        f"pcie_{what}_bytes_per_second": {(number, 1) for number in MEANT_COUNTS}
        for what in ("receive", "transmit", "bandwidth")
    },
    # Metrics from the table of peaks or a configuration: no tool prints them.
    **{key: {(number, 1) for number in RAW if number > 0} for key in ("peak_flops", "flops_per_cycle")},
    "peak_memory_bytes_per_second": {(number, 1) for number in RAW if number > 0},
    "event_last_timestamp_seconds": {(number, 1) for number in MEANT_COUNTS},
}


def test_a_sentinel_is_no_number_of_any_metric() -> None:
    """Checks -1, all bits set, 511.875 and 1e9 in every unit that is printed."""
    for metric in [metric for metric in CATALOGUE if metric.scope == "device"]:
        found = {
            (raw, part)
            for raw in RAW
            for part in PARTS[metric.unit]
            if in_range(metric, raw / part) is not Absent.IMPLAUSIBLE
        }
        meant = MEANT.get(metric.unit, set()) | BY_METRIC.get(metric.key, set())
        if metric.kind == "counter" or metric.unit == "bytes":
            meant = {(number, 1) for number in MEANT_COUNTS}
        assert found - meant == set()


@pytest.mark.parametrize(
    ("vendor", "celsius", "expected"),
    [
        ("", -1.0, Absent.IMPLAUSIBLE),
        ("", -0.5, Absent.IMPLAUSIBLE),
        ("nvidia", -12.0, Absent.IMPLAUSIBLE),
        ("ascend", -12.0, -12.0),
        ("ascend", -1.0, Absent.IMPLAUSIBLE),
        ("ascend", -41.0, Absent.IMPLAUSIBLE),
        ("ascend", 65.535, Absent.IMPLAUSIBLE),
    ],
)
def test_below_freezing_point_only_where_a_device_is_trusted_to_mean_it(vendor, celsius, expected):
    """Ascend's edge devices work outdoors, but their tool prints -1 for unknown values, too."""
    assert reading(0, "temperature_celsius", celsius, "core", vendor=vendor).value == expected


@pytest.mark.parametrize(
    "text", ["4294967295", "4294967295.0", "9223372036854775807", "18446744073709551615.00", "2147483647"]
)
def test_all_bits_set_are_no_number_with_a_decimal_point_either(text):
    """JSON writers and Python print the same integer as a fraction."""
    assert units.number(text) is Absent.IMPLAUSIBLE


@pytest.mark.parametrize("key", ["ecc_corrected_total", "energy_joules_total", "link_receive_bytes_total"])
def test_the_nearest_fraction_of_all_bits_set_is_none_either(key):
    """Python's floats know 2^63-1 as 2^63."""
    assert in_range(BY_KEY[key], float(2**63 - 1)) is Absent.IMPLAUSIBLE


# All bits set: signed, in 31, 32, 63 and 64 bits. Shorter ones may be numbers, except for metrics with a range.
ALL_BITS = (-1, -1.0, 2**31 - 1, 2**32 - 1, float(2**32 - 1), 2**63 - 1, 2**64 - 1)
SHORT = (0xFF, 0xFFFF, 511.875, 10**9)
SIGNED = {"temperature_margin_celsius", "temperature_margin_limit_celsius"}


def every_answer(number: Any) -> dict[str, Any]:
    parts = {name: {row.part for row in rows} for name, rows in nvml_tables.CALLS.items()}
    answers = {name: with_parts(wanted, number) for name, wanted in parts.items()}
    special = (
        nvml_tables.POWER_USAGE,
        nvml_tables.PERFORMANCE_STATE,
        *nvml_tables.REASON_CALLS[:1],
        "FanSpeed_v2.0",
        "FanSpeedRPM.0",
    )
    return {
        "calls": answers | dict.fromkeys((*special, *nvml_tables.ECC_CALLS), number),
        "fields": dict.fromkeys((*nvml_tables.FIELDS, *nvml_tables.ECC_FIELDS, nvml_tables.RECOVERY_FIELD), number),
        "gpm": dict.fromkeys(nvml_tables.GPM, number),
        "links": {"each": {"0": dict.fromkeys(("state", "tx_bytes", "rx_bytes", "crc", "replay", "recovery"), number)}},
        "compute_capability": [9, 0],
    }


def with_parts(parts: set[Any], number: Any) -> Any:
    if parts == {None}:
        return number
    return dict.fromkeys(parts, number) if all(isinstance(part, str) for part in parts) else [number] * 2


def nvml_report(gpu: dict[str, Any]) -> Report:
    document = {"node": {"count": 1, "unseen": []}, "gpus": [{"index": 0, **gpu}], "events": []}
    return NVML.parse(Capture("nvml", "fast", Library("nvml", ("fast",)), (Output("fast", data=document, status=0),)))


def mtml_report(calls: dict[str, Any]) -> Report:
    document = {"node": {"count": 1}, "cards": [{"index": 0, "calls": calls}]}
    return MTML.parse(Capture("mtml", "fast", Library("mtml", ("fast",)), (Output("fast", data=document, status=0),)))


@pytest.mark.parametrize("number", ALL_BITS)
def test_all_bits_set_give_no_reading(number: Any) -> None:
    report = nvml_report(every_answer(number))
    numbers = {item.metric: item.value for item in report.readings if not isinstance(item.value, Absent)}
    assert numbers == (dict.fromkeys(SIGNED, -1.0) if number == -1 else {})
    assert {item.metric for item in report.readings} >= {
        "temperature_celsius",
        "fan_rpm",
        "pipe_active_ratio",
        "link_up",
    }


@pytest.mark.parametrize("number", SHORT)
def test_short_words_with_all_bits_set_give_no_gauge_with_a_range(number: Any) -> None:
    report = nvml_report(every_answer(number))
    numbers = {item.metric for item in report.readings if not isinstance(item.value, Absent)}
    metrics = {BY_KEY[key] for key in numbers}
    # A mask of reasons has no range, and each of its bits means something.
    free = {"throttled", "power", "memory", "bar1", "clock", "compute", "retired", "remapped", "fan"}
    assert {
        metric.key for metric in metrics if metric.kind == "gauge" and metric.key.split("_")[0] not in free
    } == set()


@pytest.mark.parametrize("number", ALL_BITS)
def test_all_bits_set_give_no_reading_of_mtml(number: Any) -> None:
    parts = {name: {row.part for row in rows} for name, rows in mtml_tables.CALLS.items()}
    answers = {name: with_parts(wanted, number) for name, wanted in parts.items()}
    calls = {**answers, f"{mtml_tables.FAN_PREFIX}0": number, f"{mtml_tables.LINK_PREFIX}0": number}
    report = mtml_report(calls)
    assert [item for item in report.readings if not isinstance(item.value, Absent)] == []
    assert {item.metric for item in report.readings} == set(mtml_tables.GIVES)


@pytest.mark.parametrize("broken", [-1, {"error": 4}, 255])
def test_the_fastest_fan_is_none_where_one_of_them_is_unknown(broken: Any) -> None:
    report = mtml_report({f"{mtml_tables.FAN_PREFIX}0": 61, f"{mtml_tables.FAN_PREFIX}1": broken})
    assert [isinstance(item.value, Absent) for item in report.readings] == [True]
