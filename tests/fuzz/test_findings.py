"""What fuzzing found, kept as it was made small."""

from __future__ import annotations

import pytest

from captures_kit import registered_parsers, text_capture
from telemetry_parsers.model import Absent

HEAD = "Timestamp, DeviceId, GPU Power (W)"


def powers(text: str) -> list[float]:
    report = registered_parsers()["xpu-smi"].parse(text_capture(registered_parsers()["xpu-smi"], text))
    return [one.value for one in report.readings if one.metric == "power_watts" and not isinstance(one.value, Absent)]


@pytest.mark.parametrize(
    ("row", "watts"),
    [
        ("06:14:46.000,    0, 114.60", [114.6]),
        ("06:14:46.000,    0, 11\x004.60", []),
        ("06:14:46.000,    0, 114\x00", []),
        ("\x00" * 9 + "06:14:46.000,    0, 114.60", [114.6]),
        ("06:14:46.000" + " " * 7980 + ", 0, 114.60", []),
    ],
    ids=[
        "whole",
        "a hole in the number",
        "a hole behind it",
        "a hole elsewhere",
        "a number at the end of what is looked at",
    ],
)
def test_a_number_with_a_hole_or_cut_off_is_none(row: str, watts: list[float]) -> None:
    assert powers(f"{HEAD}\n{row}\n") == watts
