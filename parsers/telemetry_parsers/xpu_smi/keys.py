"""What Intel's labels mean, in the table of 2.x, the grids of 1.x, its CSV and its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import QUIET, Column, column
from telemetry_parsers.boxed.table import Box
from telemetry_parsers.boxed.targets import ON_OFF, Target, fact, health, identity, metric
from telemetry_parsers.model import Absent

TOOL = "xpu-smi"
VENDOR = "intel"

_NO_ECC = {"disabled": Absent.NOT_SUPPORTED, "off": Absent.NOT_SUPPORTED}
_COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "gpu": column(look.ID, identity("index")),
        "name": column(look.NAME, identity("model")),
        "persistence-m": QUIET,
        "bus-id": column(look.BUS, identity("bus_id")),
        "disp.a": QUIET,
        "volatile uncorr. ecc": column(look.COUNT, metric("ecc_uncorrected_total", "all", words=_NO_ECC)),
        "fan": column(look.PERCENT, metric("fan_ratio")),
        "temp": column(look.CELSIUS, metric("temperature_celsius", "core")),
        "pwr:usage/cap": column(look.WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
        "memory-usage": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
        "gpu-util": column(look.PERCENT, metric("utilization_ratio")),
        "compute m.": column(look.NAME, fact("compute_mode")),
    }
)
_VERSION = re.compile(r"Intel XPU-SMI[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")
BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"gpu", "name", "bus-id", "volatile uncorr. ecc"}),
    banner=_VERSION,
    versions=(("tool_version", _VERSION), ("driver", re.compile(r"Driver:[ \t]{0,8}(\S{1,60})(?=\s)"))),
)

_ECC = metric("ecc_enabled", words=ON_OFF)
# `discovery`: labels of 1.x and, renamed, of 2.x. The speed and the width of the link are the highest it can have.
DISCOVERY: Mapping[str, Target] = MappingProxyType(
    {
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
        "stepping": fact("stepping"),
        "number of tiles": fact("tiles"),
        "core clock rate": metric("clock_max_hertz", "graphics"),
        "pcie generation": metric("pcie_link_generation_max"),
        "pcie max link width": metric("pcie_link_width_max"),
        "memory physical size": metric("memory_total_bytes"),
        "ecc state": _ECC,
        "local cpu list": fact("cpu_affinity"),
    }
)
QUIET_DISCOVERY = frozenset(
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

# `config`, by section and key.
CONFIG: Mapping[tuple[str, str], Target] = MappingProxyType(
    {("", "power limit"): metric("power_cap_watts", unit="W"), ("memory ecc", "current"): _ECC}
)
POWER_LIMIT, POWER_RANGE = "power limit", "valid range"
CAP_RANGE = (metric("power_cap_min_watts", unit="W"), metric("power_cap_max_watts", unit="W"))

# `stats` and `dump`, without the unit in brackets behind the name.
_ENGINES = {
    "compute": "compute", "render": "render", "media": "media", "decoder": "decoder", "encoder": "encoder",
    "copy": "copy", "media em": "media_enhancement", "3d": "3d",
}  # fmt: skip
STATS: Mapping[str, Target] = MappingProxyType(
    {
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
)
# The unit that a name must have for its number to be read; without one in brackets it is the tool's own.
STATS_UNITS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "%": frozenset({"%", ""}),
        "W": frozenset({"w", ""}),
        "J": frozenset({"j"}),
        "MHz": frozenset({"mhz"}),
        "C": frozenset({"c", "celsius degree", "celsius"}),
        "MiB": frozenset({"mib"}),
        "": frozenset({""}),
    }
)
QUIET_STATS = frozenset(
    {
        "timestamp", "deviceid", "tileid", "all gpu engines", "eu array active", "eu array stall", "eu array idle",
        "gpu eu array active", "gpu eu array stall", "gpu eu array idle", "reset counter", "reset", "programming errors", "driver errors", "gpu memory read", "gpu memory write", "xe link throughput",
        "start time", "end time", "elapsed time", "pcie read", "pcie write", "device id",
    }
)  # fmt: skip
# `health`, by the name of the item and the key.
HEALTH: Mapping[tuple[str, str], Target] = MappingProxyType(
    {
        ("gpu core temperature", "throttle threshold"): metric("temperature_slowdown_celsius", "core", unit="C"),
        ("gpu core temperature", "shutdown threshold"): metric("temperature_shutdown_celsius", "core", unit="C"),
        ("gpu memory temperature", "throttle threshold"): metric("temperature_slowdown_celsius", "memory", unit="C"),
        ("gpu memory temperature", "shutdown threshold"): metric("temperature_shutdown_celsius", "memory", unit="C"),
    }
)
HEALTHY = frozenset({"ok", "unknown", "not supported", "n/a", ""})
NO_STATE = frozenset({"not supported", "n/a", ""})
STATES_WORST_FIRST = ("critical", "warning", "unknown", "ok")
HEALTH_STATE = health({state: state for state in STATES_WORST_FIRST})
# Temperatures of core and memory, power, memory, Xe Link ports, frequency.
HEALTH_ITEMS = frozenset({"1", "2", "3", "4", "5", "6"})
# `discovery -j`.
JSON_KEYS: Mapping[str, Target] = MappingProxyType(
    {
        "device_id": identity("index"),
        "device_name": identity("model"),
        "pci_bdf_address": identity("bus_id"),
        "uuid": identity("uuid"),
        "soc_uuid": identity("uuid"),
        "serial_number": identity("serial"),
        "driver_version": identity("driver"),
        "pci_device_id": fact("device_id"),
    }
)
QUIET_JSON = frozenset({"device_type", "vendor_name", "device_function_type", "drm_device", "function_type"})
