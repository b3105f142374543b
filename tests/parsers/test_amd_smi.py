"""amd-smi beyond its golden files: its shapes, devices, partitions, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.combining.outputs import combine_reports
from telemetry_parsers.model import Absent, Capture, Command, Failure, Output, Report, Value
from telemetry_parsers.vendors.amd.amd_smi import PARSER


def text_of(case: str) -> str:
    return parse_file(own_case("amd-smi", case).path.read_text()).text


def report_on(text: str, status: int | None = None, stderr: str = "") -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text, stderr=stderr, status=status)))


def report_of(*cards: dict[str, Any]) -> Report:
    return report_on(json.dumps([{"gpu": number, **card} for number, card in enumerate(cards)]))


def value(report: Report, metric: str, label: str = "", device: int = 0) -> Value:
    (found,) = [
        item.value for item in report.readings if (item.device, item.metric, item.label) == (device, metric, label)
    ]
    return found


def numbers(report: Report) -> set[tuple[int | None, str, str, float]]:
    return {
        (item.device, item.metric, item.label, item.value)
        for item in report.readings
        if not isinstance(item.value, Absent)
    }


METRIC = json.loads(text_of("metric-json-7"))
TEXT = text_of("metric-text")


def test_the_envelope_of_7_and_the_list_of_6_say_the_same() -> None:
    bare = report_on(json.dumps(METRIC["gpu_data"]))
    assert bare == report_on(json.dumps(METRIC)) == report_on(json.dumps(METRIC, indent=8))


def test_a_text_without_indentation_says_the_same() -> None:
    assert numbers(report_on(text_of("metric-text-indentation-lost"))) == numbers(report_on(TEXT))


@pytest.mark.parametrize("case", ["metric-text", "static-text-mi300a", "metric-text-ecc-blocks"])
def test_a_line_that_is_no_cards_in_the_middle_of_a_text_costs_nothing_and_is_told(case: str) -> None:
    text = text_of(case)
    whole = report_on(text)
    lines = text.splitlines(keepends=True)
    for at in range(1, len(lines)):
        report = report_on("".join([*lines[:at], "WARNING: the moon is full\n", *lines[at:]]))
        told = [problem for problem in report.problems if "moon" in problem.text or "list without" in problem.text]
        assert told, at
        assert numbers(report) == numbers(whole) or "list" in told[0].text, at


def test_a_text_of_which_only_lists_kept_their_indentation_is_read_by_its_sections() -> None:
    text = "GPU: 0\nBUS:\nBDF: 0000:43:00.0\nMAX_PCIE_WIDTH: 16\nPCIE_LEVELS:\n  0: (2.5 GT/s, 1)\nPCIE_INTERFACE_VERSION: Gen 4\n"
    report = report_on(text)
    assert [device.bus_id for device in report.devices] == ["0000:43:00.0"]
    assert numbers(report) == {(0, "pcie_link_width_max", "", 16.0), (0, "pcie_link_generation_max", "", 4.0)}
    assert (report.problems, report.unknown_fields) == ((), ())


@pytest.mark.parametrize("prefix", ["3: ", "nid005113 out: ", "gpu7 | ", "> ", "# "])
@pytest.mark.parametrize("case", ["metric-text", "metric-json-7", "monitor-6.1", "list-text", "metric-csv"])
def test_a_launchers_word_before_each_line_changes_no_number(case: str, prefix: str) -> None:
    text = text_of(case)
    wrapped = "".join(f"{prefix}{line}".rstrip() + "\n" for line in text.splitlines())
    assert numbers(report_on(wrapped)) == numbers(report_on(text))
    assert report_on(wrapped).devices == report_on(text).devices


@pytest.mark.parametrize("case", ["metric-text", "monitor-6.1", "static-text-mi300a", "metric-json-7", "metric-csv"])
def test_colours_and_carriage_returns_change_nothing(case: str) -> None:
    text = text_of(case)
    report = report_on(text)
    assert report_on(text.replace("\n", "\r\n")) == report
    assert numbers(report_on("".join(f"\x1b[1m{line}\x1b[0m\n" for line in text.splitlines()))) == numbers(report)


@pytest.mark.parametrize(
    "echo",
    ["$ amd-smi metric --json", "root@node:~# /opt/rocm/bin/amd-smi metric -g 0 --json", "~$ sudo amd-smi static"],
)
def test_the_command_before_the_output_is_no_problem(echo: str) -> None:
    assert report_on(f"{echo}\n{text_of('metric-json-7')}") == report_on(text_of("metric-json-7"))
    assert report_on(f"{echo}\n{text_of('list-text')}").devices == report_on(text_of("list-text")).devices


def test_a_warning_beside_the_data_is_a_problem_and_costs_nothing() -> None:
    warning = "WARNING: User is missing the following required groups: video."
    for text in (text_of("metric-json-7"), text_of("monitor-6.1"), TEXT):
        report = report_on(f"{warning}\n{text}")
        assert numbers(report) == numbers(report_on(text))
        assert [warning in problem.text for problem in report.problems] == [True]


def test_a_warning_in_the_middle_of_the_json_is_a_problem_and_costs_nothing() -> None:
    warning = "WARNING: AMD GPU device(s) is/are in a low-power state."
    whole = json.dumps(METRIC, indent=4).splitlines()
    for place in range(1, len(whole)):
        report = report_on("\n".join([*whole[:place], warning, *whole[place:]]))
        assert numbers(report) == numbers(report_on(json.dumps(METRIC)))
        assert [warning in problem.text for problem in report.problems] == [True]


def test_several_documents_in_a_row_are_one_node() -> None:
    text = text_of("list-json-dpx") + json.dumps([{"gpu": 2, "power": {"socket_power": {"value": 90, "unit": "W"}}}])
    report = report_on(text)
    assert [device.index for device in report.devices] == [0, 1, 2, 3]
    assert value(report, "power_watts", device=2) == 90.0
    assert report.problems == ()


def test_of_several_runs_in_one_text_the_last_is_read() -> None:
    later = text_of("metric-json-cut").replace('"value": 100', '"value": 55')
    report = report_on(text_of("metric-json-7") + later)
    assert value(report, "power_watts") == 55.0
    assert value(report, "temperature_celsius", "junction") == 71.0
    assert any("several runs" in problem.text for problem in report.problems)


def test_a_watched_table_is_read_at_its_end() -> None:
    head = " TIMESTAMP  GPU  POWER  GPU_T\n"
    rows = "1730000000    0  100 W  40 °C\n1730000000    1  101 W  41 °C\n1730000002    0  150 W  44 °C\n"
    report = report_on(head + rows)
    assert [device.index for device in report.devices] == [0, 1]
    assert (value(report, "power_watts"), value(report, "power_watts", device=1)) == (150.0, 101.0)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(None, "ok"), (0, "ok"), (1, "failed"), (-9, "failed")],
)
def test_a_list_that_is_cut_off_counts_only_if_nothing_failed(status: int | None, outcome: str) -> None:
    report = report_on(text_of("metric-json-cut"), status)
    assert report.outcome == outcome
    assert bool(report.devices) == (outcome == "ok")
    assert "cut off" in report.problems[-1].text


def test_no_end_of_the_json_gives_a_number_that_the_whole_does_not() -> None:
    text = json.dumps(METRIC)
    whole = numbers(report_on(text))
    for cut in range(0, len(text), 3):
        assert not numbers(report_on(text[:cut])) - whole, cut


def test_the_other_partitions_belong_to_the_card_of_the_first() -> None:
    devices = report_on(text_of("list-json-dpx")).devices
    found = [(device.bus_id, device.partition, device.parent) for device in devices]
    assert found == [
        ("0000:05:00.0", None, None),
        ("0000:05:00.1", "1", 0),
        ("0000:26:00.0", None, None),
        ("0000:26:00.1", "1", 2),
    ]


def test_outputs_that_tell_no_partition_speak_of_those_with_the_same_number() -> None:
    metric = report_of(*({"power": {"socket_power": {"value": 200 + n, "unit": "W"}}} for n in range(4)))
    listing = report_on(text_of("list-json-dpx"))
    for order in ([listing, metric], [metric, listing]):
        report = combine_reports(order)
        found = [(device.index, device.partition, device.parent) for device in report.devices]
        assert found == [(0, None, None), (1, "1", 0), (2, None, None), (3, "1", 2)]
        assert [value(report, "power_watts", device=n) for n in range(4)] == [200.0, 201.0, 202.0, 203.0]


@pytest.mark.parametrize(
    ("card", "serial", "model", "driver"),
    [
        ({"board": {"product_serial": "692440001177"}, "asic": {"asic_serial": "0x4B1C"}}, "692440001177", None, None),
        ({"board": {"product_serial": "0"}, "asic": {"asic_serial": "0x4B1C"}}, "0x4B1C", None, None),
        ({"board": {"product_serial": "N/A"}, "asic": {"asic_serial": "<redacted>"}}, None, None, None),
        ({"asic": {"market_name": "N/A"}, "board": {"product_name": "Instinct MI210"}}, None, "Instinct MI210", None),
        ({"driver": {"name": "amdgpu", "version": "6.12.12"}}, None, None, "6.12.12"),
        ({"driver": {"version": "Linuxversion6.8.0-79-generic(buildd@x)"}}, None, None, "6.8.0-79-generic"),
    ],
)
def test_identity_is_what_is_printed(
    card: dict[str, Any], serial: str | None, model: str | None, driver: str | None
) -> None:
    (device,) = report_of(card).devices
    assert (device.serial, device.model, device.driver) == (serial, model, driver)


def test_other_kinds_of_device_are_left_out_quietly() -> None:
    kinds = [{"cpu": 0, "power": {"socket_power": "90 W"}}, {"nic": 0}, {"gpu": 5, "power": {"socket_power": "7 W"}}]
    report = report_on(json.dumps(kinds))
    assert [device.index for device in report.devices] == [5]
    assert (report.problems, report.unknown_fields) == ((), ())


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("Can not find a device: GPU '7' Error code: -3\n", "wrong_request", None),
        ("GPU Device with GPU_INDEX '7' cannot be found on the system. Error code: -3\n", "wrong_request", None),
        (
            '{"error": "Parameter \'-z\' is invalid. Run \'--help\' for more info.", "code": -2}\n',
            "wrong_request",
            None,
        ),
        ("usage: amd-smi [-h]\namd-smi: error: argument : invalid choice: 'x'\n", "wrong_request", None),
        ("Unable to get devices, driver not initialized (amdgpu not found in modules)\n", "failed", "driver_gone"),
        ("AMDSMI has returned error '-1034' - 'AMDSMI_STATUS_DRIVER_NOT_LOADED'\n", "failed", "driver_gone"),
        ("KeyError: 'libamd_smi.so'\n", "failed", "library_mismatch"),
        ("PermissionError: Command requires elevation\n", "failed", "no_permission"),
        ("amdsmi_cli_exceptions.AmdSmiUnknownErrorException: 12 things failed\n", "failed", "exit_status"),
        ("bash: amd-smi: command not found\n", "failed", "exit_status"),
        ("bash: /opt/rocm/bin/amd-smi: No such file or directory\n", "failed", "exit_status"),
        ("| AMD-SMI 26.2.1  ROCm version: 7.2.2 | | BDF GPU-Name | Mem-Uti |\n", "wrong_request", None),
        ("GPU0 0000:0c:00.0\nACCESS TABLE:\n", "wrong_request", None),
        ('{"card0": {"GPU use (%)": "5"}}\n', "not_mine", None),
        ("{'gpu_data': [{'gpu': 0, 'power': {}}]}\n", "wrong_request", None),
        ('{"gpu_data": [', "failed", "not_understood"),
        ('{"gpu_data": []}', "no_devices", None),
        ("[" * 100_000, "failed", "not_understood"),
        ("\n" * 20_001, "failed", "not_understood"),
        (json.dumps([{"gpu": number} for number in range(1025)]), "failed", "not_understood"),
        ("GPU  POWER\n", "no_devices", None),
        ("nothing of the kind\n", "failed", "not_understood"),
    ],
)
def test_texts_without_a_card_say_why(text: str, outcome: str, reason: str | None) -> None:
    report = report_on(text)
    assert (report.outcome, report.reason, report.devices, report.readings) == (outcome, reason, (), ())
    assert bool(report.problems) == (outcome != "no_devices")


def test_complaints_on_standard_error_and_a_status_are_problems_beside_the_data() -> None:
    report = report_on(text_of("metric-json-6-radeon"), 2, "ERROR: could not read the fan\n")
    assert len(report.devices) == 1
    assert [problem.where for problem in report.problems] == ["stderr line 1", "exit status"]


def test_a_readers_failure_is_no_text_to_parse() -> None:
    poll = PARSER.polls[0]
    failure = Failure("failed", "timeout", "no answer within 20 s")
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, (Output(text=TEXT),), failure))
    assert (report.outcome, report.reason, report.devices) == ("failed", "timeout", ())


def test_every_poll_asks_for_json_and_says_that_it_wakes() -> None:
    tiers = {"metric": "fast", "list": "inventory", "static": "inventory", "process": "slow"}
    assert {poll.name: poll.tier for poll in PARSER.polls} == tiers
    for poll in PARSER.polls:
        assert poll.wakes
        assert isinstance(poll.request, Command)
        assert poll.request.alternatives[0] == ("amd-smi", poll.name, "--json")
        assert all(line[-1] == "--json" for line in poll.request.alternatives)
        assert poll.request.env == (("RSMI_MUTEX_THREAD_ONLY", "1"),)
