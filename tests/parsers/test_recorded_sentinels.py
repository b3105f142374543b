"""What libraries answer where they know nothing: all bits set is a number of no metric, whatever is asked."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Capture, Library, Output, Report
from telemetry_parsers.vendors.moorethreads import mtml as mtml_tables
from telemetry_parsers.vendors.moorethreads.mtml import PARSER as MTML
from telemetry_parsers.vendors.nvidia.nvml import PARSER as NVML
from telemetry_parsers.vendors.nvidia.nvml import tables as nvml_tables

# All bits set: signed, in 31, 32, 63 and 64 bits. Shorter ones may be numbers, but not of what has a range.
ALL_BITS = (-1, -1.0, 2**31 - 1, 2**32 - 1, float(2**32 - 1), 2**63 - 1, 2**64 - 1)
SHORT = (0xFF, 0xFFFF, 511.875, 10**9)
SIGNED = {"temperature_margin_celsius", "temperature_margin_limit_celsius"}


def every_answer(number: Any) -> dict[str, Any]:
    """A GPU that answers this to whatever it is asked."""
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
        "fields": dict.fromkeys((*nvml_tables.FIELDS, *nvml_tables.ECC_FIELDS, nvml_tables.RECOVERY), number),
        "gpm": dict.fromkeys(nvml_tables.GPM, number),
        "links": {"each": {"0": dict.fromkeys(("state", "tx_bytes", "rx_bytes", "crc", "replay", "recovery"), number)}},
        "compute_capability": [9, 0],
    }


def with_parts(parts: set[Any], number: Any) -> Any:
    if parts == {None}:
        return number
    return dict.fromkeys(parts, number) if all(isinstance(part, str) for part in parts) else [number] * 2


def nvml_report(gpu: dict[str, Any]) -> Report:
    """What is made of one GPU."""
    document = {"node": {"count": 1, "unseen": []}, "gpus": [{"index": 0, **gpu}], "events": []}
    return NVML.parse(Capture("nvml", "fast", Library("nvml", ("fast",)), (Output("fast", data=document, status=0),)))


def mtml_report(calls: dict[str, Any]) -> Report:
    """What is made of one card."""
    document = {"node": {"count": 1}, "cards": [{"index": 0, "calls": calls}]}
    return MTML.parse(Capture("mtml", "fast", Library("mtml", ("fast",)), (Output("fast", data=document, status=0),)))


@pytest.mark.parametrize("number", ALL_BITS)
def test_all_bits_set_are_a_reading_of_nothing(number: Any) -> None:
    """Whatever is asked: no metric takes them for a number, but for what may well be -1."""
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
def test_short_words_with_all_bits_set_are_no_reading_of_what_has_a_range(number: Any) -> None:
    report = nvml_report(every_answer(number))
    numbers = {item.metric for item in report.readings if not isinstance(item.value, Absent)}
    metrics = {BY_KEY[key] for key in numbers}
    # A mask of reasons has no range, and each of its bits means something.
    free = {"throttled", "power", "memory", "bar1", "clock", "compute", "retired", "remapped", "fan"}
    assert {
        metric.key for metric in metrics if metric.kind == "gauge" and metric.key.split("_")[0] not in free
    } == set()


@pytest.mark.parametrize("number", ALL_BITS)
def test_all_bits_set_are_a_reading_of_nothing_for_mtml_either(number: Any) -> None:
    parts = {name: {row.part for row in rows} for name, rows in mtml_tables.CALLS.items()}
    answers = {name: with_parts(wanted, number) for name, wanted in parts.items()}
    calls = {**answers, f"{mtml_tables.FAN_CALLS}0": number, f"{mtml_tables.LINK_CALLS}0": number}
    report = mtml_report(calls)
    assert [item for item in report.readings if not isinstance(item.value, Absent)] == []
    assert {item.metric for item in report.readings} == set(mtml_tables.GIVES)


@pytest.mark.parametrize("broken", [-1, {"error": 4}, 255])
def test_the_fastest_fan_is_none_where_one_of_them_is_unknown(broken: Any) -> None:
    report = mtml_report({f"{mtml_tables.FAN_CALLS}0": 61, f"{mtml_tables.FAN_CALLS}1": broken})
    assert [isinstance(item.value, Absent) for item in report.readings] == [True]
