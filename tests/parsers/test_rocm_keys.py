"""What each key of rocm-smi means, in the words of every era."""

from __future__ import annotations

import pytest

from kits.parsed.rocm_smi import Readings, problems, readings, report_of, report_on

OTHER = [
    ("Fan RPM", "682", {"fan_rpm": 682.0}),
    ("Voltage (mV)", "818", {"voltage_volts.graphics": 0.818}),
    ("voltage_soc (mV)", "906", {"voltage_volts.soc": 0.906}),
    ("voltage_mem (mV)", "65535", {"voltage_volts.memory": "implausible"}),
    ("current_fan_speed (rpm)", "1200", {"fan_rpm": 1200.0}),
    ("GTT Total Memory (B)", "33285996544", {"memory_gtt_total_bytes": 33285996544.0}),
    ("GTT Total Used Memory (B)", "2147483648", {"memory_gtt_used_bytes": 2147483648.0}),
    ("pcie_l0_to_recov_count_acc (Count)", "3", {"pcie_errors_total.l0_to_recovery": 3.0}),
    ("pcie_replay_rover_count_acc (Count)", "1", {"pcie_errors_total.replay_rollover": 1.0}),
]
TEMPERATURES = [
    ("Temperature (Sensor edge) (C)", "45.0", {"temperature_celsius.edge": 45.0}),
    ("Temperature (Sensor junction) (c)", "45.0", {"temperature_celsius.junction": 45.0}),
    ("Temperature (Sensor mem) (C)", "45.0", {"temperature_celsius.memory": 45.0}),
    ("Temperature (Sensor memory) (C)", "-4.5", {"temperature_celsius.memory": "implausible"}),
    ("Temperature (Sensor HBM 3) (C)", "45.0", {"temperature_celsius.hbm3": 45.0}),
    ("Temperature (Sensor core) (C)", "45.0", {"temperature_celsius.core": 45.0}),
    ("Temperature (Sensor #1)", "27.0 c", {"temperature_celsius.edge": 27.0}),
    ("Temperature (junction)", "27.0 c", {"temperature_celsius.junction": 27.0}),
    ("Temperature", "27.0c", {"temperature_celsius.edge": 27.0}),
    ("temperature_hotspot (C)", "51", {"temperature_celsius.junction": 51.0}),
    ("temperature_vrsoc (C)", "43", {"temperature_celsius.vrsoc": 43.0}),
    (
        "temperature_hbm (C)",
        "[39, 'N/A']",
        {"temperature_celsius.hbm0": 39.0, "temperature_celsius.hbm1": "not_reported"},
    ),
    ("Temperature (Sensor edge) (C)", "N/A", {"temperature_celsius.edge": "not_reported"}),
    ("Temperature", "511.0c", {"temperature_celsius.edge": "implausible"}),
]
AVERAGE = {"power_average_watts": 87.0, "power_watts": 87.0}
INSTANT = {"power_instant_watts": 7.222, "power_watts": 7.222}
POWER = [
    ("Average Graphics Package Power (W)", "87.0", AVERAGE),
    ("Average Graphics Package Power", "87.0W", AVERAGE),
    ("Average GPU Power", "87.0 W", AVERAGE),
    ("average_socket_power (W)", "87", AVERAGE),
    ("Current Socket Graphics Package Power (W)", "7.222", INSTANT),
    ("current_socket_power (W)", "7.222", INSTANT),
    ("Average Graphics Package Power (W)", "N/A (Secondary die)", dict.fromkeys(AVERAGE, "not_reported")),
    ("Average GPU Power", "16777215.0 W", dict.fromkeys(AVERAGE, "implausible")),
    ("Max Graphics Package Power (W)", "560.0", {"power_cap_watts": 560.0}),
    ("Max Graphics Package Power (W)", "0.0", {"power_cap_watts": "not_supported"}),
    ("Accumulated Energy (uJ)", "962825096297442.9", {"energy_joules_total": 962825096.2974429}),
    ("Accumulated Energy (uJ)", "0.0", {"energy_joules_total": "not_supported"}),
    ("energy_accumulator (15.259uJ (2^-16))", "131072", {"energy_joules_total": 2.0}),
]
USE = [
    ("GPU use (%)", "100", {"utilization_ratio": 1.0}),
    ("GPU use (%)", "0", {"utilization_ratio": 0.0}),
    ("GPU use (%)", "101", {"utilization_ratio": "implausible"}),
    ("GPU use (%)", "Unsupported", {"utilization_ratio": "not_supported"}),
    ("Current GPU use", "3%", {"utilization_ratio": 0.03}),
    ("average_gfx_activity (%)", "57", {"utilization_ratio": 0.57}),
    ("GPU memory use (%)", "12", {"memory_activity_ratio": 0.12}),
    ("GPU Memory Read/Write Activity (%)", "12", {"memory_activity_ratio": 0.12}),
    ("GPU Memory Allocated (VRAM%)", "57", {"memory_used_ratio": 0.57}),
    ("VRAM Total Memory (B)", "17163091968", {"memory_total_bytes": 17163091968.0}),
    ("VRAM Total Used Memory (B)", "0", {"memory_used_bytes": 0.0}),
    ("VRAM Total Memory (MiB)", "16368", {"memory_total_bytes": 16368.0 * 2**20}),
    ("VRAM Total Memory (B)", "None", {"memory_total_bytes": "not_reported"}),
    ("vcn_activity (%)", "[0, 12, 'N/A']", {"engine_utilization_ratio.vcn": 0.12}),
    ("jpeg_activity (%)", "['N/A', 'N/A']", {"engine_utilization_ratio.jpeg": "not_reported"}),
    ("average_mm_activity (%)", "4", {"engine_utilization_ratio.multimedia": 0.04}),
    ("Fan speed (%)", "33", {"fan_ratio": 0.33}),
    ("Fan Speed (%)", "33", {"fan_ratio": 0.33}),
    ("Fan Level", "84 (33%)", {"fan_ratio": 0.33}),
    ("Fan Level", "107 (42.5)%", {"fan_ratio": 0.425}),
    ("Fan Level", "42%", {"fan_ratio": 0.42}),
]
CLOCKS = [
    ("sclk clock speed:", "(1725Mhz)", {"clock_hertz.graphics": 1725e6}),
    ("sclk clock level", "8 (1725Mhz)", {"clock_hertz.graphics": 1725e6}),
    ("sclk clock level", "S (19Mhz)", {"clock_hertz.graphics": 19e6}),
    ("sclk clock level", "S: (19Mhz)", {"clock_hertz.graphics": 19e6}),
    ("mclk clock speed", "1350Mhz", {"clock_hertz.memory": 1350e6}),
    ("fclk clock speed:", "(400Mhz)", {"clock_hertz.fabric": 400e6}),
    ("socclk clock speed:", "(0Mhz)", {"clock_hertz.soc": 0.0}),
    ("GPU Clock Level", "7 (1590Mhz)", {"clock_hertz.graphics": 1590e6}),
    ("GPU Memory Clock Level", "3 (800Mhz)", {"clock_hertz.memory": 800e6}),
    ("GPU Clock Level", "None (None)", {"clock_hertz.graphics": "not_reported"}),
    ("fclk clock level", "0 (65535Mhz)", {"clock_hertz.fabric": "implausible"}),
    ("current_gfxclk (MHz)", "65535", {"clock_hertz.graphics": "implausible"}),
    ("current_gfxclks (MHz)", "[132, 2100, 'N/A']", {"clock_hertz.graphics": 2100e6}),
    ("current_uclk (MHz)", "96", {"clock_hertz.memory": 96e6}),
    ("pcie clock level", "1 (16.0GT/s x16)", {"pcie_link_generation": 4.0, "pcie_link_width": 16.0}),
    ("pcie clock level", "0 (2.5GT/s, x1 619Mhz)", {"pcie_link_generation": 1.0, "pcie_link_width": 1.0}),
    ("pcie clock speed", "32.0GT/s, x16 1100Mhz", {"pcie_link_generation": 5.0, "pcie_link_width": 16.0}),
    ("pcie_link_speed (0.1 GT/s)", "320", {"pcie_link_generation": 5.0}),
    ("pcie_link_width (Lanes)", "16", {"pcie_link_width": 16.0}),
    ("PCIe Replay Count", "147", {"pcie_replays_total": 147.0}),
    ("pcie_replay_count_acc (Count)", "6", {"pcie_replays_total": 6.0}),
    ("pcie_nak_sent_count_acc (Count)", "4", {"pcie_errors_total.nak_sent": 4.0}),
    ("pcie_nak_rcvd_count_acc (Count)", "N/A", {"pcie_errors_total.nak_received": "not_reported"}),
    ("throttle_status", "0", {"throttled.any": 0.0}),
    ("indep_throttle_status", "4096", {"throttled.any": 1.0}),
    ("Performance Level", "auto", {"performance_level.auto": 1.0}),
    ("Performance Level", "PERF_DETERMINISM", {"performance_level.determinism": 1.0}),
    ("Performance Level", "AMDSMI_DEV_PERF_LEVEL_DETERMINISM", {"performance_level.determinism": 1.0}),
    ("Performance Level", "stable_min_mclk", {"performance_level.profile": 1.0}),
    ("Performance Level", "profile_peak", {"performance_level.profile": 1.0}),
    ("Current PowerPlay Level", "manual", {"performance_level.manual": 1.0}),
    ("Performance Level", "unknown", {"performance_level.unknown": 1.0}),
]
# Known, and nothing that the catalogue has a word for.
QUIET = [
    ("sclk clock level:", "8"),
    ("sclk clock level:", "S"),
    ("Fan speed (level)", "84"),
    ("Fan Level", "84"),
    ("0", "16.0GT/s x16 *"),
    ("S", "19Mhz *"),
    ("GFX Activity", "2469071528"),
    ("dcefclk clock speed:", "(480Mhz)"),
    ("SDMA2 firmware version", "8"),
    ("Valid sclk range", "500Mhz - 1700Mhz"),
    ("4. Available power profile (#7 of 7)", "BOOTUP DEFAULT*"),
    ("VDDC_CURVE_SCLK[0]", "0Mhz"),
    ("VIS_VRAM Total Used Memory (B)", "70930432"),
    ("(Topology) Numa Affinity", "-1"),
    ("firmware_timestamp (10ns resolution)", "12"),
    ("xcp_stats.gfx_busy_inst (%)", "[93, 'N/A']"),
    ("Estimated maximum PCIe bandwidth over the last second (MB/s)", "0.000"),
    ("GPU OverDrive value (%)", "0"),
    ("XGMI Error count", "0"),
]


@pytest.mark.parametrize(("key", "text", "expected"), [*TEMPERATURES, *POWER, *USE, *CLOCKS, *OTHER])
def test_a_key_gives_its_reading(key: str, text: str, expected: Readings) -> None:
    report = report_of({key: text})
    assert readings(report) == expected
    assert report.unknown_fields == ()
    assert bool(report.problems) == ("implausible" in expected.values())


@pytest.mark.parametrize(("key", "text"), QUIET)
def test_a_key_without_a_metric_is_passed_over(key: str, text: str) -> None:
    report = report_of({"GPU use (%)": "1", key: text})
    assert readings(report) == {"utilization_ratio": 0.01}
    assert (report.unknown_fields, report.problems) == ((), ())


def test_a_key_that_no_table_has_is_an_unknown_field() -> None:
    report = report_of({"Flux Capacitor (GW)": "1.21", "": ""})
    assert report.unknown_fields == ("Flux Capacitor (GW)",)
    assert report.readings == ()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("GPU use (%)", "lots"),
        ("Temperature (Sensor edge) (F)", "113.0"),
        ("VRAM Total Memory (XB)", "12"),
        ("sclk clock speed:", "(fast)"),
        ("pcie clock level", "1 (17.0GT/s x16)"),
        ("Performance Level", "turbo"),
        ("pcie_link_speed (GT/s)", "16"),
    ],
)
def test_what_is_not_understood_is_told_with_its_place(key: str, text: str) -> None:
    report = report_of({key: text})
    assert set(readings(report).values()) <= {"not_understood"} | {16.0}
    assert text in problems(report)[0]


def test_a_link_that_is_not_understood_is_one_problem_of_its_generation_and_its_width() -> None:
    report = report_of({"pcie clock level": "1 (16.0GT/s}x16)"})
    assert readings(report) == dict.fromkeys(("pcie_link_generation", "pcie_link_width"), "not_understood")
    assert len(problems(report)) == 1


def test_of_a_clock_told_twice_the_first_number_counts() -> None:
    report = report_of({"sclk clock speed:": "(N/A)", "sclk clock level": "8 (1725Mhz)"})
    assert readings(report) == {"clock_hertz.graphics": 1725e6}


def test_the_second_figure_of_two_dies_does_not_replace_the_first() -> None:
    text = "GPU[0]\t\t: current_gfxclk (MHz): 131\nGPU[0]\t\t: current_gfxclks (MHz): [131, 2084]\n"
    assert readings(report_on(text)) == {"clock_hertz.graphics": 131e6}
