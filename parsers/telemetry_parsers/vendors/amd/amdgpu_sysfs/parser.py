"""Polls and parses the files of AMD's and Hygon's drivers."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Absent, Capture, Device, Files, Output, Poll, Report
from telemetry_parsers.reports.draft import REPORTED_ABSENCES, Draft
from telemetry_parsers.text.answers import failed, reader_failure
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_cards
from telemetry_parsers.vendors.amd.amdgpu_sysfs.saved import files_in
from telemetry_parsers.vendors.amd.amdgpu_sysfs.topology import node_problems, parse_nodes, read_nodes, read_processes
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import VENDORS_BY_DRIVER, build_tree

_KFD = "/sys/class/kfd/kfd"
_NODE = f"{_KFD}/topology/nodes/*"
_PROCESSES = (f"{_KFD}/proc", f"{_KFD}/proc/*/vram_*")
# Only `runtime_status` of a sleeping card is opened, because reading other files would wake the card.
_SKIP_WHEN_SUSPENDED = (("power/runtime_status", "suspended"),)
# The file `pcie_bw` is omitted, because reading it takes a second.
_FAST_FILES = (
    "vendor", "device", "product_name", "unique_id", "power/runtime_status", "gpu_busy_percent", "mem_busy_percent",
    "mem_info_vram_total", "mem_info_vram_used", "mem_info_gtt_total", "mem_info_gtt_used", "chip_power_average", "pp_dpm_sclk", "pp_dpm_mclk", "pp_dpm_socclk",
    "pp_dpm_fclk", "pp_dpm_vclk", "power_dpm_force_performance_level", "hwmon/hwmon*/temp*_input",
    "hwmon/hwmon*/temp*_label", "hwmon/hwmon*/temp*_crit", "hwmon/hwmon*/temp*_emergency",
    "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input", "hwmon/hwmon*/power1_cap",
    "hwmon/hwmon*/power1_cap_default", "hwmon/hwmon*/power1_cap_max", "hwmon/hwmon*/power1_cap_min",
    "hwmon/hwmon*/freq*_input", "hwmon/hwmon*/in*_input", "hwmon/hwmon*/in*_label", "hwmon/hwmon*/fan1_input",
    "hwmon/hwmon*/fan1_max", "hwmon/hwmon*/pwm1", "hwmon/hwmon*/pwm1_max",
)  # fmt: skip
_SLOW_FILES = (
    "vendor", "ras/*_err_count", "ras/features", "ras/gpu_vram_bad_pages", "pcie_replay_count", "current_link_speed",
    "current_link_width", "max_link_speed", "max_link_width",
)  # fmt: skip
# The driver caches the contents of these files, so reading them does not wake a sleeping card.
_INVENTORY_FILES = (
    "vendor", "device", "product_name", "unique_id", "serial_number", "vbios_version", "numa_node",
    "current_compute_partition", "current_memory_partition",
)  # fmt: skip


def _card_paths(*names: str) -> tuple[str, ...]:
    return tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*/{name}" for driver in VENDORS_BY_DRIVER for name in names)


def _node_paths(*names: str) -> tuple[str, ...]:
    return tuple(f"{_NODE}/{name}" for name in names)


_POLLS = (
    Poll(
        name="readings",
        request=Files(
            globs=(*_card_paths(*_FAST_FILES), *_node_paths("properties")),
            links=tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*" for driver in VENDORS_BY_DRIVER),
            binary=_card_paths("gpu_metrics"),
            skip_when=_SKIP_WHEN_SUSPENDED,
        ),
        interval=2.0,
        deadline=2.0,
    ),
    Poll(
        name="links",
        request=Files(globs=_card_paths(*_SLOW_FILES), skip_when=_SKIP_WHEN_SUSPENDED),
        tier="slow",
        interval=60.0,
        deadline=5.0,
        lists_devices=False,
    ),
    Poll(
        name="processes",
        # The processes folder itself is requested, because an empty folder means 0 processes.
        # Files named `vendor` show which cards have driver files. Other cards are read from KFD.
        request=Files(globs=(*_card_paths("vendor"), *_node_paths("gpu_id", "properties"), *_PROCESSES)),
        tier="slow",
        interval=60.0,
        deadline=5.0,
        lists_devices=False,
    ),
    Poll(
        name="facts",
        request=Files(
            globs=(
                *_card_paths(*_INVENTORY_FILES),
                *_node_paths("gpu_id", "properties", "mem_banks/*/properties"),
                *(f"/sys/module/{driver}/version" for driver in VENDORS_BY_DRIVER),
            )
        ),
        tier="inventory",
        interval=300.0,
        deadline=5.0,
        lists_devices=False,
    ),
)

SOURCE = "amdgpu-sysfs"


def parse(capture: Capture) -> Report:
    """Return the report on the drivers' files."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    result = files_in(capture.outputs, SOURCE)
    return result if isinstance(result, Report) else _report_on(result)


def _report_on(outputs: Sequence[Output]) -> Report:
    tree, draft = build_tree(outputs), Draft("amd")
    nodes = parse_nodes(tree)
    awake_cards = read_cards(tree, draft)
    read_nodes(nodes, awake_cards, draft)
    read_processes(tree, nodes, draft)
    forbidden = [output for output in outputs if output.status in (errno.EPERM, errno.EACCES)]
    if not draft.device_count() and forbidden:
        return failed("no_permission", forbidden[0].name, "no permission; run the command as a user who may read /sys")
    for position, device in enumerate(draft.devices()):
        _report_bad_readings(draft, position, device)
    draft.problems += node_problems(tree)
    report = draft.report("data")
    # Readings from KFD were appended at the end, so all readings are sorted by device.
    return replace(report, readings=tuple(sorted(report.readings, key=lambda item: item.device or 0)))


def _report_bad_readings(draft: Draft, position: int, device: Device) -> None:
    name = device.bus_id or (f"card{device.index}" if device.index is not None else "card")
    for item in draft.readings_of(position):
        if isinstance(item.value, Absent) and item.value in REPORTED_ABSENCES:
            where = f"{name} {item.metric} {item.label}".rstrip()
            draft.add_problem(where, f"the driver's value is {item.value.value}")


PARSER = SourceParser(
    name=SOURCE,
    vendor="amd",
    gives=(
        "suspended", "temperature_celsius", "temperature_critical_celsius", "temperature_shutdown_celsius", "power_watts",
        "power_average_watts", "power_instant_watts", "power_cap_watts", "power_cap_default_watts", "power_cap_max_watts",
        "power_cap_min_watts", "energy_joules_total", "memory_used_bytes", "memory_total_bytes", "memory_activity_ratio",
        "utilization_ratio", "engine_utilization_ratio", "clock_hertz", "clock_max_hertz", "throttled", "fan_ratio",
        "fan_rpm", "voltage_volts", "memory_gtt_total_bytes", "memory_gtt_used_bytes", "ecc_deferred_total",
        "performance_level", "pcie_link_generation", "pcie_link_generation_max", "pcie_link_width",
        "pcie_link_width_max", "pcie_replays_total", "ecc_enabled", "ecc_corrected_total", "ecc_uncorrected_total",
        "retired_pages", "retired_pages_pending", "compute_units", "processes",
    ),
    polls=_POLLS,
    parse=parse,
)  # fmt: skip
