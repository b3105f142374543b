"""What must be read in the real outputs of amd-smi that lie in the shared folder; the outputs are not kept here."""

from __future__ import annotations

import pytest

from kits.captures import shared_files, shared_text, text_capture
from telemetry_parsers.model import Absent, Report
from telemetry_parsers.vendors.amd.amd_smi import PARSER

pytestmark = pytest.mark.needs("captures")

KIB, MIB, GIB, MHZ = 2**10, 2**20, 2**30, 10**6
TOOL = "amd-smi"
Card = dict[str, float]
NOTHING: Card = {}


def monitor_61(power: int, core: int, memory: int, graphics: int, used: int) -> Card:
    return {
        "power_watts": power, "temperature_celsius core": core, "temperature_celsius memory": memory,
        "utilization_ratio": 0, "clock_hertz graphics": graphics * MHZ, "memory_activity_ratio": 0,
        "clock_hertz memory": 900 * MHZ, "memory_used_bytes": used * MIB, "memory_total_bytes": 196300 * MIB,
    }  # fmt: skip


def monitor_63(power: int, core: int, memory: int) -> Card:
    return {
        "power_watts": power, "temperature_celsius core": core, "temperature_celsius memory": memory,
        "memory_used_bytes": 283 * MIB, "memory_total_bytes": 196300 * MIB,
    }  # fmt: skip


def overview(power: int, core: int, activity: float, fan: float) -> Card:
    return {
        "memory_activity_ratio": activity, "temperature_celsius core": core, "ecc_uncorrected_total all": 0,
        "power_watts": power, "power_cap_watts": 300, "utilization_ratio": 1, "fan_ratio": fan,
        "memory_used_bytes": 29777 * MIB, "memory_total_bytes": 32624 * MIB, "processes": 4,
    }  # fmt: skip


def limits(highest: int, lowest: int, cap: int, edge: tuple[int, int]) -> Card:
    return {
        "power_cap_max_watts": highest, "power_cap_min_watts": lowest, "power_cap_watts": cap,
        "temperature_slowdown_celsius edge": edge[0], "temperature_shutdown_celsius edge": edge[1],
        "temperature_slowdown_celsius junction": 110, "temperature_shutdown_celsius junction": 115,
        "temperature_slowdown_celsius memory": 100, "temperature_shutdown_celsius memory": 105,
    }  # fmt: skip


def volts(graphics: float, soc: float, memory: float = 1.25) -> Card:
    return {"voltage_volts graphics": graphics, "voltage_volts soc": soc, "voltage_volts memory": memory}


USAGE = {
    "utilization_ratio": 0, "memory_activity_ratio": 0, "engine_utilization_ratio vcn": 0,
    "engine_utilization_ratio jpeg": 0,
}  # fmt: skip
MI300A = {
    "pcie_link_width_max": 16, "pcie_link_generation_max": 5, "power_cap_max_watts": 550, "power_cap_min_watts": 0,
    "power_cap_watts": 550, "temperature_slowdown_celsius junction": 100, "temperature_slowdown_celsius memory": 105,
    "temperature_shutdown_celsius junction": 110, "temperature_shutdown_celsius memory": 115, "ecc_enabled": 0,
    "memory_total_bytes": 64289 * MIB,
}  # fmt: skip
THROTTLE = {f"throttled {reason}": 0.0 for reason in ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")}
BLOCKS = ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "hdp", "xgmi_wafl")
ROWS_61 = [
    (171, 32, 33, 114, 283), (175, 33, 34, 113, 283), (177, 31, 33, 113, 283), (172, 33, 32, 113, 283),
    (178, 32, 32, 113, 284), (176, 33, 35, 113, 283), (176, 32, 32, 113, 283), (175, 34, 32, 113, 283),
]  # fmt: skip
ROWS_63 = [
    (248, 55, 48), (247, 55, 48), (247, 55, 48), (247, 55, 48), (221, 50, 42), (221, 50, 42), (222, 50, 42),
    (221, 50, 42), (239, 53, 46), (239, 53, 46), (239, 53, 46), (239, 53, 46), (219, 51, 48), (219, 51, 48),
    (219, 51, 48), (219, 51, 48), (222, 51, 47), (222, 51, 47), (222, 51, 47), (222, 51, 48), (241, 55, 48),
    (241, 55, 48), (241, 55, 48), (240, 55, 48), (211, 51, 45), (211, 51, 45), (211, 51, 45), (211, 51, 45),
    (227, 51, 49), (227, 51, 49), (227, 51, 49), (227, 51, 49),
]  # fmt: skip
NO_ERRORS = {
    "pcie_replays_total": 0,
    **{f"pcie_errors_total {kind}": 0 for kind in ("nak_sent", "nak_received", "l0_to_recovery", "replay_rollover")},
}
MEGABIT = 125_000
# By file: what each card gives, in order; "metric label" where the metric has one.
NUMBERS: dict[str, list[Card]] = {
    "amdsmi-changelog-6.1.0-metric-p-json": [{"power_watts": 10, "throttled any": 0, **volts(0.006, 0.918)}],
    "amdsmi-changelog-6.1.0-metric-usage": [USAGE],
    "amdsmi-changelog-6.1.0-monitor-ptumv": [monitor_61(*row) for row in ROWS_61],
    "amdsmi-changelog-6.1.0-version": [],
    "amdsmi-changelog-6.1.1-metric-clock": [
        {
            "clock_hertz graphics": 113 * MHZ, "clock_max_hertz graphics": 1800 * MHZ,
            "clock_hertz memory": 900 * MHZ, "clock_max_hertz memory": 1200 * MHZ,
            "clock_hertz video": 29 * MHZ, "clock_max_hertz video": 1480 * MHZ,
        }
    ],
    "amdsmi-changelog-6.1.1-metric-ecc": [
        {f"ecc_{kind}_total {block}": 0 for kind in ("corrected", "uncorrected", "deferred") for block in ("umc", "sdma")}
    ],
    "amdsmi-changelog-6.1.2-metric-ecc-blocks": [
        {f"ecc_{kind}_total {block}": 0 for kind in ("corrected", "uncorrected", "deferred") for block in BLOCKS}
    ],
    "amdsmi-changelog-6.1.2-metric-power": [
        {"power_watts": 11, "throttled any": 0, **volts(0.768, 0.925)},
        {"power_watts": 17, "throttled any": 0, **volts(0.781, 0.806)},
    ],
    "amdsmi-changelog-6.1.2-monitor-pcie": [{"pcie_bandwidth_bytes_per_second": 26 * MEGABIT}],
    "amdsmi-changelog-6.1.2-static-limit": [limits(203, 0, 203, (100, 105)), limits(213, 213, 213, (109, 114))],
    "amdsmi-changelog-6.2-monitor-q": [
        {
            "power_watts": 199, "temperature_celsius core": 103, "temperature_celsius memory": 84,
            "utilization_ratio": 0.99, "clock_hertz graphics": 1920 * MHZ, "memory_activity_ratio": 0.31,
            "clock_hertz memory": 1000 * MHZ, "clock_hertz video": 0, "ecc_corrected_total all": 0,
            "ecc_uncorrected_total all": 0, "pcie_replays_total": 0, "memory_used_bytes": 1235 * MIB,
            "memory_total_bytes": 16335 * MIB,
        }
    ],
    "amdsmi-changelog-6.2-process-NA": [NOTHING],
    "amdsmi-changelog-6.2-process-json": [{"processes": 2}],
    "amdsmi-changelog-6.2-process-sudo": [NOTHING],
    "amdsmi-changelog-6.2-voltage-curve": [NOTHING],
    "amdsmi-changelog-6.3-list": [NOTHING, NOTHING],
    "amdsmi-changelog-6.3-metric-pcie": [
        {"pcie_link_width": 16, "pcie_link_generation": 5, "pcie_bandwidth_bytes_per_second": 18 * MEGABIT, **NO_ERRORS},
        {"pcie_link_width": 16, "pcie_link_generation": 5, "pcie_bandwidth_bytes_per_second": 18 * MEGABIT, **NO_ERRORS},
    ],
    "amdsmi-changelog-6.3-metric-throttle": [THROTTLE, THROTTLE],
    "amdsmi-changelog-6.3-metric-usage-xcp": [USAGE, USAGE],
    "amdsmi-changelog-6.3-monitor-ptv": [monitor_63(*row) for row in ROWS_63],
    "amdsmi-changelog-6.3-monitor-violation": [THROTTLE] * 16,
    "amdsmi-changelog-6.3-static-asic": [{"compute_units": 20}],
    "amdsmi-changelog-6.3-static-partition": [NOTHING],
    "amdsmi-docs-6.2-static-mi300a": [MI300A] * 4,
    "amdsmi130-monitor-process": [
        {
            "power_watts": 293, "temperature_celsius core": 49, "temperature_celsius memory": 43,
            "clock_hertz graphics": 2106 * MHZ, "utilization_ratio": 0.96, "memory_activity_ratio": 0,
            "engine_utilization_ratio decoder": 0, "memory_used_bytes": 3.1 * GIB, "memory_total_bytes": 191.7 * GIB,
        }
    ],
    "dme-static-mi210-7.x-json": [
        {
            "compute_units": 104, "pcie_link_width_max": 16, "pcie_link_generation_max": 4, "power_cap_max_watts": 300,
            "power_cap_min_watts": 0, "power_cap_watts": 300, "temperature_slowdown_celsius edge": 99,
            "temperature_slowdown_celsius junction": 100, "temperature_slowdown_celsius memory": 94,
            "temperature_shutdown_celsius edge": 99, "temperature_shutdown_celsius junction": 105,
            "temperature_shutdown_celsius memory": 99, "memory_total_bytes": 65520 * MIB, "ecc_enabled": 1,
            "clock_max_hertz graphics": 1700 * MHZ, "clock_max_hertz memory": 1600 * MHZ,
            "clock_max_hertz fabric": 400 * MHZ, "clock_max_hertz soc": 1333 * MHZ, "clock_max_hertz video": 1000 * MHZ,
        }
    ],
    "hyperloom-mi300x-7.2.1-metric-subset": [
        {
            "utilization_ratio": 0.94, "memory_activity_ratio": 0.61, "power_watts": 612,
            "memory_total_bytes": 196592 * MIB, "memory_used_bytes": 17153 * MIB,
        },
        {"utilization_ratio": 0, "memory_total_bytes": 196592 * MIB, "memory_used_bytes": 284 * MIB},
    ],
    "rocm-diag-7.2-r9700-default-table": [overview(103, 79, 0.01, 0.3882), overview(92, 80, 0.0, 0.4)],
}  # fmt: skip
# By file: model, bus address, serial and driver of each card, where any is told.
DEVICES: dict[str, list[tuple[str | None, str | None, str | None, str | None]]] = {
    "amdsmi-changelog-6.3-list": [(None, "0000:23:00.0", None, None), (None, "0000:26:00.0", None, None)],
    "amdsmi-changelog-6.3-static-asic": [("MI308X", None, None, None)],
    "amdsmi-docs-6.2-static-mi300a": [
        ("MI300A", "0000:01:00.0", "0x7E8F7E20764E2714", "6.9.0-rc5+"),
        ("MI300A", "0001:01:00.0", "0xB6AE7C8CEFE1F084", "6.9.0-rc5+"),
        ("MI300A", "0002:01:00.0", "0x367125D815189854", "6.9.0-rc5+"),
        ("MI300A", "0003:01:00.0", "0xF4C44C2BE5E66537", "6.9.0-rc5+"),
    ],
    "dme-static-mi210-7.x-json": [("AMD Instinct MI210", None, None, "6.14.0-24-generic")],
    "rocm-diag-7.2-r9700-default-table": [
        ("...Radeon AI PRO R9700", "0000:03:00.0", None, "6.16.6"),
        ("...Radeon AI PRO R9700", "0000:43:00.0", None, "6.16.6"),
    ],
}
# Outcome, reason and a word of the problem of what gives no card.
FAILURES = {
    "amdsmi-changelog-6.1.0-metric-cpu": ("no_devices", None, "no GPU"),
    "amdsmi-changelog-6.2-error-no-device": ("wrong_request", None, "Can not find a device"),
    "amdsmi134-mi300x-dpx-7.0.2-usage": ("wrong_request", None, "Python"),
}
# `...` is how its source shortened the text; a warning stands before one table.
PROBLEMS = {
    "amdsmi-changelog-6.1.1-metric-ecc": "shortened",
    "amdsmi-changelog-6.3-metric-pcie": "shortened",
    "amdsmi-changelog-6.3-metric-throttle": "shortened",
    "amdsmi-changelog-6.3-metric-usage-xcp": "shortened",
    "amdsmi-changelog-6.3-monitor-violation": "shortened",
    "amdsmi130-monitor-process": "missing the following required groups",
}
PROCESSES = {
    "amdsmi-changelog-6.2-monitor-q": [(1564865, "rvs", 1.1 * GIB)],
    "amdsmi-changelog-6.2-process-NA": [(1693982, "", 10.1 * GIB)],
    "amdsmi-changelog-6.2-process-json": [(420157, "TransferBench", 0.0), (420315, "rvs", 0.0)],
    "amdsmi-changelog-6.2-process-sudo": [(1693982, "TransferBench", 10.1 * GIB)],
    "amdsmi130-monitor-process": [(2266127, "", 2.8 * GIB)],
    "rocm-diag-7.2-r9700-default-table": [
        (213534, "python3.12", 54.7 * KIB),
        (213890, "python3.12", 54.7 * KIB),
        (213952, "python3.12", 19.6 * GIB),
        (213953, "python3.12", 19.1 * GIB),
    ]
    * 2,
}


def report_on(name: str) -> Report:
    (path,) = (path for path in shared_files(TOOL) if path.stem == name)
    return PARSER.parse(text_capture(PARSER, shared_text(path)))


def test_every_shared_capture_has_its_expectation() -> None:
    assert {path.stem for path in shared_files(TOOL)} == set(NUMBERS) | set(FAILURES)


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers_are_exactly_those_printed(name: str) -> None:
    report = report_on(name)
    found: list[Card] = [{} for _ in report.devices]
    for item in report.readings:
        if not isinstance(item.value, Absent):
            assert item.device is not None
            found[item.device][f"{item.metric} {item.label}".strip()] = item.value
    assert found == NUMBERS[name]
    assert [device.index for device in report.devices] == list(range(len(found)))


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_problems_processes_and_unknown_fields(name: str) -> None:
    report = report_on(name)
    assert [PROBLEMS[name] in problem.text for problem in report.problems] == [True] * (name in PROBLEMS)
    assert report.unknown_fields == ()
    found = [(one.pid, one.name, one.memory_used_bytes) for one in report.processes]
    assert found == PROCESSES.get(name, [])


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_devices_are_those_printed(name: str) -> None:
    devices = report_on(name).devices
    found = [(one.model, one.bus_id, one.serial, one.driver) for one in devices]
    assert found == DEVICES.get(name, [(None, None, None, None)] * len(NUMBERS[name]))
    assert {(one.vendor, one.uuid, one.partition, one.parent) for one in devices} <= {("amd", None, None, None)}


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_what_gives_no_card_says_why(name: str) -> None:
    report = report_on(name)
    outcome, reason, word = FAILURES[name]
    assert (report.outcome, report.reason, report.devices, report.readings) == (outcome, reason, (), ())
    assert [word in problem.text for problem in report.problems] == [True]


def test_versions() -> None:
    facts = {"tool_version": "23.4.2+505b858", "library_version": "24.2.0.0", "rocm_version": "6.1.0"}
    assert dict(report_on("amdsmi-changelog-6.1.0-version").facts) == facts
    facts = {"tool_version": "26.2.1+fc0010cf6a", "rocm_version": "7.2.0"}
    assert dict(report_on("rocm-diag-7.2-r9700-default-table").facts) == facts
