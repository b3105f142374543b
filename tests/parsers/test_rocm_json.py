"""rocm-smi's JSON and CSV: found in noise, read although broken, not further than they are whole."""

from __future__ import annotations

import json

import pytest

from kits.captures import own_case, parse_file, text_capture
from kits.parsed.rocm_smi import json_of, problems, readings, report_on
from telemetry_parsers.vendors.hygon import hy_smi

FIRST = {"Temperature (Sensor edge) (C)": "41.0", "GPU use (%)": "5", "PCI Bus": "0000:03:00.0"}
SECOND = {"Temperature (Sensor edge) (C)": "42.0", "GPU use (%)": "6", "PCI Bus": "0000:43:00.0"}
GOOD = json_of(FIRST, SECOND)
WHOLE = report_on(GOOD)
CSV = parse_file(own_case("rocm-smi", "csv").path.read_text()).text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(GOOD), indent=4),
        json.dumps(json.loads(GOOD), indent=1).replace("\n", "\r\n"),
        "\n" + GOOD,
        "\ufeff" + GOOD,
        "0: " + GOOD,
        "nid005113 out: " + GOOD,
        "[INFO] rocm-smi --showtemp --json => " + GOOD,
        "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n" + GOOD,
        "12 detected dead process, and making mutex /rocm_smi_card2 consistent.\n" + GOOD,
        "$ rocm-smi --showtemp --showuse --json\n" + GOOD,
        "".join(f"nid005113 out: {line}\n" for line in json.dumps(json.loads(GOOD), indent=2).splitlines()),
        GOOD + GOOD,
    ],
)
def test_noise_around_the_json_changes_nothing(text: str) -> None:
    assert report_on(text) == WHOLE


def test_a_line_of_another_program_inside_the_json_is_a_problem_and_costs_nothing() -> None:
    lines = json.dumps(json.loads(GOOD), indent=4).splitlines()
    for place in range(1, len(lines)):
        report = report_on("\n".join([*lines[:place], "kernel: amdgpu: GPU reset begin!", *lines[place:]]))
        assert report.readings == WHOLE.readings
        assert "GPU reset begin!" in problems(report)[0]


@pytest.mark.parametrize(
    ("good", "broken"),
    [
        ('"5", "PCI', '"5""PCI'),
        ('"5", ', '"5",, '),
        ('"}, "card1"', '"} "card1"'),
        ('"}, "card1"', '",}, "card1"'),
        ('"5"', '"5", "": "", "": ""'),
        ('"5"', "5"),
        ("0000:03", "\\u0030000:03"),
        ('"5"', '"\t5"'),
        ('"5"', '"5", "GPU use (%)": "97"'),
        ('"}}', '",},}'),
    ],
)
def test_json_as_drivers_break_it_is_read_all_the_same(good: str, broken: str) -> None:
    assert good in GOOD
    assert report_on(GOOD.replace(good, broken, 1)) == WHOLE


@pytest.mark.parametrize(
    "value",
    ["null", '"N/A"', "{}", '{"a": ["b", {"c": 5}]}', "[5, 5]"],
)
def test_what_is_no_text_gives_no_number(value: str) -> None:
    report = report_on(GOOD.replace('"5"', value, 1))
    assert readings(report)["utilization_ratio"] == "not_reported"
    assert readings(report, 1) == readings(WHOLE, 1)


def test_outputs_that_follow_one_another_are_joined_by_card() -> None:
    report = report_on(GOOD + json_of({"Average Graphics Package Power (W)": "33.0"}))
    assert readings(report)["power_watts"] == 33.0
    assert [device.bus_id for device in report.devices] == ["0000:03:00.0", "0000:43:00.0"]


def test_a_card_that_one_document_lists_twice_is_told_once() -> None:
    report = report_on('{"card0": {"GPU use (%)": "5"}, "card0": {"GPU use (%)": "97"}}')
    assert readings(report) == {"utilization_ratio": 0.05}
    assert problems(report) == ["card 0: the card is listed a second time; the first is kept"]


@pytest.mark.parametrize("end", range(2, len(GOOD.rstrip()), 7))
def test_of_a_cut_document_only_what_is_whole_counts(end: int) -> None:
    report = report_on(GOOD[:end], status=None)
    for device in range(len(report.devices)):
        assert readings(report, device).items() <= readings(WHOLE, device).items()
    assert problems(report)


def test_a_bare_number_that_the_text_ends_in_is_not_whole() -> None:
    assert readings(report_on('{"card0": {"GPU use (%)": 5', status=None)) == {}
    assert readings(report_on('{"card0": {"GPU use (%)": 57}', status=None)) == {"utilization_ratio": 0.57}


def test_a_cut_document_of_a_killed_tool_is_a_failure() -> None:
    report = report_on(GOOD[:120], status=-9)
    assert (report.outcome, report.reason, report.devices) == ("failed", "killed", ())


@pytest.mark.parametrize("status", [None, 0])
@pytest.mark.parametrize("text", ['{"card0"', '{"system": {"Driver version": "6.1', "device,GPU use (%)\ncar"])
def test_a_list_that_is_cut_before_its_first_card_does_not_say_that_there_is_none(
    text: str, status: int | None
) -> None:
    report = report_on(text, status=status)
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())


@pytest.mark.parametrize("depth", [5, 100_000])
def test_depth_is_bounded(depth: int) -> None:
    report = report_on('{"card0": {"GPU use (%)": ' + "[" * depth)
    assert report.readings == ()
    assert "cut off or broken" in problems(report)[0]


def test_text_that_belongs_to_nothing_is_told() -> None:
    report = report_on("kernel: amdgpu: ring gfx timeout\n" + GOOD)
    assert problems(report) == ["text beside the JSON: kernel: amdgpu: ring gfx timeout"]
    assert report.readings == WHOLE.readings


@pytest.mark.parametrize(
    "text",
    [
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        "".join(f"   {line}\n" for line in CSV.splitlines()),
        "".join(f"3: {line}\n" for line in CSV.splitlines()),
        CSV.replace("device,", "Device,"),
        "\n\n" + CSV + "\n",
    ],
)
def test_noise_around_csv_changes_no_reading(text: str) -> None:
    assert (report_on(text).devices, report_on(text).readings) == (report_on(CSV).devices, report_on(CSV).readings)


@pytest.mark.parametrize("heading", ["name, value", "name,value"])
def test_csv_that_tells_of_the_node_only_is_a_pair_in_each_row(heading: str) -> None:
    report = report_on(f'{heading}\n"Driver version", "6.14.14"\n"PID4242", "python3, 1, 1048576, 0, 12"\n\n')
    assert (report.outcome, report.devices, report.facts) == ("ok", (), (("driver_version", "6.14.14"),))
    assert report.problems == ()


def test_a_row_of_another_length_is_not_read_but_its_card_is_there() -> None:
    report = report_on("device,GPU use (%),Card Vendor\ncard0,5,AMD,ATI\ncard1,7,AMD/ATI\n")
    assert [readings(report, device) for device in (0, 1)] == [{}, {"utilization_ratio": 0.07}]
    assert problems(report) == ["line 2: 4 cells below 3 headings; the row is not read"]


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ({"GPU use (%)": "97"}, ["card 1: the card is told of a second time, and otherwise; the first is kept"]),
        ({"Max Graphics Package Power (W)": "300.0"}, []),
    ],
)
def test_of_two_documents_that_disagree_the_first_is_read_and_said_to_be(
    later: dict[str, str], told: list[str]
) -> None:
    report = report_on(GOOD + json.dumps({"card1": later}) + "\n")
    assert readings(report, 1)["utilization_ratio"] == 0.06
    assert problems(report) == told


HYGONS = "Card Vendor,PCI Bus,pcie clock speed,HCU use (%)"


@pytest.mark.parametrize(
    ("heading", "rows"),
    [
        (f"device,{HYGONS}", "card{0},C-3000 IC Design Co., Ltd.,0000:0{0}:00.0 --> SN: 7,32.0GT/s, x16 1100Mhz,{0}.5"),
        (f"time,device,{HYGONS}", "2026-05-02 10:11:12,card{0},C-3000,0000:0{0}:00.0,32.0GT/s, x16 1100Mhz,{0}.5"),
        (f"time,device,{HYGONS}", '1777716672,card{0},"C-3000 IC Design Co., Ltd.",0000:0{0}:00.0,32.0GT/s x16,{0}.5'),
        (
            f"time,device,{HYGONS}",
            'Sat May 2 10:11:12 2026,card{0},C-3000,0000:0{0}:00.0,"32.0GT/s, x16 1100Mhz",{0}.5',
        ),
    ],
)
def test_csv_as_hygons_tool_breaks_it_is_read_all_the_same(heading: str, rows: str) -> None:
    text = "\n".join(["", heading, *(rows.format(number) for number in (1, 2)), ""])
    report = hy_smi.PARSER.parse(text_capture(hy_smi.PARSER, text))
    assert [(device.index, device.bus_id) for device in report.devices] == [(1, "0000:01:00.0"), (2, "0000:02:00.0")]
    for position, use in enumerate((0.015, 0.025)):
        expected = {"utilization_ratio": use, "pcie_link_generation": 5.0, "pcie_link_width": 16.0}
        assert readings(report, position) == pytest.approx(expected)
    assert (report.problems, report.unknown_fields) == ((), ())


def test_a_row_with_a_cell_too_many_is_not_read_though_one_begins_with_a_blank() -> None:
    report = report_on("device,GPU use (%),Card Vendor,PCI Bus\ncard0,5,7,AMD, Inc.,0000:03:00.0\n")
    assert readings(report) == {}
    assert problems(report) == ["line 2: 6 cells below 4 headings; the row is not read"]


def test_a_row_that_the_text_ends_in_lacks_its_last_cell() -> None:
    report = report_on("device,GPU use (%),Fan speed (%)\ncard0,5,1")
    assert readings(report) == {"utilization_ratio": 0.05}
    assert len(problems(report)) == 1


@pytest.mark.parametrize("cell", ["\x00", "x" * 200_000, "a\rb"])
def test_a_line_that_is_no_csv_is_told(cell: str) -> None:
    report = report_on(f"device,GPU use (%)\ncard0,{cell}\ncard1,7\n")
    assert [device.index for device in report.devices] == [0, 1]
    assert readings(report, 1) == {"utilization_ratio": 0.07}
    assert len(problems(report)) == 1
