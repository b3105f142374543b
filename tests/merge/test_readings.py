"""Readings in columns are the same sequence as the readings themselves."""

import pytest

from telemetry_parsers.model import Absent, MergedReading
from telemetry_parsers.readings import Readings

GIVEN = (
    MergedReading("power_watts", "", 71.5, "nvml", 10.0, 1.0),
    MergedReading("temperature_celsius", "edge", Absent.NOT_SUPPORTED, "nvml", 10.0, 1.0),
    MergedReading("memory_total_bytes", "", 8e10, "nvidia-smi", 4.0, 60.0),
)


def test_readings_behave_like_the_tuple() -> None:
    readings = Readings.of(GIVEN)
    assert readings == GIVEN
    assert tuple(readings) == GIVEN
    assert hash(readings) == hash(GIVEN)
    assert (readings[0], readings[-1], readings[1:]) == (GIVEN[0], GIVEN[-1], GIVEN[1:])
    assert len(readings) == len(GIVEN)
    assert GIVEN[1] in readings


def test_an_origin_is_kept_once() -> None:
    assert len(Readings.of(GIVEN).origins) == 2


@pytest.mark.parametrize(
    ("metric", "label", "value"),
    [
        ("power_watts", "", 71.5),
        ("temperature_celsius", "edge", Absent.NOT_SUPPORTED),
        ("temperature_celsius", "", None),
    ],
)
def test_a_value_is_found_by_metric_and_label(metric: str, label: str, value: object) -> None:
    assert Readings.of(GIVEN).value(metric, label) == value


def test_other_readings_are_not_equal() -> None:
    assert Readings.of(GIVEN) != Readings.of(GIVEN[:2])
    assert Readings.of(GIVEN) != list(GIVEN)
