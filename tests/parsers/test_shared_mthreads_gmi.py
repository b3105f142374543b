"""What must be read in the real outputs of mthreads-gmi that lie in the shared folder; the outputs are not kept here."""

from __future__ import annotations

import pytest

from kits.captures import shared_files, shared_text, text_capture
from telemetry_parsers.model import Absent, Device, Reading, Report
from telemetry_parsers.vendors.moorethreads.mthreads_gmi import PARSER

pytestmark = pytest.mark.needs("captures")

MIB, MHZ = 2**20, 10**6
TOOL = "mthreads-gmi"
NO_DEVICES: dict[int, dict[str, float]] = {}

# By file: what each card (by its printed index) gives; "metric label" where the metric has one.
NUMBERS: dict[str, dict[int, dict[str, float]]] = {
    "cf-s3000-mpc-parent-2.3.4-drv2.9.2-whitespace-collapsed": {
        0: {
            "utilization_ratio": 0.58,
            "memory_used_bytes": 30094 * MIB,
            "memory_total_bytes": 32768 * MIB,
            "temperature_celsius core": 57,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
        }
    },
    "default-s3000-vgpu-guest-2.3.4-drv2.9.2-whitespace-collapsed": {
        0: {
            "utilization_ratio": 0,
            "memory_used_bytes": 0,
            "memory_total_bytes": 1024 * MIB,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
        }
    },
    "default-s4000-1.12.2-drv1.2.0-iommu-used-gt-total": {
        0: {
            "utilization_ratio": 0.88,
            "memory_used_bytes": 44302 * MIB,
            "memory_total_bytes": 32768 * MIB,
            "temperature_celsius core": 65,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
        }
    },
    "default-s5000-2.3.3-drv3.3.8-trimmed": {
        0: {
            "utilization_ratio": 0,
            "memory_used_bytes": 0,
            "memory_total_bytes": 81920 * MIB,
            "temperature_celsius core": 47,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
            "performance_state": 0,
            "ecc_enabled": 1,
        }
    },
    "default-s80-1.14.0-drv2.7.0-container-busy": {
        0: {
            "utilization_ratio": 0.98,
            "memory_used_bytes": 1339 * MIB,
            "memory_total_bytes": 16384 * MIB,
            "temperature_celsius core": 56,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
            "processes": 2,
        }
    },
    "process-table-x10000-2.3.3-drv3.3.8": {0: {"processes": 1}},
    "query-full-s90-drv2.7.0-indent-stripped": {
        0: {
            "utilization_ratio": 0,
            "engine_utilization_ratio encoder": 0,
            "engine_utilization_ratio decoder": 0,
            "memory_used_bytes": 0,
            "memory_free_bytes": 24576 * MIB,
            "memory_total_bytes": 24576 * MIB,
            "temperature_celsius core": 61,
            "power_watts": 153.59,
            "fan_ratio": 0.75,
            "clock_hertz graphics": 1600 * MHZ,
            "clock_hertz memory": 2003 * MHZ,
            "clock_hertz video": 1200 * MHZ,
            "clock_max_hertz graphics": 1600 * MHZ,
            "clock_max_hertz memory": 2003 * MHZ,
            "clock_max_hertz video": 1200 * MHZ,
            "pcie_link_generation": 4,
            "pcie_link_generation_max": 5,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
        }
    },
    "query-json-s5000-drv3.3.5-excerpt": {
        0: {
            "utilization_ratio": 0,
            "memory_used_bytes": 0,
            "memory_free_bytes": 81920 * MIB,
            "memory_total_bytes": 81920 * MIB,
            "temperature_celsius core": 27,
            "power_watts": 96.66,
            "power_cap_watts": 950,
        },
        1: {
            "utilization_ratio": 0,
            "memory_used_bytes": 0,
            "memory_free_bytes": 81920 * MIB,
            "memory_total_bytes": 81920 * MIB,
            "temperature_celsius core": 26,
            "power_watts": 97.09,
        },
    },
    "musa_report-s4000-1.12.2": NO_DEVICES,
    "version-2.3.3": NO_DEVICES,
}
# By file: model, bus address and driver of each card.
DEVICES: dict[str, list[tuple[str | None, str | None, str | None]]] = {
    "cf-s3000-mpc-parent-2.3.4-drv2.9.2-whitespace-collapsed": [("MTT S3000", "0000:5e:00.0", "2.9.2-000")],
    "default-s3000-vgpu-guest-2.3.4-drv2.9.2-whitespace-collapsed": [
        ("MTT S3000 MtvGPU-1101", "0000:00:0d.0", "2.9.2")
    ],
    "default-s4000-1.12.2-drv1.2.0-iommu-used-gt-total": [("MTT S4000", "0000:08:00.0", "1.2.0")],
    "default-s5000-2.3.3-drv3.3.8-trimmed": [("MTT S5000", "0000:18:00.0", "3.3.8-server")],
    "default-s80-1.14.0-drv2.7.0-container-busy": [("MTT S80", "0000:01:00.0", "2.7.0")],
    "process-table-x10000-2.3.3-drv3.3.8": [(None, None, None)],
    "query-full-s90-drv2.7.0-indent-stripped": [("MTT S90", "0000:01:00.0", "2.7.0")],
    "query-json-s5000-drv3.3.5-excerpt": [
        ("MTT S5000", "0000:2a:00.0", "3.3.5-server"),
        ("MTT S5000", None, "3.3.5-server"),
    ],
    "musa_report-s4000-1.12.2": [],
    "version-2.3.3": [],
}
# Those that their source cut short, or that are no output to read at all, say so; the others say nothing.
PROBLEMS = {
    "default-s4000-1.12.2-drv1.2.0-iommu-used-gt-total": 1,
    "default-s5000-2.3.3-drv3.3.8-trimmed": 2,
    "query-json-s5000-drv3.3.5-excerpt": 1,
    "musa_report-s4000-1.12.2": 1,
}
TOOL_VERSIONS = {
    "cf-s3000-mpc-parent-2.3.4-drv2.9.2-whitespace-collapsed": "2.3.4",
    "default-s3000-vgpu-guest-2.3.4-drv2.9.2-whitespace-collapsed": "2.3.4",
    "default-s4000-1.12.2-drv1.2.0-iommu-used-gt-total": "1.12.2",
    "default-s5000-2.3.3-drv3.3.8-trimmed": "2.3.3",
    "default-s80-1.14.0-drv2.7.0-container-busy": "1.14.0",
    "musa_report-s4000-1.12.2": "1.12.2",
    "version-2.3.3": "2.3.3",
}


def report_on(name: str) -> Report:
    (path,) = (path for path in shared_files(TOOL) if path.stem == name)
    return PARSER.parse(text_capture(PARSER, shared_text(path)))


def name_of(item: Reading) -> str:
    return f"{item.metric} {item.label}".strip()


def test_every_shared_capture_has_its_expectation() -> None:
    assert {path.stem for path in shared_files(TOOL)} == set(NUMBERS) == set(DEVICES)


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers_are_exactly_those_printed(name: str) -> None:
    report = report_on(name)
    found: dict[int | None, dict[str, float]] = {device.index: {} for device in report.devices}
    for item in report.readings:
        if not isinstance(item.value, Absent):
            assert item.device is not None
            found[report.devices[item.device].index][name_of(item)] = item.value
    assert found == NUMBERS[name]


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_devices_are_those_printed(name: str) -> None:
    def shown(device: Device) -> tuple[str | None, str | None, str | None]:
        return device.model, device.bus_id, device.driver

    assert [shown(device) for device in report_on(name).devices] == DEVICES[name]


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_problems_versions_and_unknown_fields(name: str) -> None:
    report = report_on(name)
    assert len(report.problems) == PROBLEMS.get(name, 0)
    assert dict(report.facts).get("tool_version") == TOOL_VERSIONS.get(name)
    assert report.unknown_fields == ()


def test_processes_of_the_busy_container() -> None:
    processes = report_on("default-s80-1.14.0-drv2.7.0-container-busy").processes
    assert [(process.pid, process.memory_used_bytes) for process in processes] == [(120, 2 * MIB), (2022, 1333 * MIB)]
    assert {process.name for process in processes} == {"...ird_party/bin/llama-box/llama-box"}
