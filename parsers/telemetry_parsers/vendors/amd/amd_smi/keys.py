"""The keys that amd-smi prints, of all versions: what each gives, and which are known to give nothing.

Keys are in lower case without blanks, ordinals are `#`; the names of monitor's columns are those of its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers.metrics import BOARD_SENSORS
from telemetry_parsers.model import Value
from telemetry_parsers.vendors.amd.amd_smi import values
from telemetry_parsers.vendors.amd.amd_smi.blocks import Path
from telemetry_parsers.vendors.amd.amd_smi.words import active, enabled, generation, throttled


@dataclass(frozen=True, slots=True)
class Field:
    """The metric that a key gives.

    Of several that are `many`, the highest counts; one that is `spare` counts only where no other gives a number.
    """

    metric: str
    read: Callable[[str], Value]
    label: str = ""
    many: bool = False
    spare: bool = False


_USAGE = {
    "gfx_activity": Field("utilization_ratio", values.ratio),
    "gfx_usage": Field("utilization_ratio", values.ratio),
    "umc_activity": Field("memory_activity_ratio", values.ratio),
    "mem_usage": Field("memory_activity_ratio", values.ratio),
    "mm_activity": Field("engine_utilization_ratio", values.ratio, "multimedia"),
    "mm_usage": Field("engine_utilization_ratio", values.ratio, "multimedia"),
    "vcn_activity": Field("engine_utilization_ratio", values.ratio, "vcn", many=True),
    "jpeg_activity": Field("engine_utilization_ratio", values.ratio, "jpeg", many=True),
    # Of processors with graphics, since 7.14: for those that leave the figures above out.
    "apu_average_gfx_activity": Field("utilization_ratio", values.ratio, spare=True),
    "apu_average_vcn_activity": Field("engine_utilization_ratio", values.ratio, "vcn", spare=True),
    "apu_average_mm_activity": Field("engine_utilization_ratio", values.ratio, "multimedia", spare=True),
}
_POWER = {
    "socket_power": (Field("power_watts", values.watts),),
    "current_socket_power": (Field("power_instant_watts", values.watts), Field("power_watts", values.watts)),
    "average_socket_power": (
        Field("power_average_watts", values.watts),
        Field("power_watts", values.watts, spare=True),
    ),
    "current_power": (Field("power_watts", values.watts),),
    "apu_average_socket_power": (
        Field("power_average_watts", values.watts, spare=True),
        Field("power_watts", values.watts, spare=True),
    ),
    "throttle_status": (Field("throttled", throttled, "any"),),
}
_SENSORS = {
    "edge": "edge",
    "hotspot": "junction",
    "junction": "junction",
    "mem": "memory",
    "vram": "memory",
    "edge_temperature": "edge",
    "hotspot_temperature": "junction",
    "junction_temperature": "junction",
    "mem_temperature": "memory",
    "vram_temperature": "memory",
    "apu_temperature_soc": "soc",
}
_DOMAINS = {
    "gfx_#": "graphics",
    "gfx": "graphics",
    "mem_#": "memory",
    "mem": "memory",
    "vclk_#": "video",
    "fclk_#": "fabric",
    "fclk": "fabric",
    "df": "fabric",
    "socclk_#": "soc",
    "soc": "soc",
}
_LEVEL_DOMAINS = {"sys": "graphics", "mem": "memory", "vclk_#": "video", "df": "fabric", "soc": "soc"}
_LIMITS = {
    "max_power": Field("power_cap_max_watts", values.cap),
    "min_power": Field("power_cap_min_watts", values.watts),
    "socket_power": Field("power_cap_watts", values.cap),
    "current_power": Field("power_cap_watts", values.cap),
    "power": Field("power_cap_watts", values.cap),
}
# 7.x prints a set of limits for each package power tracker; the first is that of the sustained power.
_PPT = {
    "max_power_limit": Field("power_cap_max_watts", values.cap),
    "min_power_limit": Field("power_cap_min_watts", values.watts),
    "socket_power_limit": Field("power_cap_watts", values.cap),
}
_RAILS = {"gfx_voltage": "graphics", "soc_voltage": "soc", "mem_voltage": "memory"}
# Monitor's columns, by the reasons that `metric --throttle` names.
_VIOLATIONS = {
    "pviol": "ppt",
    "tviol": "socket_thermal",
    "phot_tviol": "prochot",
    "vr_tviol": "vr_thermal",
    "hbm_tviol": "hbm_thermal",
    "gfx_clkviol": "gfx_clk_below_host_limit",
}
_LIMIT_SENSORS = {"edge": "edge", "hotspot": "junction", "junction": "junction", "vram": "memory", "mem": "memory"}
_MONITOR = {
    "power_usage": Field("power_watts", values.watts),
    # The column PWR_CAP, which AMD's change log calls the power cap; today's source fills it with the cap in force.
    "max_power": Field("power_cap_watts", values.cap),
    "gpu_temperature": Field("temperature_celsius", values.celsius, "core"),
    "edge_temperature": Field("temperature_celsius", values.celsius, "edge"),
    "hotspot_temperature": Field("temperature_celsius", values.celsius, "junction"),
    "memory_temperature": Field("temperature_celsius", values.celsius, "memory"),
    "gfx": Field("utilization_ratio", values.ratio),
    "gfx_util": Field("utilization_ratio", values.ratio),
    "gfx_clk": Field("clock_hertz", values.hertz, "graphics"),
    "gfx_clock": Field("clock_hertz", values.hertz, "graphics"),
    "mem": Field("memory_activity_ratio", values.ratio),
    "mem_util": Field("memory_activity_ratio", values.ratio),
    "mem_clk": Field("clock_hertz", values.hertz, "memory"),
    "mem_clock": Field("clock_hertz", values.hertz, "memory"),
    "encoder": Field("engine_utilization_ratio", values.ratio, "encoder"),
    "enc_util": Field("engine_utilization_ratio", values.ratio, "encoder"),
    "decoder": Field("engine_utilization_ratio", values.ratio, "decoder"),
    "dec_util": Field("engine_utilization_ratio", values.ratio, "decoder"),
    "vclock": Field("clock_hertz", values.hertz, "video"),
    "encoder_clock": Field("clock_hertz", values.hertz, "video"),
    "enc_clock": Field("clock_hertz", values.hertz, "video"),
    "single_bit_ecc": Field("ecc_corrected_total", values.count, "all"),
    "double_bit_ecc": Field("ecc_uncorrected_total", values.count, "all"),
    "pcie_replay": Field("pcie_replays_total", values.count),
    "pcie_bw": Field("pcie_bandwidth_bytes_per_second", values.megabits),
    "tviol_active": Field("throttled", active, "socket_thermal", many=True),
    **{column: Field("throttled", values.above_zero, reason, many=True) for column, reason in _VIOLATIONS.items()},
    "gtt_used": Field("memory_gtt_used_bytes", values.size),
    "gtt_total": Field("memory_gtt_total_bytes", values.size),
    "vram_used": Field("memory_used_bytes", values.size),
    "vram_free": Field("memory_free_bytes", values.size),
    "vram_total": Field("memory_total_bytes", values.size),
}
# Of the overview, as a box or as JSON; its temperature is the hotspot's, or the edge's where that is not told.
_OVERVIEW: Mapping[Path, Field] = MappingProxyType(
    {
        ("temp",): Field("temperature_celsius", values.celsius, "core"),
        ("power_usage", "current_power"): Field("power_watts", values.watts),
        ("power_usage", "power_limit"): Field("power_cap_watts", values.cap),
        ("uncorr_ecc",): Field("ecc_uncorrected_total", values.count, "all"),
        ("fan",): Field("fan_ratio", values.ratio),
    }
)


def _clocks() -> dict[Path, tuple[Field, ...]]:
    found: dict[Path, tuple[Field, ...]] = {}
    for name, domain in _DOMAINS.items():
        now = (Field("clock_hertz", values.hertz, domain, many=True),)
        found |= {("clock", name, key): now for key in ("clk", "cur_clk", "current_clk")}
        found["clock", name, "max_clk"] = (Field("clock_max_hertz", values.highest_hertz, domain, many=True),)
    for name, domain in _LEVEL_DOMAINS.items():
        found["clock", name, "frequency_levels", "level_#"] = (
            Field("clock_max_hertz", values.highest_hertz, domain, many=True),
        )
    return found


def _limits() -> dict[Path, tuple[Field, ...]]:
    found: dict[Path, tuple[Field, ...]] = {("limit", key): (field,) for key, field in _LIMITS.items()}
    found |= {("limit", "ppt0", key): (field,) for key, field in _PPT.items()}
    for name, sensor in _LIMIT_SENSORS.items():
        for kind in ("slowdown", "shutdown"):
            field = Field(f"temperature_{kind}_celsius", values.celsius, sensor)
            found["limit", f"{kind}_{name}_temperature"] = (field,)
        found["limit", f"temperature_{name}"] = (Field("temperature_critical_celsius", values.celsius, sensor),)
    return found


FIELDS: Mapping[Path, tuple[Field, ...]] = MappingProxyType(
    {
        **{("usage", key): (field,) for key, field in _USAGE.items()},
        # Of cards without partitions, since 7.14: one figure.
        ("usage", "vcn_busy"): (Field("engine_utilization_ratio", values.ratio, "vcn", spare=True),),
        ("usage", "vcn_busy", "xcp_#"): (
            Field("engine_utilization_ratio", values.ratio, "vcn", many=True, spare=True),
        ),
        ("usage", "jpeg_busy", "xcp_#"): (
            Field("engine_utilization_ratio", values.ratio, "jpeg", many=True, spare=True),
        ),
        **{("power", key): fields for key, fields in _POWER.items()},
        **_clocks(),
        **{
            ("temperature", key): (Field("temperature_celsius", values.celsius, sensor),)
            for key, sensor in _SENSORS.items()
        },
        **_limits(),
        ("pcie", "width"): (Field("pcie_link_width", values.count),),
        ("pcie", "current_lanes"): (Field("pcie_link_width", values.count),),
        ("pcie", "speed"): (Field("pcie_link_generation", values.pcie_speed),),
        ("pcie", "current_speed"): (Field("pcie_link_generation", values.pcie_speed),),
        ("bus", "max_pcie_speed"): (Field("pcie_link_generation_max", values.pcie_speed, spare=True),),
        ("pcie", "replay_count"): (Field("pcie_replays_total", values.count),),
        ("pcie", "nak_sent_count"): (Field("pcie_errors_total", values.count, "nak_sent"),),
        ("pcie", "nak_received_count"): (Field("pcie_errors_total", values.count, "nak_received"),),
        ("pcie", "l0_to_recovery_count"): (Field("pcie_errors_total", values.count, "l0_to_recovery"),),
        ("pcie", "replay_roll_over_count"): (Field("pcie_errors_total", values.count, "replay_rollover"),),
        ("pcie", "bandwidth"): (Field("pcie_bandwidth_bytes_per_second", values.megabits),),
        ("pcie", "current_bandwidth_sent"): (Field("pcie_transmit_bytes_per_second", values.megabits),),
        ("pcie", "current_bandwidth_received"): (Field("pcie_receive_bytes_per_second", values.megabits),),
        ("bus", "max_pcie_width"): (Field("pcie_link_width_max", values.count),),
        ("bus", "max_pcie_lanes"): (Field("pcie_link_width_max", values.count),),
        ("bus", "pcie_interface_version"): (Field("pcie_link_generation_max", generation),),
        ("ecc", "total_correctable_count"): (Field("ecc_corrected_total", values.count, "all"),),
        ("ecc", "total_uncorrectable_count"): (Field("ecc_uncorrected_total", values.count, "all"),),
        ("ecc", "total_deferred_count"): (Field("ecc_deferred_total", values.count, "all"),),
        ("ecc", "cache_correctable_count"): (Field("ecc_corrected_total", values.count, "cache"),),
        ("ecc", "cache_uncorrectable_count"): (Field("ecc_uncorrected_total", values.count, "cache"),),
        **{("power", key): (Field("voltage_volts", values.volts, rail),) for key, rail in _RAILS.items()},
        ("fan", "rpm"): (Field("fan_rpm", values.rpm),),
        ("fan", "usage"): (Field("fan_ratio", values.ratio),),
        ("energy", "total_energy_consumption"): (Field("energy_joules_total", values.joules),),
        ("mem_usage", "total_vram"): (Field("memory_total_bytes", values.mebibytes),),
        ("mem_usage", "used_vram"): (Field("memory_used_bytes", values.mebibytes),),
        ("mem_usage", "free_vram"): (Field("memory_free_bytes", values.mebibytes),),
        ("mem_usage", "total_gtt"): (Field("memory_gtt_total_bytes", values.mebibytes),),
        ("mem_usage", "used_gtt"): (Field("memory_gtt_used_bytes", values.mebibytes),),
        ("temperature", "vr"): (Field("temperature_celsius", values.celsius, "vr"),),
        ("vram", "size"): (Field("memory_total_bytes", values.mebibytes),),
        ("asic", "num_compute_units"): (Field("compute_units", values.count),),
        # Whether the errors of the memory controller are watched for, as rocm-smi and the driver's file tell it.
        ("ras", "ecc_block_state", "umc"): (Field("ecc_enabled", enabled),),
        **{(key,): (field,) for key, field in _MONITOR.items()},
        **{path: (field,) for path, field in _OVERVIEW.items()},
    }
)
# Which counts of a RAS block are read; its name is the location.
ECC_COUNTS: Mapping[str, str] = MappingProxyType(
    {
        "correctable_count": "ecc_corrected_total",
        "uncorrectable_count": "ecc_uncorrected_total",
        "deferred_count": "ecc_deferred_total",
    }
)
# Lists of the temperatures of all stacks or dies, which are numbered in their order.
STACKS: Mapping[Path, str] = MappingProxyType(
    {("temperature", "hbm_stacks"): "hbm", **{("temperature", die): die for die in ("mid", "aid", "xcd")}}
)
# Where the sensors of the board of the chip, and of that on which eight of them stand, are told by name.
BOARDS = frozenset({"gpu_board", "gpuboard", "base_board", "baseboard"})


def temperature(sensor: str) -> Field:
    """The temperature of a sensor that is one of many."""
    return Field("temperature_celsius", values.celsius, sensor)


def board_sensor(name: str) -> str:
    """The word of a board's sensor, which must not count for the chip's temperature."""
    return name if name.startswith(BOARD_SENSORS) else f"board_{name}"


# `PPT_VIOLATION_STATUS` is a state; the accumulated counts of it are in ticks of no told length.
VIOLATION_END = "_violation_status"
THROTTLED = active
FACTS: tuple[tuple[str, tuple[Path, ...]], ...] = (
    ("gfx_version", (("asic", "target_graphics_version"),)),
    ("asic_serial", (("asic", "asic_serial"),)),
    ("chip_id", (("asic", "device_id"),)),
    ("oam_id", (("asic", "oam_id"), ("oam_id",))),
    ("firmware", (("vbios", "part_number"), ("ifwi", "part_number"), ("vbios", "version"), ("ifwi", "version"))),
    ("numa_node", (("numa", "node"),)),
    ("kfd_node", (("node_id",),)),
    ("compute_partition", (("partition", "compute_partition"), ("partition", "accelerator_partition"), ("accelerator_type",))),
    ("memory_partition", (("partition", "memory_partition"), ("memory_partition", "current"), ("memory",), ("current_memory_partition",))),
    ("memory_type", (("vram", "type"),)),
)  # fmt: skip
# What is told of a process, by its name in CSV.
PROCESS_KEYS: Mapping[str, Path] = MappingProxyType(
    {
        "name": ("process_info", "name"),
        "pid": ("process_info", "pid"),
        "gtt_mem": ("process_info", "memory_usage", "gtt_mem"),
        "cpu_mem": ("process_info", "memory_usage", "cpu_mem"),
        "vram_mem": ("process_info", "memory_usage", "vram_mem"),
        "mem_usage": ("process_info", "mem_usage"),
        "gfx": ("process_info", "usage", "gfx"),
        "enc": ("process_info", "usage", "enc"),
        "cu_occupancy": ("process_info", "cu_occupancy"),
        "sdma_usage": ("process_info", "sdma_usage"),
        "evicted_time": ("process_info", "evicted_time"),
    }
)
# What speaks of identity, of modes and of settings; of voltages, rates and counts for which there is no metric; and
# `vram_percent`, a share of 1 that monitor 6.4 prints with a percent sign.
_QUIET_SECTIONS = frozenset(
    {
        "asic", "bus", "vbios", "ifwi", "board", "driver", "ras", "numa", "vram", "cache_info", "partition", "dfc",
        "soc_pstate", "xgmi_plpd", "process_isolation", "overdrive", "mem_overdrive", "voltage", "voltage_curve",
        "xgmi_err", "fw_list", "frequency", "clk_limit", "gpuboard", "baseboard", "schedule", "guard", "guest_data",
        "timestamp", "bdf", "uuid", "kfd_id", "node_id", "partition_id", "pwr_cap", "xcp", "vram_percent",
        "vram_usage",
        "gfxclk_pviol", "gfxclk_tviol", "gfxclk_totalviol", "low_utilviol", "dclock", "decoder_clock", "dec_clock",
        "un_res", "hip_id", "hip_uuid", "card", "render", "drm_card", "drm_render", "memory_partition", "memory",
        "accelerator_type", "accelerator_profile_index", "accelerator_partition", "policy", "fb_usage", "profile",
        "mem_carveout", "gtt_usage",
        "gtt_free", "gtt_percent", "gpu_board", "base_board", "power_profile", "hsa_id",
        "oam_id", "physical_acc_id", "market_name", "partition_mode", "power_usage", "memory_partition_caps",
        "current_memory_partition",
    }
)  # fmt: skip
_QUIET_PATHS = frozenset(
    {
        *(("usage", key) for key in ("gfx_busy_inst", "gfx_busy_acc", "jpeg_busy", "vcn_busy")),
        *(("usage", key) for key in ("gfx_below_host_limit_acc", "gfx_low_utilization", "gfx_busy", "mm_usage_list")),
        *(("power", key) for key in ("power_management", "ubb_power")),
        *(("power", key) for key in ("voltage", "voltage_gfx", "voltage_soc", "voltage_mem", "power_limit", "fan_rpm")),
        *(("fan", key) for key in ("speed", "max")),
        *(
            ("pcie", key)
            for key in (
                "max_packet_size", "lc_perf_other_end_recovery", "lc_perf_other_end_recovery_count",
            )
        ),
        *(("mem_usage", f"{what}_{pool}") for what in ("total", "used", "free") for pool in ("visible_vram",)),
        ("mem_usage", "free_gtt"),
        *(("limit", key) for key in ("ppt1", "ptl_state", "ptl_format")),
        *(("clock", name) for name in ("dclk_#", "dcef", "dcefclk_#", "pcie", "sys", "mem", "vclk_#", "df", "soc")),
        *(("clock", name, key) for name in _DOMAINS for key in ("min_clk", "clk_locked", "deep_sleep")),
        *(("temperature", name) for name in ("vr", "hbm_stacks", "mid", "aid", "xcd")),
        *(("clock", name) for name in ("uclk_aid", "socclks_mid", "aid_#", "xcp_#")),
        ("link_metrics", "bit_rate"), ("link_metrics", "max_bandwidth"), ("link_metrics", "link_type"),
    }
)  # fmt: skip
# Names of keys that are quiet wherever they stand: CSV has lost the sections.
QUIET_NAMES = frozenset(
    {
        *(path[-1] for path in _QUIET_PATHS if path[0] != "clock"),
        "market_name", "vendor_id", "vendor_name", "subvendor_id", "device_id", "subsystem_id", "rev_id",
        "asic_serial", "oam_id", "target_graphics_version", "max_pcie_speed", "slot_type", "name", "build_date",
        "part_number", "version", "model_number", "product_serial", "fru_id", "product_name", "manufacturer_name",
        "type", "vendor", "bit_width", "max_bandwidth", "node", "affinity",
    }
)  # fmt: skip
# The headings under which keys stand; a copy without indentation is read by them.
SECTIONS = frozenset(
    {
        *(path[0] for path in FIELDS if len(path) > 1),
        *(path[0] for path in _QUIET_PATHS),
        *_QUIET_SECTIONS,
        "throttle", "ecc_blocks", "process_info", "retired", "pending", "link_metrics", "links",
    }
)  # fmt: skip


def is_top_level(key: str) -> bool:
    """Whether a value of this name stands in no section."""
    return key == "perf_level" or key in _QUIET_SECTIONS


def is_quiet(path: Path) -> bool:
    """Whether a path is known to give no reading."""
    of_a_processor = len(path) > 1 and path[1].startswith("apu_")
    return path[0] in _QUIET_SECTIONS or path[:2] in _QUIET_PATHS or path[:3] in _QUIET_PATHS or of_a_processor
