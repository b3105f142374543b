"""Values in words: right to the digits that are shown, and never a zero that is none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_exporters import human
from telemetry_parsers.metrics import BY_KEY, CATALOGUE

GIB = 1024.0**3


VALUES = {
    "voltage_volts": [0.7314],
    "temperature_celsius": [41.0, 41.5, -0.01, -12.0],
    "power_watts": [0.0, 0.04, 7.25, 96.4, 112.5, 700.0],
    "utilization_ratio": [0.0, 0.0000305, 0.004, 0.57, 0.996, 1.0, 1.2],
    "memory_used_bytes": [0.0, 1023.0, 2097152.0, 80 * GIB, 81559 * 1024.0**2, 1e15],
    "clock_hertz": [1.98e9, 0.0],
    "energy_joules_total": [123456789.0, 12.0],
    "busy_seconds_total": [0.0, 0.0000035, 0.0124, 0.25, 5.25, 61.0, 7260.0, 400000.0],
    "event_last_timestamp_seconds": [1767225600.0],
    "pcie_link_width": [16.0],
    "telemetry_host_load1": [0.125],
    "telemetry_host_uptime_seconds": [400000.0],
    "peak_flops": [989e12],
    "peak_memory_bytes_per_second": [3.35e12],
}
PAIRS = [(0.0, 80 * GIB), (2097152.0, 80 * GIB), (31.2 * GIB, 48 * GIB), (80 * GIB, 80 * GIB)]
NAMES = [
    *VALUES, "power_cap_watts", "pcie_replays_total", "processes", "throttled", "throttled_seconds_total",
]  # fmt: skip


def test_words(assert_golden):
    lines = [
        *(
            f"{metric} {value!r}: {human.in_words(value, BY_KEY[metric])}"
            for metric in VALUES
            for value in VALUES[metric]
        ),
        *(f"{used!r} of {total!r}: {human.byte_pair(used, total)}" for used, total in PAIRS),
        *(f"{metric}: {human.name(BY_KEY[metric])}" for metric in NAMES),
    ]
    assert_golden(Path(__file__).parent / "golden" / "words.txt", "\n".join(lines) + "\n")


@given(st.sampled_from(CATALOGUE), st.floats(1e-12, 1e9))
def test_what_is_not_zero_is_never_shown_as_zero(metric, value):
    if metric.unit in ("watts", "bytes", "ratio", "joules", ""):
        assert human.in_words(value, metric).split()[0].strip("0.") != ""


@pytest.mark.parametrize("unit", [human.byte_size, human.joules])
@given(value=st.floats(0, 1e17))
def test_a_prefix_keeps_the_number_short(unit, value):
    assert float(unit(value).split()[0]) <= 1024
