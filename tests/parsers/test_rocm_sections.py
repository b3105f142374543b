"""The text of rocm-smi's `-a` and `--show…`: values, messages, tables below a card, processes."""

from __future__ import annotations

import pytest

from kits.captures import own_case, parse_file
from kits.parsed.rocm_smi import Readings, problems, readings, report_on

CARD = "GPU[0]\t\t: "
RULE = "=" * 60 + "\n"
END = "============ End of ROCm SMI Log ============\n"


def text_of(case: str) -> str:
    return parse_file(own_case("rocm-smi", case).path.read_text()).text


@pytest.mark.parametrize(
    "line",
    [
        "GPU[0]\t\t: GPU use (%): 63\n",
        "GPU[0]          : GPU use (%): 63\n",
        "    GPU[0] \t\t: GPU use (%): \t63\n",
        "GPU[0]: GPU use (%): 63\n",
        "\x1b[32mGPU[0]\t\t: GPU use (%): 63\x1b[0m\r\n",
    ],
)
def test_a_line_of_a_card_however_it_is_set(line: str) -> None:
    assert readings(report_on(line)) == {"utilization_ratio": 0.63}


def test_a_value_may_have_colons_and_a_key_may_have_none() -> None:
    report = report_on(f"{CARD}PCI Bus: 0000:1E:00.0\n{CARD}pcie clock level 1 (16.0GT/s, x16 800Mhz)\n")
    assert report.devices[0].bus_id == "0000:1e:00.0"
    assert readings(report) == {"pcie_link_generation": 4.0, "pcie_link_width": 16.0}


def test_the_pools_of_rocm_2_stand_in_one_line() -> None:
    report = report_on(
        f"{CARD}vram ::\ttotal: 17163091968 B   \tused: 9437184 B\n{CARD}gtt ::\ttotal: 1 B   \tused: 0 B\n"
    )
    assert readings(report) == {
        "memory_total_bytes": 17163091968.0,
        "memory_used_bytes": 9437184.0,
        "memory_gtt_total_bytes": 1.0,
        "memory_gtt_used_bytes": 0.0,
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("GPU use Unsupported", {"utilization_ratio": "not_supported"}),
        ("Max Graphics Package Power Unsupported", {"power_cap_watts": "not_supported"}),
        ("get_power_cap, Not supported on the given system", {"power_cap_watts": "not_supported"}),
        ("Unable to detect fan speed for GPU 0", {"fan_ratio": "not_reported"}),
        ("Unable to get GPU memory use.", {"memory_activity_ratio": "not_reported"}),
        ("sclk clock is unsupported", {"clock_hertz.graphics": "not_supported"}),
        ("mclk current clock frequency not found", {"clock_hertz.memory": "not_reported"}),
        (
            "Cannot get GPU power Consumption: Average GPU Power not supported",
            {"power_average_watts": "not_supported", "power_watts": "not_supported"},
        ),
        ("Unable to display voltage range", {}),
        ("Supported sclk frequencies on GPU0", {}),
        ("PowerPlay not enabled - Cannot display Performance Level", {}),
        ("Power Profiles\t: Not supported", {}),
    ],
)
def test_a_message_says_why_there_is_no_number_and_is_no_trouble(message: str, expected: Readings) -> None:
    report = report_on(f"{CARD}{message}\n{CARD}PCIe Replay Count: 0\n{END}")
    assert readings(report) == expected | {"pcie_replays_total": 0.0}
    assert (report.problems, report.unknown_fields) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        "GPU[0]          : get_power_avg, Unexpected data received",
        "ERROR: GPU[0]\t: Unable to get GPU memory use.",
        "ERROR: 15 GPU[0]: power: RSMI_STATUS_UNEXPECTED_DATA: Data read or provided is not as expected",
        "GPU[0]          : Unable to determine current clocks. Check dmesg or GPU temperature",
        "GPU[0]          : The card is on fire",
    ],
)
def test_a_message_of_trouble_is_told(line: str) -> None:
    report = report_on(f"{CARD}PCIe Replay Count: 0\n{line}\n{END}")
    assert problems(report) == [f"line 2: {' '.join(line.split())}"]


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        ("Traceback (most recent call last):", True),
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)", True),
        ("ERROR: 9 GPU[0]: od volt: The called function has not been implemented in this system", False),
        ("WARNING: \t\t One or more commands failed", False),
        ("No KFD PIDs currently running", False),
    ],
)
def test_an_error_that_is_no_cards_is_told_beside_the_values(noise: str, told: bool) -> None:
    report = report_on(f"{CARD}GPU use (%): 63\n{noise}\n{END}")
    assert readings(report)["utilization_ratio"] == 0.63
    assert [noise in problem.text for problem in report.problems] == [True] * told


def test_a_card_of_which_there_is_only_a_message_is_there() -> None:
    assert [device.index for device in report_on("ERROR: GPU[3]\t: sclk clock is unsupported\n").devices] == [3]


def test_an_error_with_a_number_in_it_gives_no_number() -> None:
    report = report_on("ERROR: GPU[0]\t: GPU use (%): 63\n")
    assert report.readings == ()


def test_a_line_that_the_text_ends_in_is_not_read() -> None:
    report = report_on(f"{CARD}GPU use (%): 6\n{CARD}Fan speed (%): 3")
    assert readings(report) == {"utilization_ratio": 0.06}
    assert problems(report)[0] == "line 2: the text ends inside this line, which is not read"


def test_a_text_that_stops_without_its_closing_line_is_cut_and_no_card_is_lost_by_it() -> None:
    report = report_on(f"{CARD}GPU use (%): 6\n{CARD}Fan speed (%): 3\n")
    assert readings(report) == {"utilization_ratio": 0.06, "fan_ratio": 0.03}
    assert problems(report) == [
        "line 2: no closing line below, further lines may be missing: GPU[0] : Fan speed (%): 3"
    ]
    assert report.is_cut
    assert not report_on(f"{CARD}GPU use (%): 6\n{END}").is_cut


def test_a_line_that_has_lost_its_card_is_told() -> None:
    report = report_on(f"{CARD}GPU use (%): 6\n      \t\t: Fan speed (%): 3\n{END}")
    assert problems(report) == ["line 2: does not say which card it is of: : Fan speed (%): 3"]


def test_a_last_rule_without_its_end_is_no_problem() -> None:
    assert report_on(f"{CARD}GPU use (%): 6\n============ End of ROCm SMI Log ============").problems == ()


def test_the_lines_of_rocm_1_are_drawn_with_dots() -> None:
    rule = "." * 80 + "\n"
    end = f"{'.' * 20}           End of ROCm SMI Log          {'.' * 20}\n"
    report = report_on(f"{CARD}Temperature: 44.0c\n{rule}{rule}{CARD}Fan Level: 51 (20.0)%\n{rule}{end}")
    assert (readings(report), problems(report)) == ({"temperature_celsius.edge": 44.0, "fan_ratio": 0.2}, [])


def test_partitions_of_the_raw_metrics_are_not_taken_for_the_card() -> None:
    report = report_on(f"{CARD}average_gfx_activity (%): 12\nGPU[0] XCP[1]\t: xcp_stats.gfx_busy_inst (%): [93]\n")
    assert readings(report) == {"utilization_ratio": 0.12}
    assert [device.index for device in report.devices] == [0]


def test_errors_by_block_follow_their_headings() -> None:
    assert readings(report_on(text_of("ras"))) == {
        "ecc_enabled": 1.0,
        "ecc_corrected_total.umc": 5.0,
        "ecc_uncorrected_total.umc": 1.0,
        "retired_pages.all": 1.0,
        "retired_pages_pending": 1.0,
    }


def test_swapped_headings_are_not_believed_unless_both_are_the_same() -> None:
    report = report_on(text_of("ras-rocm5"))
    found = readings(report)
    assert found["ecc_corrected_total.umc"] == found["ecc_uncorrected_total.umc"] == "not_understood"
    assert found["ecc_corrected_total.sdma"] == found["ecc_uncorrected_total.sdma"] == 3.0
    assert any("some versions swap" in text for text in problems(report))


def test_counts_without_their_heading_are_not_read() -> None:
    text = "".join(line for line in text_of("ras").splitlines(keepends=True) if "Correctable" not in line)
    assert "ecc_corrected_total.umc" not in readings(report_on(text))


@pytest.mark.parametrize("table", ["RESERVED", "PENDING", "UNRESERVABLE"])
def test_a_table_of_one_kind_of_pages_tells_of_no_other(table: str) -> None:
    expected: dict[str, Readings] = {"RESERVED": {"retired_pages.all": 2.0}, "PENDING": {"retired_pages_pending": 1.0}}
    pages = f"  0x9000  0x1000  {table.lower()}\n  0xa000  0x1000  {table.lower()}\n"
    text = f"\nGPU[1]: \t{table} PAGES INFO\n    Page address     Page size      Status  \n{pages}"
    assert readings(report_on(text + RULE)) == expected.get(table, {})
    assert "retired_pages.all" not in readings(report_on(text))


def test_processes_by_card() -> None:
    report = report_on(text_of("pids-cards"))
    assert [(process.device, process.pid, process.name, process.memory_used_bytes) for process in report.processes] == [
        (0, 4242, "python", None),
        (1, 4242, "python", None),
        (1, 977, "llama server", 4294967296.0),
    ]
    assert [readings(report, device)["processes"] for device in range(3)] == [1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("good", "broken"),
    [
        ("0 1 \n", "0 \n"),
        ("0 1 \n", ""),
        ("PID 31 is using 0 DRM device(s)\n" + "=" * 60, "PID 31 is using 1 DRM devi"),
    ],
)
def test_processes_are_not_counted_where_one_may_be_missing(good: str, broken: str) -> None:
    text = text_of("pids-cards")
    assert good in text
    report = report_on(text.replace(good, broken))
    assert "processes" not in readings(report)
    assert report.processes


def test_a_process_with_a_row_for_each_card_has_no_memory_of_its_own() -> None:
    rows = "PID \tPROCESS NAME\tGPU\tVRAM USED\tSDMA USED\tCU OCCUPANCY\t\n" + "77 \tpython \t1 \t4096 \t0 \t0 \t\n" * 2
    text = f"KFD process information:\n{rows}{RULE}PID 77 is using 1 DRM device(s):\n0 \n{RULE}"
    assert [process.memory_used_bytes for process in report_on(text).processes] == [None]


def test_no_process_is_none_on_each_card() -> None:
    assert readings(report_on(text_of("pids-none"))) == {"processes": 0.0}


def test_sections_around_a_table_belong_to_its_cards() -> None:
    table = text_of("concise-5")
    report = report_on(f"GPU[0]\t\t: Unique ID: 0xabcdef0123456789\n{table}{CARD}PCIe Replay Count: 4\n")
    assert report.devices[0].uuid == "0xabcdef0123456789"
    assert readings(report)["pcie_replays_total"] == 4.0
    assert readings(report).items() > readings(report_on(table)).items()
