"""rocm-smi as a source: what it is asked, which shape an answer has, what its errors mean."""

from __future__ import annotations

import pytest

from kits.captures import own_case, parse_file
from kits.parsed.rocm_smi import json_of, problems, readings, report_on
from telemetry_parsers.model import Capture, Command, Failure, Output
from telemetry_parsers.vendors.amd.rocm_smi import PARSER

POLLS = {poll.name: poll for poll in PARSER.polls}
CARD = {"Temperature (Sensor edge) (C)": "41.0", "GPU use (%)": "5"}


def request(poll: str) -> Command:
    found = POLLS[poll].request
    assert isinstance(found, Command)
    return found


def capture_of(*outputs: Output) -> Capture:
    poll = PARSER.polls[0]
    return Capture(PARSER.name, poll.name, poll.request, outputs)


@pytest.mark.parametrize("poll", sorted(POLLS))
def test_every_run_may_be_killed_without_harm_to_other_users_of_the_library(poll: str) -> None:
    assert ("RSMI_MUTEX_THREAD_ONLY", "1") in request(poll).env
    assert request(poll).on_deadline == "kill"
    assert POLLS[poll].wakes


@pytest.mark.parametrize("poll", sorted(POLLS))
def test_no_poll_measures_for_a_time_of_its_own_changes_anything_or_lists_what_overwrites_itself(poll: str) -> None:
    asked = {argument for line in request(poll).alternatives for argument in line[1:]}
    assert not asked & {"-b", "--showbw", "-s", "--showclkfrq", "-e", "--showevents", "--showtempgraph"}
    assert all(argument.startswith(("--show", "--json", "--version", "-a", "vram", "gtt")) for argument in asked)


def test_a_version_that_lacks_a_flag_is_asked_for_less_and_at_last_for_the_table() -> None:
    lines = request("readings").alternatives
    asked = [set(line) - {"--json"} for line in lines[:3]]
    assert asked[0] > asked[1] > asked[2] > {"rocm-smi"}
    assert lines[-2:] == (("rocm-smi", "-a", "--json"), ("rocm-smi",))


def test_only_the_readings_say_which_devices_there_are() -> None:
    assert [name for name, poll in POLLS.items() if poll.lists_devices] == ["readings"]


def test_several_outputs_are_one_report() -> None:
    bus = "GPU[0]\t\t: PCI Bus: 0000:03:00.0\n"
    report = PARSER.parse(
        capture_of(Output(text=json_of(CARD)), Output(text=bus), Output(text="ROCM-SMI version: 3.0.0+1b65f29\n"))
    )
    assert report.devices[0].bus_id == "0000:03:00.0"
    assert readings(report)["temperature_celsius.edge"] == 41.0
    assert report.facts == (("tool_version", "3.0.0+1b65f29"),)


@pytest.mark.parametrize(
    "text",
    [
        "$ rocm-smi --version\nROCM-SMI version: 2.0.0+8e78352\nROCM-SMI-LIB version: 6.0.0\n",
        '{\n  "ROCM-SMI version": "2.0.0+8e78352",\n  "ROCM-SMI-LIB version": "6.0.0"\n}\n',
        "name, value\nROCM-SMI version, 2.0.0+8e78352\nROCM-SMI-LIB version, 6.0.0\n",
        # The words that both of the last lines begin with are no launcher's.
        "ROCM-SMI version: 2.0.0+8e78352\nROCM-SMI-LIB version: 6.0.0\nROCM-SMI-LIB version: 6.0.0\n",
    ],
)
def test_the_versions_in_each_form(text: str) -> None:
    report = report_on(text)
    assert (report.outcome, report.devices) == ("ok", ())
    assert report.facts == (("tool_version", "2.0.0+8e78352"), ("library_version", "6.0.0"))


@pytest.mark.parametrize(
    ("case", "form"),
    [("json-rocm5", "json"), ("csv", "json"), ("concise-5", "text"), ("sections", "text"), ("showmetrics", "text")],
)
def test_data_ranks_before_printed_text(case: str, form: str) -> None:
    assert report_on(parse_file(own_case("rocm-smi", case).path.read_text()).text).form == form


@pytest.mark.parametrize(("status", "problems"), [(0, 0), (2, 0), (9, 0), (1, 1), (3, 1), (255, 1)])
def test_a_whole_document_is_read_whatever_the_exit_status(status: int, problems: int) -> None:
    """Up to 5.5 the status is that of the query that failed last: what is only not supported is quiet."""
    report = report_on(json_of(CARD), status=status)
    assert readings(report) == {"temperature_celsius.edge": 41.0, "utilization_ratio": 0.05}
    assert len(report.problems) == problems


ERRORS = [
    ("ERROR:root:Driver not initialized (amdgpu not found in modules)", 0, "failed", "driver_gone"),
    ("cat: /sys/module/amdgpu/initstate: No such file or directory", 0, "failed", "driver_gone"),
    ("ERROR:root:ROCm SMI returned 8 (the expected value is 0)", 8, "failed", "driver_gone"),
    ("Exception caught: rsmi_init.", 8, "failed", "driver_gone"),
    ("Failed to initialize RSMI device mutex after 5 seconds. Previous execution may not …", 8, "failed", "timeout"),
    ("Unable to open /dev/kfd read-write: Permission denied", 0, "failed", "no_permission"),
    ("Unable to load the rocm_smi library.", 0, "failed", "library_mismatch"),
    ("ImportError: librocm_smi64.so.5: error while loading shared libraries", 1, "failed", "library_mismatch"),
    ("Aborted (core dumped)", 134, "failed", "killed"),
    ("bash: /opt/rocm/bin/rocm-smi: No such file or directory", 127, "failed", "exit_status"),
    ("bash: rocm-smi: command not found", 127, "failed", "exit_status"),
    ("Traceback (most recent call last):", 1, "failed", "exit_status"),
    ("WARNING: AMD GPU device(s) is/are in a low-power state. Check power control", 0, "failed", "driver_gone"),
    ("usage: rocm-smi [-h] [-d DEVICE [DEVICE ...]]", 2, "wrong_request", None),
    ("rocm-smi: error: unrecognized arguments: --showmetrics", 2, "wrong_request", None),
    ("ERROR: Cannot print JSON/CSV output for concise output", 1, "wrong_request", None),
    ("NOT_SUPPORTED: Cannot print JSON/CSV output for concise output", 1, "wrong_request", None),
    ("ERROR: No DRM devices available. Exiting", 1, "no_devices", None),
    ("WARNING: No such device card7", 0, "no_devices", None),
    ("WARNING: No AMD GPUs specified", 0, "no_devices", None),
    ("WARNING: No JSON data to report", 0, "no_devices", None),
    ("kernel: everything is fine, 42 C", 0, "failed", "not_understood"),
    ("", 0, "failed", "not_understood"),
    ("", 127, "failed", "exit_status"),
]


@pytest.mark.parametrize(("text", "status", "outcome", "reason"), ERRORS)
def test_an_error_says_what_it_is_on_whichever_stream(text: str, status: int, outcome: str, reason: str | None) -> None:
    for report in (report_on("", status, text + "\n"), report_on(text + "\n", status)):
        assert (report.outcome, report.reason) == (outcome, reason)
        assert (report.devices, report.readings) == ((), ())
        assert len(report.problems) == 1


def test_a_failed_reader_is_its_own_reason() -> None:
    poll = PARSER.polls[0]
    failure = Failure("failed", "timeout", "no answer within 10 s")
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, failure=failure))
    assert (report.outcome, report.reason, problems(report)) == ("failed", "timeout", ["reader: no answer within 10 s"])


def test_hygons_tool_under_this_name_is_left_to_its_own_source() -> None:
    report = report_on('{"card0": {"HCU use (%)": "0.0", "vram Total Memory (MiB)": "65520"}}')
    assert report.outcome == "not_mine"
    assert "hy-smi" in problems(report)[0]


@pytest.mark.parametrize("case", ["concise-1.7", "concise-5", "concise-6.4-partitions"])
def test_rows_of_a_table_are_not_read_without_their_heading(case: str) -> None:
    table = parse_file(own_case("rocm-smi", case).path.read_text()).text
    rows = [line for line in table.splitlines(keepends=True) if line.strip()[:1].isdigit()]
    report = report_on("".join(rows))
    assert (report.outcome, report.devices) == ("failed", ())
    assert "without its heading" in problems(report)[0]
