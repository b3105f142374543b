"""Maps the labels in all output of xpu-smi to metrics, and determines a device's overall health."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import column, nvidia_smi_columns
from telemetry_parsers.like_nvidia_smi.monitor import NVIDIA_SMI_FIELDS, QueryShape
from telemetry_parsers.like_nvidia_smi.table import CardTableShape
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import ON_OFF, Target, fact, health, identity, metric

_VERSION = re.compile(r"Intel XPU-SMI[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")
TABLE = CardTableShape(
    columns={
        "gpu": column(patterns.ID, identity("index")),
        **nvidia_smi_columns("name", "persistence-m", "bus-id", "disp.a", "volatile uncorr. ecc", "fan", "temp"),
        **nvidia_smi_columns("pwr:usage/cap", "memory-usage", "gpu-util", "compute m."),
    },
    required_headings=frozenset({"gpu", "name", "bus-id", "volatile uncorr. ecc"}),
    banner=_VERSION,
    versions=(("tool_version", _VERSION), ("driver", re.compile(r"Driver:[ \t]{0,8}(\S{1,60})(?=\s)"))),
    wraps_models=True,
    ends_with_processes=True,
)

_ECC = metric("ecc_enabled", words=ON_OFF)
# 1.x prints -1 for an unknown value.
_UNKNOWN = {"-1": Absent.NOT_REPORTED}
_NO_MEMORY = {"0": Absent.NOT_SUPPORTED, "0.00 mib": Absent.NOT_SUPPORTED}
_GENERATION = metric("pcie_link_generation_max", words=_UNKNOWN)
_WIDTH = metric("pcie_link_width_max", words=_UNKNOWN)
# Labels of `discovery`. Its JSON has the same keys with underscores instead of blanks.
_DESCRIPTION_TARGETS: Mapping[str, Target] = {
    "device name": identity("model"),
    "uuid": identity("uuid"),
    "soc uuid": identity("uuid"),
    "serial number": identity("serial"),
    "driver version": identity("driver"),
    "pci bdf address": identity("bus_id"),
    "firmware version": fact("firmware"),
    "gfx firmware version": fact("firmware"),
    "pci slot": fact("slot"),
    "pci device id": fact("device_id"),
    "number of tiles": fact("tiles"),
    "pcie generation": _GENERATION,
    "pcie max link width": _WIDTH,
}
# The labels that are read from `discovery` in 1.x and 2.x.
DISCOVERY: Mapping[str, Target] = {
    **_DESCRIPTION_TARGETS,
    "stepping": fact("stepping"),
    "core clock rate": metric("clock_max_hertz", "graphics"),
    "memory physical size": metric("memory_total_bytes", words=_NO_MEMORY),
    "ecc state": _ECC,
    "local cpu list": fact("cpu_affinity"),
}
IGNORED_DISCOVERY = frozenset(
    {
        "device type", "device state", "vendor name", "sku type", "kernel version", "firmware name", "function type",
        "gfx firmware name", "gfx firmware status", "pcie max bandwidth", "max mem alloc size", "drm device",
        "number of memory channels", "memory bus width", "max hardware contexts", "max command queue priority",
        "number of eus", "number of slices", "number of sub slices per slice", "number of threads per eu",
        "physical eu simd width", "number of media engines", "number of media enhancement engines",
        "number of xe link ports", "max tx/rx speed per xe link port", "number of lanes per xe link port",
        "local cpus", "pcie switch count", "pcie switch", "device id",
    }
)  # fmt: skip

# Maps (section, key) in `config` to metrics.
CONFIG: Mapping[tuple[str, str], Target] = {
    ("", "power limit"): metric("power_cap_watts", unit="W"),
    ("memory ecc", "current"): _ECC,
}
POWER_LIMIT, POWER_RANGE = "power limit", "valid range"
# A range without an upper limit is printed as `1 to 0`.
CAP_RANGE = (
    metric("power_cap_min_watts", unit="W"),
    metric("power_cap_max_watts", unit="W", words={"0": Absent.NOT_SUPPORTED}),
)

_ENGINES = {
    "compute": "compute", "render": "render", "media": "media", "decoder": "decoder", "encoder": "encoder",
    "copy": "copy", "media em": "media_enhancement", "3d": "3d",
}  # fmt: skip
# Labels of `stats` and `dump`, without the unit in brackets at the end.
STATS: Mapping[str, Target] = {
    "average % utilization of": metric("utilization_ratio", unit="%"),
    "average % utilization of all gpu engines": metric("utilization_ratio", unit="%"),
    "gpu utilization": metric("utilization_ratio", unit="%"),
    **{
        f"{name} engine {word}": metric("engine_utilization_ratio", label, unit="%")
        for name, label in _ENGINES.items()
        for word in ("util", "utilization")
    },
    "cache errors correctable": metric("ecc_corrected_total", "cache"),
    "cache errors uncorrectable": metric("ecc_uncorrected_total", "cache"),
    "mem errors correctable": metric("ecc_corrected_total", "memory"),
    "mem errors uncorrectable": metric("ecc_uncorrected_total", "memory"),
    "gpu power": metric("power_watts", unit="W"),
    "gpu energy consumed": metric("energy_joules_total", unit="J"),
    "gpu frequency": metric("clock_hertz", "graphics", unit="MHz"),
    "media engine freq": metric("clock_hertz", "video", unit="MHz"),
    "media engine frequency": metric("clock_hertz", "video", unit="MHz"),
    "gpu core temperature": metric("temperature_celsius", "core", unit="C"),
    "gpu memory temperature": metric("temperature_celsius", "memory", unit="C"),
    "gpu memory bandwidth": metric("memory_bandwidth_ratio", unit="%"),
    "gpu memory bandwidth utilization": metric("memory_bandwidth_ratio", unit="%"),
    "gpu memory used": metric("memory_used_bytes", unit="MiB"),
    "gpu memory util": metric("memory_used_ratio", unit="%"),
    "gpu memory utilization": metric("memory_used_ratio", unit="%"),
}
# Maps each documented unit to the printed units. "" stands for a label without a unit.
STATS_UNITS: Mapping[str, frozenset[str]] = {
    "%": frozenset({"%", ""}),
    "W": frozenset({"w", ""}),
    "J": frozenset({"j"}),
    "MHz": frozenset({"mhz"}),
    "C": frozenset({"c", "celsius degree", "celsius"}),
    "MiB": frozenset({"mib"}),
    "": frozenset({""}),
}
IGNORED_STATS = frozenset(
    {
        "timestamp", "deviceid", "tileid", "all gpu engines", "eu array active", "eu array stall", "eu array idle",
        "gpu eu array active", "gpu eu array stall", "gpu eu array idle", "reset counter", "reset", "programming errors", "driver errors", "gpu memory read", "gpu memory write", "xe link throughput",
        "start time", "end time", "elapsed time", "pcie read", "pcie write", "device id",
    }
)  # fmt: skip
# Maps (item, key) in `health` to metrics.
HEALTH: Mapping[tuple[str, str], Target] = {
    ("gpu core temperature", "throttle threshold"): metric("temperature_slowdown_celsius", "core", unit="C"),
    ("gpu core temperature", "shutdown threshold"): metric("temperature_shutdown_celsius", "core", unit="C"),
    ("gpu memory temperature", "throttle threshold"): metric("temperature_slowdown_celsius", "memory", unit="C"),
    ("gpu memory temperature", "shutdown threshold"): metric("temperature_shutdown_celsius", "memory", unit="C"),
}
HEALTHY_STATES = frozenset({"ok", "unknown", "not supported", "n/a", ""})
_MISSING_STATES = frozenset({"not supported", "n/a", ""})
_STATES_WORST_FIRST = ("critical", "warning", "unknown", "ok")
HEALTH_STATE = health({state: state for state in _STATES_WORST_FIRST})
# The item numbers in `health`, from 1 (core temperature) to 6 (frequency).
_HEALTH_ITEMS = frozenset({"1", "2", "3", "4", "5", "6"})
# Maps each component in `health -j` to (its item number in `health`, the sensor of its thresholds).
HEALTH_JSON: Mapping[str, tuple[str, str]] = {
    "core_temperature": ("1", "core"),
    "memory_temperature": ("2", "memory"),
    "power": ("3", ""),
    "memory": ("4", ""),
    "fabric_port": ("5", ""),
    "xe_link_port": ("5", ""),
    "frequency": ("6", ""),
}
THRESHOLDS: Mapping[str, Mapping[str, Target]] = {
    sensor: {
        "throttle_threshold": metric("temperature_slowdown_celsius", sensor, unit="C", words=_UNKNOWN),
        "shutdown_threshold": metric("temperature_shutdown_celsius", sensor, unit="C", words=_UNKNOWN),
    }
    for sensor in ("core", "memory")
}
# Keys of `discovery -j`, which lists all devices or describes one device.
JSON_KEYS: Mapping[str, Target] = {
    "device_id": identity("index"),
    "device_stepping": fact("stepping"),
    "core_clock_rate_mhz": metric("clock_max_hertz", "graphics", unit="MHz"),
    **{label.replace(" ", "_"): target for label, target in _DESCRIPTION_TARGETS.items()},
    "memory_physical_size_byte": metric("memory_total_bytes", unit="B", words=_NO_MEMORY),
    "memory_ecc_state": _ECC,
}
IGNORED_JSON_KEYS = frozenset(
    {
        "device_type", "vendor_name", "device_function_type", "drm_device", "function_type", "device_state", "sku_type",
        "kernel_version", "pci_vendor_id", "pci_sub_device_id", "pcie_max_bandwidth", "max_command_queue_priority",
        "max_hardware_contexts", "max_mem_alloc_size_byte", "memory_bus_width", "memory_free_size_byte",
        "number_of_memory_channels", "number_of_eus", "number_of_slices", "number_of_sub_slices_per_slice",
        "number_of_threads_per_eu", "physical_eu_simd_width", "number_of_media_engines",
        "number_of_media_enh_engines", "gfx_firmware_name", "gfx_firmware_status", "gfx_data_firmware_name",
        "gfx_data_firmware_version", "gfx_pscbin_firmware_name", "gfx_pscbin_firmware_version", "amc_firmware_name",
        "amc_firmware_version", "number_of_fabric_ports", "max_fabric_port_speed", "number_of_lanes_per_fabric_port",
    }
)  # fmt: skip

# Counters of `stats -j`, without the prefix `XPUM_STATS_` of their names.
STATS_PREFIX = "XPUM_STATS_"
STATS_JSON: Mapping[str, Target] = {
    "POWER": metric("power_watts", unit="W"),
    "GPU_UTILIZATION": metric("utilization_ratio", unit="%"),
    "GPU_FREQUENCY": metric("clock_hertz", "graphics", unit="MHz"),
    "MEDIA_ENGINE_FREQUENCY": metric("clock_hertz", "video", unit="MHz"),
    "GPU_CORE_TEMPERATURE": metric("temperature_celsius", "core", unit="C"),
    "MEMORY_TEMPERATURE": metric("temperature_celsius", "memory", unit="C"),
    "MEMORY_UTILIZATION": metric("memory_used_ratio", unit="%"),
    "MEMORY_BANDWIDTH": metric("memory_bandwidth_ratio", unit="%"),
    **{
        f"ENGINE_GROUP_{name}_ALL_UTILIZATION": metric("engine_utilization_ratio", name.lower(), unit="%")
        for name in ("COMPUTE", "MEDIA", "COPY", "RENDER", "3D")
    },
    "RAS_ERROR_CAT_CACHE_ERRORS_CORRECTABLE": metric("ecc_corrected_total", "cache"),
    "RAS_ERROR_CAT_CACHE_ERRORS_UNCORRECTABLE": metric("ecc_uncorrected_total", "cache"),
    "RAS_ERROR_CAT_NON_COMPUTE_ERRORS_CORRECTABLE": metric("ecc_corrected_total", "memory"),
    "RAS_ERROR_CAT_NON_COMPUTE_ERRORS_UNCORRECTABLE": metric("ecc_uncorrected_total", "memory"),
}
# The command prints MEMORY_USED in MiB, the service in bytes. A number between the two limits is ambiguous.
MEMORY_USED = "MEMORY_USED"
MAX_MEBIBYTES, MIN_BYTES = 1 << 18, 1 << 24
ENGINE_KINDS = frozenset(_ENGINES.values())

# Fields of `--query-gpu` and, in 2.x, of `dump`. The units of bare numbers are from the tool's documentation.
# `utilization.memory` is a share of time in one document and a share of memory in another.
QUERY = QueryShape(
    fields={
        **NVIDIA_SMI_FIELDS,
        "deviceid": identity("index"),
        "vbios_version": fact("firmware"),
        "pci.device_id": fact("device_id"),
        "power.draw": metric("power_watts", unit="W"),
        "power.limit": metric("power_cap_watts", unit="W"),
        "power.max_limit": metric("power_cap_max_watts", unit="W"),
        "energy.consumed": metric("energy_joules_total", unit="J"),
        "utilization.gpu": metric("utilization_ratio", unit="%"),
        **{
            f"utilization.{name}": metric("engine_utilization_ratio", name, unit="%")
            for name in ("compute", "render", "media", "copy")
        },
        "memory.total": metric("memory_total_bytes", unit="MiB"),
        "memory.used": metric("memory_used_bytes", unit="MiB"),
        "memory.free": metric("memory_free_bytes", unit="MiB"),
        "memory.bandwidth.utilization": metric("memory_bandwidth_ratio", unit="%"),
        **{
            f"clocks.{clock_kind}.{name}": metric(key, domain, unit="MHz")
            for clock_kind, key in (("current", "clock_hertz"), ("max", "clock_max_hertz"))
            for name, domain in (("graphics", "graphics"), ("sm", "graphics"), ("media", "video"), ("video", "video"))
        },
        "pcie.link.gen.max": _GENERATION,
        "pcie.link.gen.current": metric("pcie_link_generation", words=_UNKNOWN),
        "pcie.link.width.max": _WIDTH,
        "pcie.link.width.current": metric("pcie_link_width", words=_UNKNOWN),
        "pcie.replay.counter": metric("pcie_replays_total"),
        "ecc.mode.current": _ECC,
        "ras.cache.errors.correctable": metric("ecc_corrected_total", "cache"),
        "ras.cache.errors.uncorrectable": metric("ecc_uncorrected_total", "cache"),
        "ras.non_compute.errors.correctable": metric("ecc_corrected_total", "memory"),
        "ras.non_compute.errors.uncorrectable": metric("ecc_uncorrected_total", "memory"),
        "fan.speed": metric("fan_ratio", unit="%"),
    },
    ignored=frozenset(
        {
            "timestamp", "pci.sub_device_id", "power.draw.gpu", "utilization.memory", "memory.read.bandwidth",
            "memory.write.bandwidth", "clocks.throttle.reason", "pcie.tx.throughput", "pcie.rx.throughput",
            "pcie.tx.throughput.kbs", "pcie.rx.throughput.kbs", "ecc.errors.corrected.aggregate.total",
            "ecc.errors.uncorrected.aggregate.total", "ecc.errors.aggregate.total", "ras.reset",
            "ras.programming.errors", "ras.driver.errors", "ras.non_compute.errors.total", "eu.active", "eu.stall",
            "eu.idle",
        }
    ),
)  # fmt: skip


def store_health(draft: Draft, device: int, states_by_item: Mapping[str, str]) -> None:
    """Store the worst state as the device's health, unless an item or all states are missing."""
    known_states = [state for state in states_by_item.values() if state not in _MISSING_STATES]
    if _HEALTH_ITEMS - set(states_by_item) or not known_states or not set(known_states) <= set(_STATES_WORST_FIRST):
        return
    worst_state = min(known_states, key=_STATES_WORST_FIRST.index)
    draft.store(device, (HEALTH_STATE,), worst_state, "health")
