"""The tables that rocm-smi and hy-smi print without arguments: which rows are whole, and which table is."""

from __future__ import annotations

import pytest

from kits.captures import text_capture
from kits.parsed.rocm_smi import problems, readings, report_on
from telemetry_parsers.vendors.hygon import hy_smi

HEADING = "GPU  Temp   AvgPwr  SCLK    MCLK     Fan  Perf     PwrCap  VRAM%  GPU%\n"
ROW = "0    41.0c  93.0W   800Mhz  1600Mhz  0%   auto     300.0W   16%   37%\n"
RULE = "=" * 70 + "\n"
END = "======================= End of ROCm SMI Log ========================\n"
TWO_LINES = """Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
====================================================================
0       2     0x74a1,   28851  45.0°C      138.0W    NPS1, SPX, 0        132Mhz  900Mhz  0%   auto  750.0W  3%     1%
====================================================================
"""


def test_a_table_with_its_closing_rule_is_whole() -> None:
    report = report_on(HEADING + ROW + RULE + END)
    assert (report.problems, report.is_cut) == ((), False)
    assert readings(report)["memory_used_ratio"] == 0.16


@pytest.mark.parametrize("text", [HEADING + ROW, HEADING + ROW + "ERROR: GPU[1] : sclk clock is unsupported\n" + RULE])
def test_a_table_that_stops_without_its_rule_is_cut_and_no_card_is_lost_by_it(text: str) -> None:
    report = report_on(text)
    assert "further cards may be missing" in problems(report)[-1]
    assert report.is_cut
    assert readings(report)["utilization_ratio"] == 0.37


def test_hygons_table_that_stops_after_a_card_is_cut() -> None:
    heading = "HCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      HCU%      Mode\n"
    rows = "".join(f"{n}       51.0C    97.0W      auto     300.0W     0%         0.0%      Normal\n" for n in (0, 1))
    report = hy_smi.PARSER.parse(text_capture(hy_smi.PARSER, heading + rows))
    assert report.is_cut
    assert report.problems != ()


@pytest.mark.parametrize("lost", ["16%", "37%", "auto", "300.0W", "800Mhz", "93.0W"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_row_that_has_lost_a_cell_gives_no_number(lost: str, stays: bool) -> None:
    head, _, tail = ROW.partition(lost)
    row = head + (" " * len(lost) + tail if stays else tail.lstrip(" "))
    report = report_on(HEADING + row + RULE + END)
    assert (readings(report), len(report.problems)) == ({}, 1)
    assert [device.index for device in report.devices] == [0]


@pytest.mark.parametrize(
    "lost", ["(Junction)", "(Socket)", "(DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)"]
)
def test_a_lost_sub_heading_makes_no_other_sensor_of_the_temperature(lost: str) -> None:
    report = report_on(TWO_LINES.replace(lost, " " * len(lost)) + END)
    found = readings(report)
    assert "temperature_celsius.edge" not in found
    assert ("temperature_celsius.junction" in found) is (lost == "(Socket)")
    assert "second line of headings" in problems(report)[0]
    assert found["utilization_ratio"] == 0.01


EMPTY_FILE = 'Expected integer value from monitor, but got ""\n'
ASLEEP = "1    N/A    N/A     None    None     0%   unknown  N/A      0%    0%\n"


def test_the_zeros_of_a_card_that_tells_neither_temperature_nor_power_are_no_readings() -> None:
    report = report_on(EMPTY_FILE + HEADING + EMPTY_FILE + ROW + ASLEEP + RULE + END)
    assert problems(report) == [f"line {line}: {EMPTY_FILE.strip()}" for line in (1, 3)]
    asleep = readings(report, 1)
    assert {asleep[metric] for metric in ("temperature_celsius.edge", "power_watts")} == {"not_reported"}
    assert {asleep[metric] for metric in ("fan_ratio", "memory_used_ratio", "utilization_ratio")} == {"implausible"}
    assert readings(report, 0)["fan_ratio"] == 0.0
