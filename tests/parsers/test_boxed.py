"""Tables like nvidia-smi's, as they arrive: through launchers, with blanks lost, several runs in one text, cut, mixed up."""

from __future__ import annotations

import pytest

from captures_kit import own_case, parse_file, registered_parsers, text_capture
from telemetry_parsers.model import Absent, Output, Report

PARSERS = registered_parsers()
TABLES = (
    ("cnmon", "table-5.10-busy"),
    ("mx-smi", "table-2.2.9-busy"),
    ("mx-smi", "table-ht-2.3.1"),
    ("ixsmi", "table-two-dies-busy"),
    ("efsmi", "table-1.7"),
    ("xpu-smi-kunlun", "table"),
    ("xpu-smi", "table-2.0"),
)


def text_of(source: str, case: str) -> str:
    return parse_file(own_case(source, case).path.read_text()).text


def report_on(source: str, text: str, status: int | None = None) -> Report:
    return PARSERS[source].parse(text_capture(PARSERS[source], Output(text=text, status=status)))


def numbers(report: Report) -> dict[tuple[int | None, str, str], float]:
    return {
        (report.devices[item.device].index, item.metric, item.label): item.value
        for item in report.readings
        if item.device is not None and not isinstance(item.value, Absent)
    }


@pytest.mark.parametrize(("source", "case"), TABLES)
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"node7: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"  {line}   \n" for line in text.splitlines()),
        lambda text: f"\x1b[0m{text}\x1b[0m\n",
        lambda text: f"root@node7:~# {text}",
        lambda text: f"Warning: the clock of this host was changed\n{text}",
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "\n".join(" ".join(line.split()) for line in text.splitlines()) + "\n",
    ],
    ids=["crlf", "launcher", "indented", "coloured", "prompt", "warning", "blank lines", "no last end", "collapsed"],
)
def test_a_table_reads_the_same_however_it_was_saved(source: str, case: str, changed) -> None:
    text = text_of(source, case)
    expected = report_on(source, text)
    found = report_on(source, changed(text))
    assert found.devices == expected.devices
    assert numbers(found) == numbers(expected)


@pytest.mark.parametrize(("source", "case"), TABLES)
def test_of_several_runs_in_one_text_the_last_is_read(source: str, case: str) -> None:
    text = text_of(source, case)
    found = report_on(source, text.replace("0000:", "0001:") + text)
    assert found.devices == report_on(source, text).devices
    assert "2 runs" in found.problems[0].text


@pytest.mark.parametrize(("source", "case"), TABLES)
def test_a_table_without_the_lines_above_it_is_read_where_its_headings_are_its_own(source: str, case: str) -> None:
    lines = text_of(source, case).splitlines()
    first = next(at for at, line in enumerate(lines) if "Bus-" in line or "BUS-ID" in line)
    found = report_on(source, "\n".join(lines[first:]) + "\n")
    assert (found.outcome == "ok") == (source != "xpu-smi")


def test_a_tool_that_died_in_the_middle_of_its_table_has_failed():
    assert report_on("cnmon", text_of("cnmon", "table-cut-in-row"), status=-9).reason == "killed"


def test_a_lost_line_costs_its_own_readings_and_no_card():
    lines = text_of("cnmon", "table-5.10-busy").splitlines()
    found = report_on("cnmon", "\n".join([*lines[:8], lines[9], lines[10], *lines[11:]]) + "\n")
    assert [device.index for device in found.devices] == [0, 1]
    assert (0, "power_watts", "") not in numbers(found)
    assert numbers(found)[1, "power_watts", ""] == 91.0


@pytest.mark.parametrize(("source", "other"), [("xpu-smi", "xpu-smi-kunlun"), ("xpu-smi-kunlun", "xpu-smi")])
@pytest.mark.parametrize("case", ["table", "table-2.0", "query", "places", "discovery", "dump", "stats", "ps"])
def test_the_two_tools_of_one_name_know_each_other(source: str, other: str, case: str) -> None:
    kunlun = case in ("table", "query", "places")
    if kunlun != (other == "xpu-smi-kunlun"):
        return
    found = report_on(source, text_of(other, case))
    assert (found.outcome, found.devices) == ("not_mine", ())


def test_of_a_dump_the_newest_row_of_each_device_counts():
    head = "Timestamp, DeviceId, GPU Power (W)\n"
    found = report_on("xpu-smi", f"{head}06:00:01.000, 0, 14.5\n06:00:01.000, 1, 15.5\n06:00:02.000, 0, 16.5\n")
    assert numbers(found) == {(0, "power_watts", ""): 16.5, (1, "power_watts", ""): 15.5}


def test_of_a_monitor_the_newest_row_of_each_card_counts():
    head = "*Dev Pwr\n*Idx W\n"
    banner = "Enflame System Management Interface\n"
    found = report_on("efsmi", f"{banner}{head}0 100\n1 90\n{head}0 120\n1 95\n")
    assert numbers(found) == {(0, "power_watts", ""): 120.0, (1, "power_watts", ""): 95.0}


def test_a_number_below_a_heading_of_another_unit_is_not_read():
    found = report_on("xpu-smi", "Timestamp, DeviceId, GPU Power (kW), GPU Memory Used (%)\n06:00:01.000, 0, 14.5, 3\n")
    assert numbers(found) == {}
    assert found.unknown_fields == ("GPU Power (kW)", "GPU Memory Used (%)")


def test_a_megabyte_of_rows_is_read_in_bounded_steps():
    row = "| 0     /   MLU370-X8    v1.1.6 |         0000:39:00.0 | 0%                N/A |\n"
    text = text_of("cnmon", "table-5.10-busy").replace("|==", row * 12_000 + "|==", 1)
    assert len(report_on("cnmon", text).devices) <= 2


def test_a_line_without_a_key_is_an_unknown_field_with_a_name() -> None:
    from captures_kit import own_case, parse_file, text_capture
    from telemetry_parsers.xpu_smi_kunlun import PARSER

    text = parse_file(own_case("xpu-smi-kunlun", "query").path.read_text()).text
    line = next(line for line in text.splitlines() if "Product Name" in line)
    damaged = text.replace(line, f"{line}\n                          : P800 PCIe")
    assert "(blank)" in PARSER.parse(text_capture(PARSER, damaged)).unknown_fields
