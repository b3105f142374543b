"""What amd-smi's keys, cells and lists give, beyond the golden files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kits.captures import text_capture
from telemetry_parsers.model import Absent, Output, Report, Value
from telemetry_parsers.vendors.amd.amd_smi import PARSER

MIB, GIB, MHZ = 2**20, 2**30, 10**6


def report_on(text: str) -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text)))


def report_of(**card: Any) -> Report:
    return report_on(json.dumps([{"gpu": 0, **card}]))


def value(report: Report, metric: str, label: str = "") -> Value | None:
    found = [item.value for item in report.readings if (item.metric, item.label) == (metric, label)]
    assert len(found) < 2
    return found[0] if found else None


def quantity(number: object, unit: str) -> dict[str, object]:
    return {"value": number, "unit": unit}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (quantity(42, "W"), 42.0),
        (quantity(42.5, "W"), 42.5),
        (quantity("42", "W"), 42.0),
        (quantity(42_000, "mW"), 42.0),
        (quantity(42, ""), 42.0),
        ({"value": 42}, 42.0),
        ("42 W", 42.0),
        (42, 42.0),
        (0, 0.0),
        ("N/A", Absent.NOT_REPORTED),
        (quantity("N/A", "W"), Absent.NOT_REPORTED),
        (quantity("N/A", "N/A"), Absent.NOT_REPORTED),
        (None, Absent.NOT_REPORTED),
        ("", Absent.NOT_REPORTED),
        (quantity(None, "W"), Absent.NOT_REPORTED),
        ("Not Supported", Absent.NOT_SUPPORTED),
        (quantity(42, "%"), Absent.NOT_UNDERSTOOD),
        (quantity(True, "W"), Absent.NOT_UNDERSTOOD),
        (quantity(-1, "W"), Absent.IMPLAUSIBLE),
        (quantity(4294967295, "W"), Absent.IMPLAUSIBLE),
        (quantity(65535, "W"), Absent.IMPLAUSIBLE),
        ("N/A W", Absent.NOT_REPORTED),
        ("lots", Absent.NOT_UNDERSTOOD),
    ],
)
def test_a_value_in_every_form(printed: object, expected: Value) -> None:
    report = report_of(power={"socket_power": printed})
    assert value(report, "power_watts") == expected
    assert bool(report.problems) == (expected in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([quantity(3, "%"), "N/A", quantity(12, "%"), quantity(0, "%")], 0.12),
        (["N/A", "N/A"], Absent.NOT_REPORTED),
        ([quantity(0, "%")], 0.0),
        ([quantity("N/A", "%"), quantity(7, "%")], 0.07),
        ("N/A", Absent.NOT_REPORTED),
        ([], None),
    ],
)
def test_of_a_list_of_engines_the_busiest_counts(items: object, expected: Value | None) -> None:
    assert value(report_of(usage={"jpeg_activity": items}), "engine_utilization_ratio", "jpeg") == expected


@pytest.mark.parametrize(
    ("activity", "busy", "expected"),
    [
        (["N/A"], [quantity(9, "%")], 0.09),
        ([quantity(4, "%")], [quantity(9, "%")], 0.04),
        ([quantity(4, "%")], ["N/A"], 0.04),
    ],
)
def test_an_engine_of_partitions_counts_where_the_card_tells_none(
    activity: object, busy: object, expected: float
) -> None:
    report = report_of(usage={"vcn_activity": activity, "vcn_busy": {"xcp_0": busy, "xcp_1": ["N/A"]}})
    assert value(report, "engine_utilization_ratio", "vcn") == expected


@pytest.mark.parametrize(
    ("power", "main", "average", "instant", "kind"),
    [
        ({"current_socket_power": 121, "average_socket_power": 88}, 121.0, 88.0, 121.0, "instant"),
        ({"average_socket_power": 88, "current_socket_power": 121}, 121.0, 88.0, 121.0, "instant"),
        ({"current_socket_power": "N/A", "average_socket_power": 88}, 88.0, 88.0, Absent.NOT_REPORTED, "average"),
        ({"socket_power": 90}, 90.0, None, None, None),
    ],
)
def test_two_kinds_of_power_are_told_apart(
    power: dict[str, object], main: float, average: Value | None, instant: Value | None, kind: str | None
) -> None:
    report = report_of(power=power)
    assert value(report, "power_watts") == main
    assert value(report, "power_average_watts") == average
    assert value(report, "power_instant_watts") == instant
    assert dict(report.devices[0].facts).get("power_kind") == kind


def test_errors_are_told_by_block_or_in_all_but_never_twice() -> None:
    total = {"total_correctable_count": 7, "total_uncorrectable_count": 0, "cache_correctable_count": 2}
    blocks = {"UMC": {"correctable_count": 7, "uncorrectable_count": 0, "deferred_count": 1}}
    both = report_of(ecc=total, ecc_blocks=blocks)
    assert value(both, "ecc_corrected_total", "all") is None
    assert value(both, "ecc_corrected_total", "umc") == 7.0
    for nothing in ("N/A", {}, {"UMC": {"correctable_count": "N/A", "uncorrectable_count": "N/A"}}):
        alone = report_of(ecc=total, ecc_blocks=nothing)
        assert value(alone, "ecc_corrected_total", "all") == 7.0
        assert value(alone, "ecc_corrected_total", "cache") is None


@pytest.mark.parametrize(
    ("limit", "cap", "highest"),
    [
        ({"max_power": quantity(750, "W"), "socket_power": quantity(650, "W")}, 650.0, 750.0),
        ({"ppt0": {"max_power_limit": quantity(750, "W"), "socket_power_limit": quantity(650, "W")}}, 650.0, 750.0),
        ({"ppt0": {"socket_power_limit": "650 W"}, "ppt1": {"socket_power_limit": "900 W"}}, 650.0, None),
        ({"max_power": 225, "current_power": 200}, 200.0, 225.0),
        ({"max_power": "0 W", "min_power": "0 W", "socket_power": "0 W"}, Absent.NOT_SUPPORTED, Absent.NOT_SUPPORTED),
        ({"ppt0": {"max_power_limit": "550 W", "socket_power_limit": "0 W"}}, Absent.NOT_SUPPORTED, 550.0),
    ],
)
def test_limits_of_all_versions(limit: dict[str, object], cap: Value, highest: Value | None) -> None:
    report = report_of(limit=limit)
    assert (value(report, "power_cap_watts"), value(report, "power_cap_max_watts")) == (cap, highest)
    assert report.unknown_fields == ()


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        (quantity(2.5, "GT/s"), 1.0),
        (quantity(16, "GT/s"), 4.0),
        ("32 GT/s", 5.0),
        ("N/A", Absent.NOT_REPORTED),
        (quantity(17, "GT/s"), Absent.NOT_UNDERSTOOD),
        (16000, Absent.NOT_UNDERSTOOD),
    ],
)
def test_the_generation_of_the_link_is_known_by_its_speed(speed: object, expected: Value) -> None:
    assert value(report_of(pcie={"speed": speed}), "pcie_link_generation") == expected


def test_packets_that_were_refused_on_the_pcie_link_are_counted_by_side() -> None:
    report = report_of(pcie={"nak_sent_count": 3, "nak_received_count": "N/A", "replay_count": 2})
    assert value(report, "pcie_errors_total", "nak_sent") == 3.0
    assert value(report, "pcie_errors_total", "nak_received") is Absent.NOT_REPORTED
    assert value(report, "pcie_replays_total") == 2.0


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("ACTIVE", 1.0),
        ("NOT ACTIVE", 0.0),
        ("N/A", Absent.NOT_REPORTED),
        ({"xcp_0": ["NOT ACTIVE", "ACTIVE", "N/A"]}, 1.0),
        ({"xcp_0": ["NOT ACTIVE", "N/A"]}, 0.0),
        ({"value": {"xcp_0": ["ACTIVE"]}, "unit": ""}, 1.0),
        ("SOMEWHAT", Absent.NOT_UNDERSTOOD),
    ],
)
def test_a_violation_is_a_state_whoever_of_a_card_is_in_it(printed: object, expected: Value) -> None:
    assert value(report_of(throttle={"ppt_violation_status": printed}), "throttled", "ppt") == expected


@pytest.mark.parametrize(
    ("printed", "word"),
    [
        ("AMDSMI_DEV_PERF_LEVEL_AUTO", "auto"),
        ("AMDSMI_DEV_PERF_LEVEL_DETERMINISM", "determinism"),
        ("AMDSMI_DEV_PERF_LEVEL_STABLE_PEAK", "profile"),
        ("profile_peak", "profile"),
        ("manual", "manual"),
        ("N/A", None),
        ("AMDSMI_DEV_PERF_LEVEL_WARP", None),
    ],
)
def test_the_level_is_one_word_of_the_catalogue(printed: str, word: str | None) -> None:
    report = report_of(perf_level=printed)
    levels = {item.label for item in report.readings if item.metric == "performance_level" and item.value == 1.0}
    assert levels == ({word} if word else set())


@pytest.mark.parametrize(
    ("heading", "cell", "metric", "label", "expected"),
    [
        ("GPU_TEMP", "32 °C", "temperature_celsius", "core", 32.0),
        ("GPU_T", "32 C", "temperature_celsius", "core", 32.0),
        ("MEM_T", "N/A", "temperature_celsius", "memory", Absent.NOT_REPORTED),
        ("GFX%", "7 %", "utilization_ratio", "", 0.07),
        ("GFX_UTIL", "100 %", "utilization_ratio", "", 1.0),
        ("GFX_CLK", "2106 MHz", "clock_hertz", "graphics", 2106.0 * MHZ),
        ("MEM_CLOCK", "900 MHz", "clock_hertz", "memory", 900.0 * MHZ),
        ("MEM_CLOCK", "65535 MHz", "clock_hertz", "memory", Absent.IMPLAUSIBLE),
        ("VCLOCK", "48 MHz", "clock_hertz", "video", 48.0 * MHZ),
        ("VRAM_USED", "283 MB", "memory_used_bytes", "", 283.0 * MIB),
        ("VRAM_FREE", "1.5 GB", "memory_free_bytes", "", 1.5 * GIB),
        ("VRAM_TOTAL", "196300 MB", "memory_total_bytes", "", 196300.0 * MIB),
        ("VRAM_USAGE", "3.5/191.5 GB", "memory_used_bytes", "", 3.5 * GIB),
        ("VRAM_USAGE", "0.5/ 16.0 GB", "memory_total_bytes", "", 16.0 * GIB),
        ("VRAM_USAGE", "N/A", "memory_used_bytes", "", Absent.NOT_REPORTED),
        ("VRAM_USED", "283", "memory_used_bytes", "", Absent.NOT_UNDERSTOOD),
        ("VRAM_USED", "16.0 EB", "memory_used_bytes", "", Absent.IMPLAUSIBLE),
        ("PWR_CAP", "750 W", "power_cap_watts", "", 750.0),
        ("PWR_CAP", "0 W", "power_cap_watts", "", Absent.NOT_SUPPORTED),
        ("GFXCLK_PVIOL", "[0 %, 100 %, N/A, N/A]", "power_cap_watts", "", None),
        ("GTT_USAGE", "12.5/ 62.7 GB", "memory_used_bytes", "", None),
        ("GTT_TOTAL", "62000 MB", "memory_total_bytes", "", None),
        ("DOUBLE_ECC", "3", "ecc_uncorrected_total", "all", 3.0),
    ],
)
def test_a_cell_of_monitors_table(heading: str, cell: str, metric: str, label: str, expected: Value) -> None:
    for table in (f"GPU  POWER  {heading}\n  0   90 W  {cell}\n", f"GPU  {heading}  POWER\n  0  {cell}  90 W\n"):
        report = report_on(table)
        assert value(report, metric, label) == expected
        assert value(report, "power_watts") == 90.0


def test_a_row_whose_cells_fit_no_heading_is_not_guessed_at() -> None:
    report = report_on("GPU  POWER  GPU_T\n  0  90 W\n  1  91 W  40 °C  12 %\n  2  92 W  41 °C\n")
    assert [device.index for device in report.devices] == [2]
    assert [problem.text.split(":")[0] for problem in report.problems] == ["does not fit the headings"] * 2


def test_headings_that_nobody_knows_are_named_and_cost_only_their_cells() -> None:
    report = report_on("GPU  POWER  SPIN  GPU_T\n  0  90 W  12 rad/s  40 °C\n")
    assert report.unknown_fields == ("SPIN",)
    assert (value(report, "power_watts"), value(report, "temperature_celsius", "core")) == (90.0, 40.0)


@pytest.mark.parametrize(
    ("columns", "row", "metric", "label", "expected"),
    [
        ("gpu,edge,mem", "0,40,44", "temperature_celsius", "memory", 44.0),
        ("gpu,power_usage,mem", "0,40,44", "memory_activity_ratio", "", 0.44),
        ("gpu,max_power,socket_power", "0,300,250", "power_cap_watts", "", 250.0),
        ("gpu,max_power,socket_power", "0,300,250", "power_cap_max_watts", "", 300.0),
        ("gpu,power_usage,max_power", "0,250,300", "power_cap_watts", "", 300.0),
        ("gpu,ppt0_max_power_limit,ppt0_socket_power_limit", "0,750,640", "power_cap_watts", "", 640.0),
        ("gpu,ppt0_socket_power_limit,ppt1_socket_power_limit", "0,640,1250", "power_cap_watts", "", 640.0),
        ("gpu,socket_power,throttle_status", "0,250,UNTHROTTLED", "power_watts", "", 250.0),
        ("gpu,gfx_0_clk,gfx_1_clk", "0,132,150", "clock_hertz", "graphics", 150.0 * MHZ),
        ("timestamp,gpu,socket_power", "1730000000,0,250", "power_watts", "", 250.0),
        ("gpu,jpeg_activity", "0,\"[1, 'N/A', 5]\"", "engine_utilization_ratio", "jpeg", 0.05),
        ("gpu,size", "0,65520", "memory_total_bytes", "", 65520.0 * MIB),
    ],
)
def test_a_column_of_csv(columns: str, row: str, metric: str, label: str, expected: Value) -> None:
    assert value(report_on(f"{columns}\n{row}\n"), metric, label) == expected


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({"memory_usage": {"vram_mem": quantity(1024, "B")}, "mem_usage": quantity(9, "B")}, 1024.0),
        ({"memory_usage": {"vram_mem": "10.5 GB"}}, 10.5 * GIB),
        ({"mem_usage": quantity(9, "B")}, 9.0),
        ({"mem_usage": "16.0 EB"}, None),
        ({"memory_usage": {"vram_mem": "N/A"}, "mem_usage": quantity(9, "B")}, None),
        ({}, None),
    ],
)
def test_the_memory_of_a_process_is_that_on_the_card(used: dict[str, object], expected: float | None) -> None:
    report = report_of(process_list=[{"process_info": {"name": "a b", "pid": 12, **used}}])
    assert [(one.pid, one.name, one.memory_used_bytes) for one in report.processes] == [(12, "a b", expected)]
    assert value(report, "processes") == 1.0


def test_a_process_without_a_number_is_not_counted() -> None:
    report = report_of(process_list=[{"process_info": {"name": "x", "pid": "N/A"}}])
    assert (report.processes, value(report, "processes")) == ((), Absent.NOT_UNDERSTOOD)


def test_a_link_to_oneself_is_none() -> None:
    links = [{"gpu": 0, "link_type": "SELF", "link_status": "ENABLED"}, {"gpu": 1, "link_type": "XGMI"}]
    report = report_of(links=links)
    assert value(report, "link_up", "gpu0") is None
    assert value(report, "link_up", "gpu1") is Absent.NOT_REPORTED
