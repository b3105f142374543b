"""AMD's and Hygon's cards through the files of their drivers."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Absent, Capture, Device, Output, Report
from telemetry_parsers.reports.draft import LOUD, Draft
from telemetry_parsers.text.answers import failed, not_read
from telemetry_parsers.vendors.amd import VENDOR
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_cards
from telemetry_parsers.vendors.amd.amdgpu_sysfs.kfd import read_nodes, read_processes
from telemetry_parsers.vendors.amd.amdgpu_sysfs.polls import POLLS
from telemetry_parsers.vendors.amd.amdgpu_sysfs.saved import files_in
from telemetry_parsers.vendors.amd.amdgpu_sysfs.topology import cut_off, nodes_of
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import tree_of

SOURCE = "amdgpu-sysfs"


def parse(capture: Capture) -> Report:
    """The report of the drivers' files: devices and readings, or the reason why there are none."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    outputs = files_in(capture.outputs, SOURCE)
    return outputs if isinstance(outputs, Report) else _report_on(outputs)


def _report_on(outputs: Sequence[Output]) -> Report:
    tree, draft = tree_of(outputs), Draft("amd")
    nodes = nodes_of(tree)
    awake = read_cards(tree, draft)
    read_nodes(nodes, awake, draft)
    read_processes(tree, nodes, draft)
    forbidden = [output for output in outputs if output.status in (errno.EPERM, errno.EACCES)]
    if not draft.size() and forbidden:
        return failed("no_permission", forbidden[0].name, "may not be read; run it as a user who may read /sys")
    for position, device in enumerate(draft.devices()):
        _complain_of_numbers(draft, position, device)
    draft.problems += cut_off(tree)
    report = draft.report("data")
    # KFD adds to cards that were read before.
    return replace(report, readings=tuple(sorted(report.readings, key=lambda item: item.device or 0)))


def _complain_of_numbers(draft: Draft, position: int, device: Device) -> None:
    """Report the readings of a device that make no sense, once no other file can give them."""
    name = device.bus_id or (f"card{device.index}" if device.index is not None else "card")
    for item in draft.readings_of(position):
        if isinstance(item.value, Absent) and item.value in LOUD:
            where = f"{name} {item.metric} {item.label}".rstrip()
            draft.complain(where, f"what the driver says is {item.value.value}")


PARSER = SourceParser(
    name=SOURCE,
    vendor=VENDOR.word,
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
    polls=POLLS,
    parse=parse,
)  # fmt: skip
