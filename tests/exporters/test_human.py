"""Values in words: right to the digits that are shown, and never a zero that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_exporters import human
from telemetry_parsers.metrics import BY_KEY, CATALOGUE

GIB = 1024.0**3


@pytest.mark.parametrize(
    ("metric", "value", "wanted"),
    [
        ("voltage_volts", 0.7314, "0.731 V"),
        ("temperature_celsius", 41.0, "41 °C"),
        ("temperature_celsius", 41.5, "41.5 °C"),
        ("temperature_celsius", -0.01, "0 °C"),
        ("temperature_celsius", -12.0, "-12 °C"),
        ("power_watts", 0.0, "0 W"),
        ("power_watts", 0.04, "0.04 W"),
        ("power_watts", 7.25, "7.25 W"),
        ("power_watts", 96.4, "96 W"),
        ("power_watts", 112.5, "112 W"),
        ("power_cap_watts", 700.0, "700 W"),
        ("utilization_ratio", 0.0, "0 %"),
        ("utilization_ratio", 0.0000305, "<0.1 %"),
        ("utilization_ratio", 0.004, "0.4 %"),
        ("utilization_ratio", 0.57, "57 %"),
        ("utilization_ratio", 0.996, "99.6 %"),
        ("utilization_ratio", 1.0, "100 %"),
        ("fan_ratio", 1.2, "120 %"),
        ("memory_used_bytes", 0.0, "0 B"),
        ("memory_used_bytes", 1023.0, "1023 B"),
        ("memory_used_bytes", 2097152.0, "2 MiB"),
        ("memory_total_bytes", 80 * GIB, "80 GiB"),
        ("memory_total_bytes", 81559 * 1024.0**2, "79.6 GiB"),
        ("memory_total_bytes", 1e15, "909 TiB"),
        ("clock_hertz", 1.98e9, "1980 MHz"),
        ("clock_hertz", 0.0, "0 MHz"),
        ("energy_joules_total", 123456789.0, "123 MJ"),
        ("energy_joules_total", 12.0, "12 J"),
        ("busy_seconds_total", 0.0, "0 s"),
        ("busy_seconds_total", 0.0000035, "0.0035 ms"),
        ("busy_seconds_total", 0.0124, "12.4 ms"),
        ("busy_seconds_total", 0.25, "0.25 s"),
        ("busy_seconds_total", 5.25, "5.25 s"),
        ("busy_seconds_total", 61.0, "1 min 1 s"),
        ("busy_seconds_total", 7260.0, "2 h 1 min"),
        ("telemetry_host_uptime_seconds", 400000.0, "4 d 15 h"),
        ("event_last_timestamp_seconds", 1767225600.0, "2026-01-01 00:00:00 UTC"),
        ("pcie_link_width", 16.0, "16"),
        ("telemetry_host_load1", 0.125, "0.12"),
    ],
)
def test_a_value_with_its_unit(metric, value, wanted):
    assert human.in_words(value, BY_KEY[metric]) == wanted


@pytest.mark.parametrize(
    ("used", "total", "wanted"),
    [
        (0.0, 80 * GIB, "0 / 80 GiB"),
        (2097152.0, 80 * GIB, "2 MiB / 80 GiB"),
        (31.2 * GIB, 48 * GIB, "31.2 / 48 GiB"),
        (80 * GIB, 80 * GIB, "80 / 80 GiB"),
    ],
)
def test_used_of_total(used, total, wanted):
    assert human.byte_pair(used, total) == wanted


@given(st.sampled_from(CATALOGUE), st.floats(1e-12, 1e9))
def test_what_is_not_zero_is_never_shown_as_zero(metric, value):
    if metric.unit in ("watts", "bytes", "ratio", "joules", ""):
        assert human.in_words(value, metric).split()[0].strip("0.") != ""


@pytest.mark.parametrize("unit", [human.byte_size, human.joules])
@given(value=st.floats(0, 1e17))
def test_a_prefix_keeps_the_number_short(unit, value):
    assert float(unit(value).split()[0]) <= 1024


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("power_cap_watts", "power cap"),
        ("energy_joules_total", "energy"),
        ("pcie_replays_total", "pcie replays"),
        ("utilization_ratio", "utilization"),
        ("telemetry_host_uptime_seconds", "uptime"),
        ("processes", "processes"),
        ("throttled", "throttled"),
        ("throttled_seconds_total", "throttled seconds"),
    ],
)
def test_a_metric_in_words(metric, wanted):
    assert human.name(BY_KEY[metric]) == wanted
