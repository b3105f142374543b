"""`mthreads-gmi -q` as text and as JSON, beyond the golden files."""

from __future__ import annotations

import json

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Absent, Output, Report, Value
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.parser import PARSER


def text_of(case: str) -> str:
    return parse_file(own_case("mthreads-gmi", case).path.read_text()).text


def report_on(text: str, status: int | None = 0) -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text, status=status)))


LIST = text_of("query-two-cards")
JSON = text_of("query-json")


def numbers(report: Report) -> set[tuple[int | None, str, str, float]]:
    return {
        (item.device, item.metric, item.label, item.value)
        for item in report.readings
        if not isinstance(item.value, Absent)
    }


def test_lost_indentation_changes_nothing() -> None:
    assert report_on(text_of("query-indentation-lost")) == report_on(LIST)


def test_text_and_json_of_the_same_answer_agree() -> None:
    document = json.loads(JSON)
    text = f"Driver Version : {document['Driver Version']}\nAttached GPUs : 2\n"
    for card in document["GPU"]:
        address = card.get("PCI", {}).get("Bus ID", "00000000:00:00.0")
        text += f"GPU{card.pop('Index')} {address}\n" + as_text(card)
    assert numbers(report_on(text)) == numbers(report_on(JSON))
    assert [device.uuid for device in report_on(text).devices] == [device.uuid for device in report_on(JSON).devices]


def as_text(values: dict[str, object], depth: int = 1) -> str:
    keys = [(key, value) for key, value in values.items() if not isinstance(value, dict)]
    sections = [(key, value) for key, value in values.items() if isinstance(value, dict)]
    indent = "    " * depth
    text = "".join(f"{indent}{key:<{50 - len(indent)}}:  {value}\n" for key, value in keys)
    return text + "".join(f"{indent}{key}\n{as_text(value, depth + 1)}" for key, value in sections)


@pytest.mark.long  # of every source, the contract's tests cut at 128 places
@pytest.mark.parametrize("text", [LIST, JSON])
def test_no_end_of_the_text_gives_a_number_that_the_whole_does_not(text: str) -> None:
    whole = numbers(report_on(text))
    for cut in range(len(text)):
        assert not numbers(report_on(text[:cut])) - whole, cut


def test_words_round_the_json_are_problems() -> None:
    report = report_on("WARNING: old library\n" + JSON + "bye\n")
    assert [problem.text for problem in report.problems] == [
        "text beside the JSON: WARNING: old library",
        "text beside the JSON: bye",
    ]
    assert len(report.devices) == 2


def test_the_echoed_command_is_no_problem() -> None:
    assert report_on("node1:~ $ mthreads-gmi -q --json\n" + JSON) == report_on(JSON)
    assert report_on("$ /usr/bin/mthreads-gmi -q\n" + LIST) == report_on(LIST)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"card0": {"GPU use (%)": "5"}}', "not_mine"),
        ('{"gpu_data": [{"gpu": 0}]}', "not_mine"),
        ('{"GPU": [{"Temperature": {"GPU Current Temp": "50C"}}]}', "failed"),
        ('{"Driver Version": "1", "GPU": {"Index": "0"}}', "failed"),
        ('{"Driver Version": "1", "GPU": ["0"]}', "failed"),
        ("[1, 2, 3]", "failed"),
        ('{"Driver Version": "1", "GPU": []}', "no_devices"),
        ("{" * 5000, "failed"),
    ],
)
def test_other_json_gives_nothing(text: str, outcome: str) -> None:
    report = report_on(text)
    assert (report.outcome, report.devices, report.readings) == (outcome, (), ())


def test_json_nested_too_deep_to_decode_is_broken_json() -> None:
    report = report_on('{"Attached GPUs": "1", "GPU": ' + '[{"a":' * 100_000)
    assert (report.outcome, report.reason) == ("failed", "not_understood")
    assert "cut off or broken" in report.problems[0].text


def test_fastest_fan_counts_and_only_when_all_are_there() -> None:
    fans = {(device, value) for device, metric, _, value in numbers(report_on(LIST)) if metric == "fan_ratio"}
    assert fans == {(0, 0.74), (1, 0.30)}
    without = LIST.replace("            Fan1                                  :  74%\n", "")
    assert (0, "fan_ratio", "", 0.71) not in numbers(report_on(without))
    silent = LIST.replace("74%", "N/A")
    assert (0, "fan_ratio", "", 0.71) not in numbers(report_on(silent))


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        ("    Max Clocks\n", "graphics is told twice"),
        ("    FB Memory Usage\n", "the heading of its section is lost"),
        ("    Utilization\n", "the heading of its section is lost"),
        ("    Performance State                             :  N/A\n", "cut off"),
        ("Gpu ", "without its key"),
    ],
)
def test_a_lost_line_is_told_and_no_number_moves(lost: str, problem: str) -> None:
    left = report_on(LIST.replace(lost, "", 1))
    assert numbers(left) <= numbers(report_on(LIST))
    assert any(problem in found.text for found in left.problems), left.problems


def test_fans_without_their_number_may_be_a_part_of_them() -> None:
    report = report_on(LIST.replace("        Channel                                   :  3\n", "", 1))
    assert (0, "fan_ratio", "", 0.74) not in numbers(report)


def test_a_card_of_which_only_the_heading_is_left_is_told() -> None:
    report = report_on(LIST[: LIST.index("\n", LIST.index("GPU1")) + 1])
    assert [problem.where for problem in report.problems] == ["GPU1"]


def test_a_card_listed_twice_is_one_card() -> None:
    report = report_on(LIST + LIST[LIST.index("GPU0") :])
    assert [device.index for device in report.devices] == [0, 1]
    assert len([problem for problem in report.problems if "second time" in problem.text]) == 2


def test_an_error_line_in_the_list_is_a_problem() -> None:
    report = report_on(LIST.replace("    Fan\n", "Error: sensor 7 of 9 failed\n    Fan\n", 1))
    assert [problem.text for problem in report.problems] == ["Error: sensor 7 of 9 failed"]


def test_a_list_that_ends_early_with_a_status_is_no_list() -> None:
    report = report_on(text_of("query-card-missing"), status=1)
    assert (report.outcome, report.reason, report.devices) == ("failed", "exit_status", ())


def test_another_vendors_list_is_not_taken() -> None:
    nvidia = "==============NVSMI LOG==============\n" + LIST.replace("GPU0 ", "GPU ").replace("GPU1 ", "GPU ")
    assert (
        report_on(nvidia.replace("MTBios Version", "VBIOS Version").replace("MPC Capable", "MIG")).outcome == "not_mine"
    )


def test_a_thousand_cards_are_none_of_this_tools() -> None:
    report = report_on("".join(f"GPU{number} 00000000:01:00.0\n" for number in range(1025)))
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"Power Limit": "450.00W"}, 450.0),
        ({"Power Limit": "450.00W", "Current Power Limit": "400.00W"}, 400.0),
        ({"Current Power Limit": "400.00W", "Power Limit": "450.00W"}, 400.0),
        ({"Power Limit": "450.00W", "Current Power Limit": "N/A"}, Absent.NOT_REPORTED),
    ],
)
def test_the_plain_power_limit_is_the_cap_where_no_current_one_is_printed(
    limits: dict[str, str], expected: Value
) -> None:
    document = {"Driver Version": "3.3.5", "Attached GPUs": "1", "GPU": [{"Index": "0", "Power Readings": limits}]}
    report = report_on(json.dumps(document))
    assert [item.value for item in report.readings if item.metric == "power_cap_watts"] == [expected]
    assert report.unknown_fields == ()


def answer_about(index: int, section: str, key: str, text: str) -> str:
    """A document of one card and one section, as `-q -d SECTION -i INDEX --json` prints it."""
    card = {"Index": str(index), section: {key: text}}
    return json.dumps({"Driver Version": "3.3.5", "Attached GPUs": "1", "GPU": [card]}, indent=4) + "\n"


def test_of_several_documents_in_one_text_each_is_read() -> None:
    command = "root@node7:~# mthreads-gmi -q -d POWER,MEMORY -i {} --json\n"
    first, second = (
        answer_about(0, "Power Readings", "Power Draw ", "96.5W"),
        answer_about(1, "Utilization", "Gpu", "12%"),
    )
    report = report_on(command.format(0) + first + command.format(1) + second)
    assert [device.index for device in report.devices] == [0, 1]
    found = {(item.device, item.metric): item.value for item in report.readings if item.metric != "fan_ratio"}
    assert found == {(0, "power_watts"): 96.5, (1, "utilization_ratio"): 0.12}
    assert report.problems == ()


def test_two_answers_about_different_sections_of_one_card_are_one_card() -> None:
    power, memory = (
        answer_about(0, "Power Readings", "Power Draw ", "96.5W"),
        answer_about(0, "FB Memory Usage", "Used", "4MiB"),
    )
    report = report_on(power + memory)
    assert [device.index for device in report.devices] == [0]
    found = {item.metric: item.value for item in report.readings if item.metric != "fan_ratio"}
    assert found == {"power_watts": 96.5, "memory_used_bytes": 4.0 * 2**20}
    assert report.problems == ()


def test_an_answer_about_a_section_belongs_to_the_card_that_a_whole_answer_described() -> None:
    whole = report_on(JSON)
    report = report_on(answer_about(0, "Thermal Slowdown Stats", "Count", "0") + JSON)
    assert report.devices == whole.devices
    assert numbers(report) == numbers(whole)


def test_cards_of_which_nothing_tells_which_they_are_lend_each_other_no_number() -> None:
    cards = [{"Power Readings": {"Power Draw": "96.5W"}}, {"Utilization": {"Gpu": "12%"}}]
    report = report_on(json.dumps({"Driver Version": "3.3.5", "Attached GPUs": "2", "GPU": cards}))
    assert {item.metric for item in report.readings} - {"fan_ratio"} == {"power_watts"}
    assert any("second time" in problem.text for problem in report.problems)


def test_of_two_numbers_for_one_reading_of_a_card_the_first_is_kept_and_told() -> None:
    first, second = (answer_about(0, "Power Readings", "Power Draw ", f"{watts}W") for watts in ("96.5", "97.5"))
    report = report_on(first + second)
    assert [item.value for item in report.readings if item.metric == "power_watts"] == [96.5]
    assert ["second time" in problem.text for problem in report.problems] == [True]


def test_a_document_that_is_cut_off_costs_those_before_it_nothing() -> None:
    text = answer_about(0, "Power Readings", "Power Draw ", "96.5W")
    report = report_on(text + answer_about(1, "Utilization", "Gpu", "12%")[:60])
    assert [item.value for item in report.readings if item.metric == "power_watts"] == [96.5]
    assert any("cut off" in problem.text for problem in report.problems)
