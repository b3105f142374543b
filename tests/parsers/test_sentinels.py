"""Numbers that stand for none never come out as one, whatever metric they are printed for."""

from __future__ import annotations

import pytest

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY, CATALOGUE, in_range, reading
from telemetry_parsers.model import Absent

# As printed, and in the parts of the base unit that tools and libraries print.
RAW = (-1, 0xFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 511.875, 10**9)
PARTS = {
    "celsius": (1, 100, 1000), "watts": (1, 1000, 10**6), "volts": (1, 1000), "hertz": (1e-6,), "ratio": (100,),
    "joules": (1,), "bytes": (1,), "seconds": (1,), "": (1,),
}  # fmt: skip
# What a device may well mean: by kind or unit, and by metric.
MEANT_COUNTS = {0xFF, 0xFFFF, 511.875, 10**9}
MEANT = {
    # 65.535 degrees, watts and volts are sentinels; 0.255, 2.55 and 5.11875 degrees are only cold.
    "celsius": {(0xFF, 100), (0xFF, 1000), (511.875, 100), (511.875, 1000)},
    "watts": {(0xFF, part) for part in PARTS["watts"]} | {(511.875, part) for part in PARTS["watts"]} | {(0xFFFF, 10**6), (10**9, 10**6)},
    "volts": {(0xFF, 1000), (511.875, 1000)},
    "hertz": {(0xFF, 1e-6), (511.875, 1e-6)},
}  # fmt: skip
OF_METRIC = {
    # One degree past the point at which the device slows down.
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
    # These are of our own table, or of a configuration: no tool prints them.
    **{key: {(number, 1) for number in RAW if number > 0} for key in ("peak_flops", "flops_per_cycle")},
    "peak_memory_bytes_per_second": {(number, 1) for number in RAW if number > 0},
    "event_last_timestamp_seconds": {(number, 1) for number in MEANT_COUNTS},
}


def test_a_sentinel_is_no_number_of_any_metric() -> None:
    """Held against -1, all bits set, 511.875 and 1e9 in every unit that is printed."""
    for metric in [metric for metric in CATALOGUE if metric.scope == "device"]:
        found = {
            (raw, part)
            for raw in RAW
            for part in PARTS[metric.unit]
            if in_range(metric, raw / part) is not Absent.IMPLAUSIBLE
        }
        meant = MEANT.get(metric.unit, set()) | OF_METRIC.get(metric.key, set())
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
    """Ascend's edge devices stand outdoors; -1 is what their tool prints where it knows nothing, too."""
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
