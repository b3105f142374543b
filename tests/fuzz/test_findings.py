"""What fuzzing found, kept as it was made small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.captures import own_cases, registered_parsers, text_capture
from telemetry_parsers.checks.suite import parse_violations
from telemetry_parsers.model import Absent, Output

HEAD = "Timestamp, DeviceId, GPU Power (W)"
XPU_SMI = registered_parsers()["xpu-smi"]


def readings(text: str) -> dict[tuple[int | None, str], float]:
    """Return the numbers by card and metric."""
    report = XPU_SMI.parse(text_capture(XPU_SMI, text))
    return {
        (None if one.device is None else report.devices[one.device].index, one.metric): one.value
        for one in report.readings
        if not isinstance(one.value, Absent)
    }


@pytest.mark.parametrize(
    ("row", "watts"),
    [
        pytest.param("06:14:46.000,    0, 114.60", 114.6, id="whole"),
        pytest.param("06:14:46.000,    0, 11\x004.60", None, id="a hole in the number"),
        pytest.param("06:14:46.000,    0, 114\x00", None, id="a hole behind it"),
        pytest.param("\x00" * 9 + "06:14:46.000,    0, 114.60", 114.6, id="a hole elsewhere"),
        pytest.param("06:14:46.000" + " " * 7980 + ", 0, 114.60", None, id="at the end of what is looked at"),
    ],
)
def test_a_number_with_a_hole_or_cut_off_is_none(row: str, watts: float | None) -> None:
    assert readings(f"{HEAD}\n{row}\n").get((0, "power_watts")) == watts


def test_a_row_is_read_under_the_headings_above_it() -> None:
    """Two outputs in one text: a card that only the first lists keeps that one's columns."""
    first = "Timestamp, DeviceId, GPU Power (W)\n06:14:46.000,    0, 114.60\n06:14:46.000,    1, 115.70\n"
    second = "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W)\n06:14:47.000,    0, 37.00, 116.80\n"
    assert readings(first + second) == {
        (0, "utilization_ratio"): 0.37,
        (0, "power_watts"): 116.8,
        (1, "power_watts"): 115.7,
    }


@pytest.mark.parametrize("name", sorted(registered_parsers()))
def test_a_text_may_end_in_a_cell_beyond_what_is_looked_at(name: str) -> None:
    parser = registered_parsers()[name]
    for case in own_cases(name):
        for capture in case.captures(parser) if case.path.suffix == ".txt" else ():
            ends_far = replace(capture, outputs=(Output(text=f"{capture.outputs[0].text}|{' ' * 400}x"),))
            assert parse_violations(parser, ends_far) == [], case.id
