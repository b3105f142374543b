"""hccn_tool beyond its golden files: of which chip and port an answer speaks, and what its polls ask."""

from __future__ import annotations

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Absent, Capture, Command, Output, Report, Value
from telemetry_parsers.vendors.ascend.hccn_tool.parser import PARSER

POLLS = {poll.name: poll for poll in PARSER.polls}


def text_of(case: str) -> str:
    return parse_file(own_case("hccn-tool", case).path.read_text()).text


def report_on(text: str) -> Report:
    return PARSER.parse(text_capture(PARSER, text))


def printed_values(report: Report) -> dict[tuple[int | None, str, str], Value]:
    """What was printed: a counter that an answer has not is absent."""
    return {
        (report.devices[item.device].index, item.metric, item.label): item.value
        for item in report.readings
        if item.device is not None and (item.metric == "link_up" or not isinstance(item.value, Absent))
    }


@pytest.mark.parametrize(
    ("word", "state"),
    [("UP", 1.0), ("up", 1.0), ("DOWN", 0.0), ("unknown", Absent.NOT_REPORTED), ("odd", Absent.NOT_UNDERSTOOD)],
)
def test_a_link_is_up_or_down_or_nobody_knows(word: str, state: Value) -> None:
    report = report_on(f"hccn_tool -i 2 -link -g\nlink status: {word}\n")
    assert printed_values(report) == {(2, "link_up", "roce"): state}
    assert bool(report.problems) == (state is Absent.NOT_UNDERSTOOD)


@pytest.mark.parametrize(
    "command",
    [
        "hccn_tool -i 2 -link -g",
        "> hccn_tool -i 2 -link -g",
        "[root@node ~]# /usr/local/Ascend/driver/tools/hccn_tool -i 2 -link -g",
        "$ hccn_tool -g -link -i 2",
        "sudo hccn_tool -i 2 -link -g | head",
    ],
)
def test_the_command_line_says_which_chip(command: str) -> None:
    assert printed_values(report_on(f"{command}\nlink status: UP\n")) == {(2, "link_up", "roce"): 1.0}


def test_a_prefix_says_it_too_and_wins() -> None:
    text = "hccn_tool -i 0 -link_stat -g\n[devid 3]link up count       : 7\n"
    assert printed_values(report_on(text)) == {(3, "link_recovery_errors_total", "roce"): 7.0}


def test_the_reader_says_it_where_the_text_does_not() -> None:
    outputs = tuple(Output(f"hccn_tool -i {n} -link -g", str(n), "link status: UP\n", status=0) for n in (4, 12))
    report = PARSER.parse(Capture(PARSER.name, "link", POLLS["link"].request, outputs))
    assert set(printed_values(report)) == {(4, "link_up", "roce"), (12, "link_up", "roce")}


def test_answers_of_one_chip_are_one_device() -> None:
    text = (
        text_of("link").split("\n\n")[0] + "\n\nhccn_tool -i 0 -stat -g\npacket statistics:\nroce_new_pkt_rty_num:4\n"
    )
    report = report_on(text)
    assert [device.index for device in report.devices] == [0]
    assert printed_values(report) == {(0, "link_up", "roce"): 1.0, (0, "link_replay_errors_total", "roce"): 4.0}


def test_what_other_commands_printed_between_is_left_out() -> None:
    text = "hccn_tool -i 1 -link -g\nlink status: UP\n> cat /tmp/old\nlink status: DOWN\n"
    assert printed_values(report_on(text)) == {(1, "link_up", "roce"): 1.0}


def test_packets_with_errors_are_counted_in_each_direction() -> None:
    text = "hccn_tool -i 5 -stat -g\npacket statistics:\nroce_rx_err_pkt_num:11\nroce_tx_err_pkt_num:12\n"
    assert printed_values(report_on(text)) == {
        (5, "link_receive_errors_total", "roce"): 11.0,
        (5, "link_transmit_errors_total", "roce"): 12.0,
    }


def test_other_counters_have_no_row_and_are_no_unknown_fields() -> None:
    report = report_on("hccn_tool -i 5 -stat -g\npacket statistics:\nroce_qp_status_err_num:11\n")
    assert (printed_values(report), report.unknown_fields, [device.index for device in report.devices]) == ({}, (), [5])


def test_a_text_without_a_chip_and_without_a_reading_lists_none() -> None:
    assert report_on("vnic link status: UP\nvnic ipaddr: 192.0.2.1\n") == Report(index_space="ascend-physical")


@pytest.mark.parametrize("line", ["link status: {}", "net health status: {}"])
def test_answers_of_several_chips_without_their_names_are_not_read(line: str) -> None:
    report = report_on(f"{line.format('UP')}\n{line.format('DOWN')}\n{line.format('UP')}\n")
    assert (report.devices, report.readings, len(report.problems)) == ((), (), 1)


def test_another_tools_output_is_its_own() -> None:
    assert report_on("| npu-smi 23.0.1    Version: 23.0.1 |\n").outcome == "not_mine"


def test_it_asks_each_chip_that_others_list_and_measures_nothing_itself() -> None:
    lines = [line for poll in PARSER.polls for line in poll.request.alternatives]  # type: ignore[union-attr]  # all are commands
    assert not any(poll.lists_devices for poll in PARSER.polls)
    assert all(isinstance(poll.request, Command) and poll.request.per == "device" for poll in PARSER.polls)
    assert all("{device}" in line and "-g" in line for line in lines)
    assert not {"-bandwidth", "-ping", "-optical", "-s"} & {word for line in lines for word in line}


def test_a_command_that_failed_among_others_that_did_not_is_told() -> None:
    text = "# hccn_tool -i 0 -link -g\nlink status: UP\n# hccn_tool -i 7 -link -g\nCmd execute failed!\n"
    report = report_on(text)
    assert [device.index for device in report.devices] == [0]
    assert [problem.text.split("!")[0] for problem in report.problems] == ["Cmd execute failed"]


LINKS = text_of("link")
HISTORY, PORTS = text_of("flaps-950"), text_of("ports-950")


@pytest.mark.parametrize(
    ("text", "lost", "problem"),
    [
        (LINKS, "/usr/local/Ascend/driver/tools/hccn_tool -i 1 -link -g\n", "told twice"),
        (LINKS, "/usr/local/Ascend/driver/tools/hccn_tool -i 0 -link -g\n", "whose command is lost"),
        (LINKS, "link status: DOWN\n", "no answer that is understood"),
        (LINKS, "-i 1 ", "names no device"),
        (text_of("flaps"), "[devid 4]link up count       : 4\n", "tells no link_recovery_errors_total"),
        (HISTORY, "UDie", "cut off"),
        (HISTORY, "|  6  |  0   |  4   |  LINK_UP    | Mon Feb 9 21:45:51 2026 |\n", "which port"),
        (PORTS, PORTS[PORTS.index("| 1 ") :], "cut off"),
        ("packet statistics:\nport_id: 4\ncrc_error_sum: 2\n", "port_id: 4\n", "which port"),
        ("hccn_tool -i 3 -stat -g\npacket statistics:\nroce_rx_err_pkt_num:3\n", "roce_rx_err_pkt_num:3\n", "cut off"),
        ("hccn_tool -i 3 -link -g\nlink status: UP\n", "link status", "known to print"),
    ],
)  # fmt: skip
def test_a_lost_line_is_told_and_no_number_moves(text: str, lost: str, problem: str) -> None:
    assert text.count(lost) == 1
    left = report_on(text.replace(lost, ""))
    assert printed_values(left).items() <= printed_values(report_on(text)).items()
    assert any(problem in found.text for found in left.problems), left.problems


def test_counters_that_an_answer_has_not_are_absent() -> None:
    report = report_on("hccn_tool -i 3 -stat -g\npacket statistics:\nroce_rx_err_pkt_num:3\n")
    assert printed_values(report) == {(3, "link_receive_errors_total", "roce"): 3.0}
    assert {item.value for item in report.readings} == {3.0, Absent.NOT_REPORTED}
    assert len(report.readings) == 6
