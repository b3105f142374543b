"""rocminfo beyond its golden files: whose card it is, addresses, torn and wrapped texts."""

from __future__ import annotations

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Absent, Capture, Command, Failure, Output, Report, Value
from telemetry_parsers.vendors.amd.rocminfo import PARSER


def text_of(case: str) -> str:
    return parse_file(own_case("rocminfo", case).path.read_text()).text


def report_on(text: str, status: int | None = None, stderr: str = "") -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text, stderr=stderr, status=status)))


def value(report: Report, device: int, metric: str) -> Value:
    (found,) = [item.value for item in report.readings if (item.device, item.metric) == (device, metric)]
    return found


def numbers(report: Report) -> set[tuple[int | None, str, float]]:
    return {(item.device, item.metric, item.value) for item in report.readings if not isinstance(item.value, Absent)}


AMD = text_of("mi250x-two-dies")
HYGON = text_of("hygon-dcu")


def test_lost_indentation_and_blanks_change_nothing() -> None:
    assert report_on(text_of("indentation-lost")) == report_on(AMD)


def test_no_end_of_the_text_gives_a_number_or_a_name_that_the_whole_does_not() -> None:
    whole = report_on(AMD)
    names = {(device.index, device.model, device.uuid, device.bus_id) for device in whole.devices}
    for cut in range(0, len(AMD), 7):
        report = report_on(AMD[:cut])
        assert not numbers(report) - numbers(whole), cut
        assert {(device.index, device.model) for device in report.devices} <= {name[:2] for name in names}, cut


@pytest.mark.parametrize(
    ("device_type", "vendor_name", "module", "vendor"),
    [
        ("GPU", "AMD", "ROCk module is loaded", "amd"),
        ("GPU", "Advanced Micro Devices, Inc.", "ROCk module is loaded", "amd"),
        ("GPU", "", "ROCk module is loaded", "amd"),
        ("GPU", "AMD", "hygon module is loaded", "amd"),
        ("GPU", "", "hygon module is loaded", "hygon"),
        ("GPU", "HYGON", "ROCk module is loaded", "hygon"),
        ("GPU", "C-3000 IC Design Co., Ltd.", "", "hygon"),
        ("GPU", "Chengdu Haiguang IC Design Co., Ltd.", "", "hygon"),
        ("DCU", "", "", "hygon"),
        ("HCU", "HYGON", "hygon module version 6.3.31 is loaded", "hygon"),
    ],
)
def test_the_card_is_whose_its_type_its_maker_or_its_module_says(
    device_type: str, vendor_name: str, module: str, vendor: str
) -> None:
    text = HYGON.replace("\x1b[37mhygon module is loaded\x1b[0m", module)
    text = text.replace("HYGON ", vendor_name + " ").replace("DCU ", device_type + " ")
    (device,) = report_on(text).devices
    assert device.vendor == vendor


@pytest.mark.parametrize(
    ("printed", "bus_id", "complains"),
    [
        ("49408", "c1:00.0", False),
        ("768", "03:00.0", False),
        ("771", "03:00.3", False),
        ("0", None, False),
        ("N/A", None, True),
        ("65536", None, True),
    ],
)
def test_a_bdfid_is_bus_device_and_function_without_a_domain(printed: str, bus_id: str | None, complains: bool) -> None:
    report = report_on(text_of("driver-built-in").replace("BDFID:                   49408", f"BDFID: {printed}"))
    assert report.devices[0].bus_id == bus_id
    assert any("BDFID" in problem.text for problem in report.problems) == complains


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("16760832(0xffc000) KB", 16760832.0 * 1024),
        ("16760832 KB", 16760832.0 * 1024),
        ("16368 MB", 16368.0 * 2**20),
        ("16760832(0xffc001) KB", Absent.NOT_UNDERSTOOD),
        ("16760832(0xffc000)", Absent.NOT_UNDERSTOOD),
        ("N/A", Absent.NOT_REPORTED),
        ("0(0x0) KB", Absent.IMPLAUSIBLE),
        ("18446744073709551615 KB", Absent.IMPLAUSIBLE),
    ],
)
def test_a_size_is_believed_when_both_its_spellings_agree(printed: str, expected: Value) -> None:
    text = text_of("driver-built-in").replace("67092480(0x3ffc000) KB", printed)
    assert value(report_on(text), 0, "memory_total_bytes") == expected


def test_the_memory_is_that_of_the_coarse_grained_pool_wherever_it_stands() -> None:
    text = text_of("driver-built-in")
    first = text.replace("EXTENDED FINE GRAINED\n", "EXTENDED FINE GRAINED\n").replace(
        "67092480(0x3ffc000)", "8(0x8)", 1
    )
    assert value(report_on(first), 0, "memory_total_bytes") == 67092480.0 * 1024
    without = text.replace("FLAGS: COARSE GRAINED", "FLAGS:")
    assert value(report_on(without), 0, "memory_total_bytes") is Absent.NOT_REPORTED


def test_an_accelerator_without_a_type_keeps_its_place_in_the_count() -> None:
    lines = AMD.splitlines(keepends=True)
    at = next(place for place, line in enumerate(lines) if "Device Type:             GPU" in line)
    report = report_on("".join(lines[:at] + lines[at + 1 :]))
    assert [device.index for device in report.devices] == [1]
    assert "no device type" in report.problems[0].text


@pytest.mark.parametrize("uuid", ["GPU-XX", "gpu-xx", "N/A", ""])
def test_a_placeholder_is_no_identity(uuid: str) -> None:
    (device,) = report_on(HYGON.replace("GPU-70f1c2ab66e01942", uuid)).devices
    assert device.uuid is None


def test_the_driver_is_named_only_by_a_module_that_tells_its_version() -> None:
    assert {device.driver for device in report_on(AMD).devices} == {"6.10.5"}
    assert {device.driver for device in report_on(HYGON).devices} == {None}


def test_an_output_that_ends_early_with_a_status_is_no_list() -> None:
    cut = AMD[: AMD.index("Agent 3")]
    assert report_on(cut).outcome == "ok"
    report = report_on(cut, status=-9)
    assert (report.outcome, report.reason, report.devices) == ("failed", "killed", ())


def test_a_complaint_on_standard_error_beside_a_whole_list_is_a_problem() -> None:
    report = report_on(AMD, status=0, stderr="libdrm: amdgpu_query_info failed\n")
    assert len(report.devices) == 2
    assert [problem.where for problem in report.problems] == ["stderr line 1"]


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("ROCk module is loaded\nUnable to open /dev/kfd read-write: Bad address\n", "failed", "driver_gone"),
        (
            "ROCk module is loaded\nUnable to open /dev/kfd read-write: Operation not permitted\n",
            "failed",
            "no_permission",
        ),
        ("hsa api call failure at line 900, file: rocminfo.cc. Call returned 4104\n", "failed", "exit_status"),
        ("hsa_init Failed, possibly no supported GPU devices\n", "failed", "driver_gone"),
        ("bash: /opt/rocm/bin/rocminfo: No such file or directory\n", "failed", "exit_status"),
        ("bash: rocminfo: command not found\n", "failed", "exit_status"),
        ("\x1b[31mROCk module is NOT live, possibly no GPU devices\x1b[0m\n", "failed", "driver_gone"),
        ("ROCk module is loaded\n", "failed", "not_understood"),
        ("gfx000\ngfx90a\ngfx90a\n", "wrong_request", None),
        ("  Marketing Name:          AMD Instinct MI210\n", "wrong_request", None),
        ("  Uuid:                    GPU-91ab00c4d27e55f0\n", "wrong_request", None),
        ('{"gpu_data": [{"gpu": 0}]}\n', "not_mine", None),
        ("what is this\n", "failed", "not_understood"),
        ("\n" * 20_001, "failed", "not_understood"),
        ("*******\nAgent 1\n*******\n" * 1025, "failed", "not_understood"),
        ("", "failed", "not_understood"),
    ],
)
def test_texts_without_a_card_say_why(text: str, outcome: str, reason: str | None) -> None:
    report = report_on(text)
    assert (report.outcome, report.reason, report.devices) == (outcome, reason, ())
    assert report.problems


OLD = """
=====================
HSA System Attributes
=====================
Runtime Version:         1.1

==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    gfx803
  Vendor Name:             AMD
  Device Type:             GPU
  Chip ID:                 29440
  Max Clock Frequency (MHz):1015
  BDFID:                   1024
  Compute Unit:            64
  Waves Per CU:            160
  Workgroup Max Size Per Dimension:
    Dim[0]:                  67109888
    Dim[1]:                  50332672
  Max number Of fbarriers Per Workgroup:32
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    4190208KB
      Acessible by all:        FALSE
  ISA Info:
    ISA 1
      Name:                    AMD:AMDGPU:8:0:3
      Workgroup Max Dimension:
        Dim[0]:                  67109888
      Grid Max Dimension:
        x                        4294967295
*** Done ***
"""


def test_the_words_of_rocm_1_to_3_are_read() -> None:
    report = report_on(OLD)
    assert numbers(report) == {
        (0, "compute_units", 64.0),
        (0, "clock_max_hertz", 1015e6),
        (0, "memory_total_bytes", 4190208.0 * 1024),
    }
    assert (report.problems, report.unknown_fields) == ((), ())


@pytest.mark.parametrize(
    "said",
    [
        "ROCk module is loaded\nops is member of video group",
        "ROCk module is loaded\nops is member of render group",
        "ROCk module is loaded\nFailed to get user name to check for render group membership",
        "WSL environment detected.",
        "ops@node7 ~ $ /opt/rocm/bin/rocminfo",
        "[ ops: ~ ]$ rocminfo --support\nROCk module version 6.12.12 is loaded",
        "rocminfo",
    ],
)
def test_what_is_said_before_the_agents_is_no_trouble(said: str) -> None:
    assert report_on(f"{said}\n{OLD}").problems == ()


def test_a_readers_failure_is_no_text_to_parse() -> None:
    poll = PARSER.polls[0]
    failure = Failure("failed", "timeout", "no answer within 10 s")
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, (Output(text=AMD),), failure))
    assert (report.outcome, report.reason, report.devices) == ("failed", "timeout", ())


def test_the_poll_is_rare_and_says_that_it_wakes() -> None:
    (poll,) = PARSER.polls
    assert isinstance(poll.request, Command)
    assert poll.request.alternatives == (("rocminfo",),)
    assert (poll.tier, poll.interval, poll.wakes) == ("inventory", 300.0, True)
