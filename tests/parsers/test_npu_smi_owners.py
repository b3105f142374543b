"""Whose npu-smi's values are when a line is lost: which memory, which chip, which card, and the faults that stand."""

from __future__ import annotations

import pytest

from kits.parsed.npu_smi import POLLS, asked, chip_places, report_on, text_of, values
from telemetry_parsers.merge.columns import offered
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.node import merge
from telemetry_parsers.model import Capture, Output, Report, SourceReport, Value
from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

COMMON = text_of("common-mcu")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("DDR Capacity(MB) : 15171\nDDR Usage Rate(%) : 3\n", None),  # HBM's lines stood below it
        ("DDR Capacity(MB) : 15171\nDDR Usage Rate(%) : 3\nAicpu Usage Rate(%) : 1\nChip ID : 0\n", None),
        ("DDR Capacity(MB) : 44280\nDDR Usage Rate(%) : 3\nVectorcore Usage Rate(%) : 1\nChip ID : 0\n", 44280.0),
        ("DDR Capacity(MB) : 15171\nHBM Capacity(MB) : 32768\nChip ID : 0\n", 32768.0),
        ("DDR Capacity(MB) : 15171\nHBM Capacity(MB) : 0\nChip ID : 0\n", 15171.0),
        ("DDR Capacity(MB) : 15171\nHBM Usage Rate(%) : 0\nChip ID : 0\n", None),
        ("DDR Capacity(MB) : 44280\nDDR Clock Speed(MHz) : 451\nChip ID : 0\n", 44280.0),
        ("DDR Capacity(MB) : 44280\nDDR Clock Speed(MHz) : 451\n", None),
    ],
)
def test_ddr_is_the_memory_only_where_no_line_of_hbm_can_be_lost(lines: str, expected: float | None) -> None:
    report = report_on("NPU ID : 0\nChip Count : 1\n\n" + lines)
    assert values(report, "memory_total_bytes") == ([] if expected is None else [expected * 2**20])
    assert bool(report.problems) == ("Chip ID" not in lines or "HBM Usage" in lines)


CLOSED = "NPU ID : 1\nChip Count : 2\n\nAicpu Usage Rate(%) : 4\nChip ID : 0\n\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"
OPENED = text_of("common-310p")
VOLTS = text_of("volt")


@pytest.mark.parametrize(
    ("text", "lost", "problem"),
    [
        (CLOSED, "Chip ID : 0\n", "without its name"),
        (CLOSED, "Chip ID : 1\n", "without its name"),
        (CLOSED, "NPU ID : 1\n", "without its NPU ID"),
        (CLOSED, "Aicpu Usage Rate(%) : 9\nChip ID : 1\n", "counts 2 chips and tells of 1"),
        (OPENED, "\tChip ID                        : 0\n", "without its name"),
        (OPENED, "\tChip ID                        : 1\n", "without its name"),
        (OPENED, "\tChip Name                      : mcu\n", "without its name"),
        (OPENED.replace("\n\n", "\n"), "\tChip Name                      : mcu\n", "come twice"),
        (OPENED, "\tNPU Real-time Power(W)         : 45.2\n", "cut off below"),
        (VOLTS, "\tChip Name                      : MCU\n", "without its name"),
    ],
)
def test_a_lost_name_moves_no_value_to_another_chip(text: str, lost: str, problem: str) -> None:
    assert text.count(lost) == 1
    whole, left = report_on(text), report_on(text.replace(lost, ""))
    assert whole.problems == ()
    assert any(problem in found.text for found in left.problems), left.problems
    assert values_by_chip(left) <= values_by_chip(whole)


def values_by_chip(report: Report) -> set[tuple[tuple[str | None, str | None] | None, str, str, Value]]:
    """The numbers of a report, each with the place of its chip."""
    return {(chip_places(report)[item.device or 0], item.metric, item.label, item.value) for item in report.readings}


@pytest.mark.parametrize("temperature", ["33", "NA"])
def test_the_controller_of_a_910_tells_no_power_and_its_answer_is_whole(temperature: str) -> None:
    chips, _, controller = COMMON.partition("\tChip Name ")
    assert controller.count("NPU Real-time Power") == 1
    text = f"{chips}\tChip Name : mcu\n\tTemperature(C) : {temperature}\n"
    assert (report_on(text).problems, values_by_chip(report_on(text))) == ((), values_by_chip(report_on(COMMON)))


def test_pages_to_be_isolated_end_what_a_310p_says_of_its_ecc() -> None:
    counts = [
        f"DDR {bits} Bit {what} : 0\n"
        for what in ("Error Count", "Next-Isolated Pages Count")
        for bits in ("Single", "Double")
    ]
    assert report_on("".join(counts)).problems == ()
    assert "cut off" in report_on("".join(counts[:2])).problems[0].text


def test_the_power_of_a_card_is_told_of_each_of_its_chips_and_of_no_chip_that_is_alone() -> None:
    assert [(item.device, item.metric, item.value) for item in report_on(text_of("power-310p")).readings] == [
        (0, "power_card_watts", 43.7),
        (1, "power_card_watts", 43.7),
    ]
    assert values(report_on(OPENED), "power_card_watts") == [45.2, 45.2]
    assert values(report_on(COMMON), "power_card_watts") == []
    alone = report_on("NPU ID : 3\nChip Count : 1\n\nPower Dissipation(W) : 65.5\n")
    assert [(item.metric, item.value) for item in alone.readings] == [("power_watts", 65.5)]


def test_the_sensors_of_the_controller_alone_are_the_cards() -> None:
    text = "LM75A_TE (C) : 39\nTEC_TEMP (C) : NA\n"
    request = POLLS["temperatures"].request
    output = Output("npu-smi info -t temp -i 4 -c 1", "4", text, status=0)
    report = PARSER.parse(Capture(PARSER.name, "temperatures", request, (output,)))
    assert (chip_places(report), values(report, "temperature_celsius", "lm75_a")) == ([("4", None)], [39.0])


EVENTS = """Fault Event Count : 2
Fault Event Information : event id=0x81AF8000, severity=2
Fault Event Information : event id=0x80E18402, severity=1
"""


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ("Health Status : Alarm\nError Code : A4025021 8C03A000\nError Information : x\n", ["error_a4025021", "error_8c03a000"]),
        ("Health Status : OK\nError Code : NA\nError Information : NA\n", []),
        ("Health Status : Alarm\nError Code : 0x80E01801\nError Information : x\n", ["error_80e01801"]),
        ("Chip Count : 2\nChip Fault : 0\n", []),
        ("Chip Count : 2\nChip Fault : 2\n", ["chip_fault", "chip_fault"]),  # of each chip: nothing tells which
        ("Chip Count : 1\nChip Fault : 1\n", ["chip_fault"]),
        ("Chip Count : 2\nChip Fault : NA\n", []),
        (EVENTS, ["error_81af8000", "error_80e18402"]),
    ],
)  # fmt: skip
def test_a_fault_that_stands_is_an_event(lines: str, codes: list[str]) -> None:
    report = report_on("NPU ID : 3\n" + lines)
    assert [event.code for event in report.events] == codes
    assert all(event.is_ongoing for event in report.events)
    assert report.problems == ()


def test_cards_with_hbm_have_no_other_memory() -> None:
    """A virtual chip's `-t common` leaves the usage of its HBM out, and prints 0 for the memory that it lacks."""
    text = "NPU ID : 0\nChip ID : 0\nMemory Usage Rate(%) : 0\nAicore Count : 8\nTemperature(C) : 46\n"
    assert values(report_on(text), "memory_used_ratio") == []
    assert values(report_on(text.replace("Aicore Count : 8\n", "")), "memory_used_ratio") == [0.0]


@pytest.mark.parametrize(
    ("case", "old", "new", "problem"),
    [
        (
            "table-910a-busy",
            "| 0                         | 0000:84",
            "|                           | 0000:84",
            "number of its chip",
        ),
        (
            "table-a3-dies",
            "| 0     6                   |",
            "| 0                         |",
            "no row of the table",
        ),
        ("log", "npu-smi info -i 0 -c 0 -t health", "npu-smi info -c 0 -t health", "doesn't say of which chip"),
    ],
)
def test_a_chip_without_its_number_is_told(case: str, old: str, new: str, problem: str) -> None:
    whole = text_of(case)
    assert whole.count(old) == 1
    assert any(problem in found.text for found in report_on(whole.replace(old, new)).problems)


def test_what_is_the_cards_reaches_each_of_its_chips_on_the_node() -> None:
    common = text_of("common-310p").replace(": 1\n", ": 2944\n", 1)
    answers = {
        "readings": report_on(text_of("table-310p-duo")),
        "common": asked("common", ("2944", common)),
        "card": asked("card", ("2944", text_of("board-card-310p"))),
    }
    reports = [
        SourceReport("npu-smi", name, "ascend", PARSER.gives, POLLS[name].lists_devices, 60.0, 1.0, 100.0, report)
        for name, report in answers.items()
    ]
    merged = merge([offered(report) for report in reports], MergeState(), now=2.0, wall=100.0)
    powers = [[r.value for r in device.readings if r.metric == "power_card_watts"] for device in merged.devices]
    assert [device.device for device in merged.devices] == ["2944:0", "2944:1"]
    assert powers == [[45.2], [45.2]]
    faulty = [merged.positions["npu-smi", "card"][event.device or 0] for event in answers["card"].events]
    assert faulty == [device.id for device in merged.devices]
