"""The catalogue: names that follow Prometheus' conventions, ranges, and readings made by them."""

import math
import re

from telemetry_parsers import metrics
from telemetry_parsers.metrics import BY_KEY, CATALOGUE, OWN_LABELS
from telemetry_parsers.model import Absent

UNIT_SUFFIXES = ("celsius", "watts", "joules", "bytes", "ratio", "hertz", "seconds", "volts")


def test_names_end_with_unit_or_total_or_info() -> None:
    """Base units at the end of the name, _total for counters only, _info for facts only."""
    for metric in CATALOGUE:
        assert re.fullmatch(r"(accelerator|telemetry)_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_info") == (metric.kind == "info")
        suffix = metric.name.removesuffix("_total").rpartition("_")[2]
        assert (suffix if suffix in UNIT_SUFFIXES else "") == metric.unit
        assert metric.help.endswith(".")
        assert metric.low <= metric.high
        assert not metric.words or metric.label or metric.name in OWN_LABELS


def test_rows_are_unique():
    assert len({metric.name for metric in CATALOGUE}) == len(BY_KEY) == len(CATALOGUE)


def test_the_daemons_own_metrics_have_their_labels():
    assert set(OWN_LABELS) == {metric.name for metric in CATALOGUE if metric.scope == "daemon"}


def test_readings_are_in_range() -> None:
    for key, value, expected in [
        ("utilization_ratio", 0.0, 0.0),
        ("utilization_ratio", 1.0, 1.0),
        ("utilization_ratio", 1.01, Absent.IMPLAUSIBLE),
        ("utilization_ratio", -0.01, Absent.IMPLAUSIBLE),
        ("temperature_celsius", 0.0, 0.0),
        ("temperature_celsius", 345.0, Absent.IMPLAUSIBLE),
        ("power_watts", math.nan, Absent.IMPLAUSIBLE),
        ("energy_joules_total", math.inf, Absent.IMPLAUSIBLE),
        ("memory_total_bytes", 0.0, Absent.IMPLAUSIBLE),
        ("power_watts", Absent.NOT_SUPPORTED, Absent.NOT_SUPPORTED),
    ]:
        assert metrics.reading(0, key, value).value == expected


def test_there_is_no_negative_zero():
    assert math.copysign(1.0, metrics.reading(0, "utilization_ratio", -0.0).value) == 1.0


def test_state_readings_have_one_value_of_1():
    found = metrics.state_readings(0, "health", "warning", ("ok", "warning", "critical"))
    assert [(reading.label, reading.value) for reading in found] == [("ok", 0.0), ("warning", 1.0), ("critical", 0.0)]
    assert len(metrics.state_readings(0, "health", "ok")) == len(BY_KEY["health"].words)


def test_main_temperature() -> None:
    """ "The temperature" is not that of memory, board or air."""
    for sensor, main in [("core", True), ("edge", True), ("junction", True), ("hotspot", True), ("memory", False), ("board", False), ("hbm3", False),
         ("aid0", True), ("xcd3", True), ("ndie", True), ("stack1", False), ("vr_gfx", False), ("ubb_fpga", False), ("lm75_1", False)]:  # fmt: skip
        assert metrics.is_main_sensor(sensor) is main
