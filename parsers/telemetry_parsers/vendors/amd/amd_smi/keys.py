"""Maps the keys of all versions of amd-smi to metrics."""

# The units are those that the text format prints. CSV and the JSON of 6.0 omit some of them.

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.metrics import BOARD_SENSORS
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.targets import Target, metric, parsed, switch
from telemetry_parsers.vendors.amd.amd_smi.entries import (
    ACTIVE,
    ENABLED,
    THROTTLED,
    Path,
    parse_byte_rate,
    parse_link_generation,
    parse_positive_flag,
)


def _percent_target(key: str, label: str = "") -> Target:
    return metric(key, label, unit="%")


def _cap_target(key: str) -> Target:
    return metric(key, unit="W", if_zero=Absent.NOT_SUPPORTED)  # 0 W means no limit


def _clock_target(domain: str) -> Target:
    return metric("clock_hertz", domain, unit="MHz")


def _max_clock_target(domain: str) -> Target:
    return metric("clock_max_hertz", domain, unit="MHz", if_zero=Absent.NOT_SUPPORTED)  # 0 means unknown


def temperature_target(sensor: str) -> Target:
    """Return the metric for a sensor's temperature."""
    return metric("temperature_celsius", sensor, unit="C")


_SENSORS_BY_KEY = {
    **dict.fromkeys(("edge", "edge_temperature"), "edge"),
    **dict.fromkeys(("hotspot", "junction", "hotspot_temperature", "junction_temperature"), "junction"),
    **dict.fromkeys(("mem", "vram", "mem_temperature", "vram_temperature"), "memory"),
    "apu_temperature_soc": "soc",
    "vr": "vr",
}
_DOMAINS_BY_CLOCK = {
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
_DOMAINS_BY_CLOCK_WITH_LEVELS = {"sys": "graphics", "mem": "memory", "vclk_#": "video", "df": "fabric", "soc": "soc"}
_SENSORS_BY_LIMIT = {"edge": "edge", "hotspot": "junction", "junction": "junction", "vram": "memory", "mem": "memory"}
# Maps each throttle column of `amd-smi monitor` to the name of the reason in `--throttle`.
_REASONS_BY_COLUMN = {
    "pviol": "ppt",
    "tviol": "socket_thermal",
    "phot_tviol": "prochot",
    "vr_tviol": "vr_thermal",
    "hbm_tviol": "hbm_thermal",
    "gfx_clkviol": "gfx_clk_below_host_limit",
}
_MONITOR_TARGETS = {
    "power_usage": metric("power_watts", unit="W"),
    # Despite the key's name, the value is the current power cap.
    "max_power": _cap_target("power_cap_watts"),
    "gpu_temperature": temperature_target("core"),
    "edge_temperature": temperature_target("edge"),
    "hotspot_temperature": temperature_target("junction"),
    "memory_temperature": temperature_target("memory"),
    **dict.fromkeys(("gfx", "gfx_util"), _percent_target("utilization_ratio")),
    **dict.fromkeys(("gfx_clk", "gfx_clock"), _clock_target("graphics")),
    **dict.fromkeys(("mem", "mem_util"), _percent_target("memory_activity_ratio")),
    **dict.fromkeys(("mem_clk", "mem_clock"), _clock_target("memory")),
    **dict.fromkeys(("encoder", "enc_util"), _percent_target("engine_utilization_ratio", "encoder")),
    **dict.fromkeys(("decoder", "dec_util"), _percent_target("engine_utilization_ratio", "decoder")),
    **dict.fromkeys(("vclock", "encoder_clock", "enc_clock"), _clock_target("video")),
    "single_bit_ecc": metric("ecc_corrected_total", "all"),
    "double_bit_ecc": metric("ecc_uncorrected_total", "all"),
    "pcie_replay": metric("pcie_replays_total"),
    "pcie_bw": parsed("pcie_bandwidth_bytes_per_second", parse_byte_rate),
    "tviol_active": switch("throttled", ACTIVE, "socket_thermal"),
    **{column: parsed("throttled", parse_positive_flag, reason) for column, reason in _REASONS_BY_COLUMN.items()},
    # CSV prints some of these values in MB and others in GB, so a number without a unit is not read.
    "gtt_used": metric("memory_gtt_used_bytes"),
    "gtt_total": metric("memory_gtt_total_bytes"),
    "vram_used": metric("memory_used_bytes"),
    "vram_free": metric("memory_free_bytes"),
    "vram_total": metric("memory_total_bytes"),
    # Keys of the overview table, whose `temp` is the temperature of the hotspot or the edge.
    "temp": temperature_target("core"),
    "uncorr_ecc": metric("ecc_uncorrected_total", "all"),
    "fan": _percent_target("fan_ratio"),
}
# Maps sections and keys to metrics. Clocks and power readings with several keys are defined below.
_TARGETS_BY_SECTION: Mapping[str, Mapping[str, Target]] = {
    "usage": {
        **dict.fromkeys(("gfx_activity", "gfx_usage"), _percent_target("utilization_ratio")),
        **dict.fromkeys(("umc_activity", "mem_usage"), _percent_target("memory_activity_ratio")),
        **dict.fromkeys(("mm_activity", "mm_usage"), _percent_target("engine_utilization_ratio", "multimedia")),
        "vcn_activity": _percent_target("engine_utilization_ratio", "vcn"),
        "jpeg_activity": _percent_target("engine_utilization_ratio", "jpeg"),
    },
    "power": {
        **dict.fromkeys(("socket_power", "current_power"), metric("power_watts", unit="W")),
        "average_socket_power": metric("power_average_watts", unit="W"),
        "throttle_status": switch("throttled", THROTTLED, "any"),
        "gfx_voltage": metric("voltage_volts", "graphics", unit="mV"),
        "soc_voltage": metric("voltage_volts", "soc", unit="mV"),
        "mem_voltage": metric("voltage_volts", "memory", unit="mV"),
    },
    "power_usage": {"current_power": metric("power_watts", unit="W"), "power_limit": _cap_target("power_cap_watts")},
    "temperature": {key: temperature_target(sensor) for key, sensor in _SENSORS_BY_KEY.items()},
    "limit": {
        "max_power": _cap_target("power_cap_max_watts"),
        "min_power": metric("power_cap_min_watts", unit="W"),
        **dict.fromkeys(("socket_power", "current_power", "power"), _cap_target("power_cap_watts")),
        **{
            f"{kind}_{name}_temperature": metric(f"temperature_{kind}_celsius", sensor, unit="C")
            for name, sensor in _SENSORS_BY_LIMIT.items()
            for kind in ("slowdown", "shutdown")
        },
        **{
            f"temperature_{name}": metric("temperature_critical_celsius", sensor, unit="C")
            for name, sensor in _SENSORS_BY_LIMIT.items()
        },
    },
    "pcie": {
        **dict.fromkeys(("width", "current_lanes"), metric("pcie_link_width")),
        **dict.fromkeys(("speed", "current_speed"), parsed("pcie_link_generation", parse_link_generation)),
        "replay_count": metric("pcie_replays_total"),
        "nak_sent_count": metric("pcie_errors_total", "nak_sent"),
        "nak_received_count": metric("pcie_errors_total", "nak_received"),
        "l0_to_recovery_count": metric("pcie_errors_total", "l0_to_recovery"),
        "replay_roll_over_count": metric("pcie_errors_total", "replay_rollover"),
        "bandwidth": parsed("pcie_bandwidth_bytes_per_second", parse_byte_rate),
        "current_bandwidth_sent": parsed("pcie_transmit_bytes_per_second", parse_byte_rate),
        "current_bandwidth_received": parsed("pcie_receive_bytes_per_second", parse_byte_rate),
    },
    "bus": {
        **dict.fromkeys(("max_pcie_width", "max_pcie_lanes"), metric("pcie_link_width_max")),
        "pcie_interface_version": metric("pcie_link_generation_max"),
    },
    "ecc": {
        "total_correctable_count": metric("ecc_corrected_total", "all"),
        "total_uncorrectable_count": metric("ecc_uncorrected_total", "all"),
        "total_deferred_count": metric("ecc_deferred_total", "all"),
    },
    "fan": {"rpm": metric("fan_rpm"), "usage": _percent_target("fan_ratio")},
    "energy": {"total_energy_consumption": metric("energy_joules_total", unit="J")},
    "mem_usage": {
        "total_vram": metric("memory_total_bytes", unit="MB"),
        "used_vram": metric("memory_used_bytes", unit="MB"),
        "free_vram": metric("memory_free_bytes", unit="MB"),
        "total_gtt": metric("memory_gtt_total_bytes", unit="MB"),
        "used_gtt": metric("memory_gtt_used_bytes", unit="MB"),
    },
    "vram": {"size": metric("memory_total_bytes", unit="MB")},
    "asic": {"num_compute_units": metric("compute_units")},
}
# These keys are used only if no other key of the metric has a number.
FALLBACK_TARGETS: Mapping[Path, tuple[Target, ...]] = {
    ("power", "average_socket_power"): (metric("power_watts", unit="W"),),
    # Since 7.14, processors with integrated graphics may print only these keys.
    ("power", "apu_average_socket_power"): (metric("power_average_watts", unit="W"), metric("power_watts", unit="W")),
    ("usage", "apu_average_gfx_activity"): (_percent_target("utilization_ratio"),),
    ("usage", "apu_average_vcn_activity"): (_percent_target("engine_utilization_ratio", "vcn"),),
    ("usage", "apu_average_mm_activity"): (_percent_target("engine_utilization_ratio", "multimedia"),),
    # Since 7.14, cards without partitions print a single value, not one for each partition.
    ("usage", "vcn_busy"): (_percent_target("engine_utilization_ratio", "vcn"),),
    ("usage", "vcn_busy", "xcp_#"): (_percent_target("engine_utilization_ratio", "vcn"),),
    ("usage", "jpeg_busy", "xcp_#"): (_percent_target("engine_utilization_ratio", "jpeg"),),
    ("bus", "max_pcie_speed"): (parsed("pcie_link_generation_max", parse_link_generation),),
}
_MAIN_TARGETS: Mapping[Path, tuple[Target, ...]] = {
    **{(key,): (target,) for key, target in _MONITOR_TARGETS.items()},
    **{(section, key): (target,) for section, keys in _TARGETS_BY_SECTION.items() for key, target in keys.items()},
    ("power", "current_socket_power"): (metric("power_instant_watts", unit="W"), metric("power_watts", unit="W")),
    # 7.x prints limits for each package power tracker (PPT), of which the first tracks the sustained power.
    ("limit", "ppt0", "max_power_limit"): (_cap_target("power_cap_max_watts"),),
    ("limit", "ppt0", "min_power_limit"): (metric("power_cap_min_watts", unit="W"),),
    ("limit", "ppt0", "socket_power_limit"): (_cap_target("power_cap_watts"),),
    **{
        ("clock", name, key): (_clock_target(domain),)
        for name, domain in _DOMAINS_BY_CLOCK.items()
        for key in ("clk", "cur_clk", "current_clk")
    },
    **{("clock", name, "max_clk"): (_max_clock_target(domain),) for name, domain in _DOMAINS_BY_CLOCK.items()},
    **{
        ("clock", name, "frequency_levels", "level_#"): (_max_clock_target(domain),)
        for name, domain in _DOMAINS_BY_CLOCK_WITH_LEVELS.items()
    },
    # The state shows whether the memory controller is monitored for errors.
    ("ras", "ecc_block_state", "umc"): (switch("ecc_enabled", ENABLED),),
}
FIELDS: Mapping[Path, tuple[Target, ...]] = {
    path: (*_MAIN_TARGETS.get(path, ()), *FALLBACK_TARGETS.get(path, ()))
    for path in (*_MAIN_TARGETS, *FALLBACK_TARGETS)
}
# If one of these paths has several values, the highest value is used.
_REPEATED_PATHS: frozenset[Path] = frozenset(
    {
        *((name,) for name in ("clock", "throttle", "tviol_active", *_REASONS_BY_COLUMN)),
        *(("usage", f"{engine}_activity") for engine in ("vcn", "jpeg")),
        *(("usage", f"{engine}_busy", "xcp_#") for engine in ("vcn", "jpeg")),
    }
)
# Maps each error count of a RAS block to a metric, whose label is the block's name.
ECC_COUNTS: Mapping[str, str] = {
    "correctable_count": "ecc_corrected_total",
    "uncorrectable_count": "ecc_uncorrected_total",
    "deferred_count": "ecc_deferred_total",
}
# Maps each list of stack or die temperatures to the prefix of the labels.
STACK_LABELS: Mapping[Path, str] = {
    ("temperature", "hbm_stacks"): "hbm",
    **{("temperature", die): die for die in ("mid", "aid", "xcd")},
}
# Sections with named sensors, either of one chip's board or of the baseboard of eight chips.
BOARD_SECTIONS = frozenset({"gpu_board", "gpuboard", "base_board", "baseboard"})


def board_sensor_label(name: str) -> str:
    """Return a sensor's label, with the prefix `board_` if the name does not show that it is on a board."""
    return name if name.startswith(BOARD_SENSORS) else f"board_{name}"


# Only states such as `PPT_VIOLATION_STATUS` are read. Accumulated violations are in ticks of unknown length.
VIOLATION_SUFFIX = "_violation_status"
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
# Maps each CSV column of a process to the path of the value in the other formats.
PROCESS_PATHS: Mapping[str, Path] = {
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
# Known keys without a metric. `vram_percent` is ignored, because 6.4 prints a fraction with a percent sign.
_IGNORED_SECTIONS = frozenset(
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
_IGNORED_PATHS = frozenset(
    {
        *(("usage", key) for key in ("gfx_busy_inst", "gfx_busy_acc", "jpeg_busy", "vcn_busy")),
        *(("usage", key) for key in ("gfx_below_host_limit_acc", "gfx_low_utilization", "gfx_busy", "mm_usage_list")),
        *(("power", key) for key in ("power_management", "ubb_power")),
        *(("power", key) for key in ("voltage", "voltage_gfx", "voltage_soc", "voltage_mem", "power_limit", "fan_rpm")),
        *(("fan", key) for key in ("speed", "max")),
        # The totals include cache counts, so a sum over locations would count cache errors twice.
        ("ecc", "cache_correctable_count"), ("ecc", "cache_uncorrectable_count"),
        *(("pcie", f"lc_perf_other_end_recovery{suffix}") for suffix in ("", "_count")), ("pcie", "max_packet_size"),
        *(("mem_usage", f"{kind}_visible_vram") for kind in ("total", "used", "free")),
        ("mem_usage", "free_gtt"),
        *(("limit", key) for key in ("ppt1", "ptl_state", "ptl_format")),
        *(("clock", name) for name in ("dclk_#", "dcef", "dcefclk_#", "pcie", "sys", "mem", "vclk_#", "df", "soc")),
        *(("clock", name, key) for name in _DOMAINS_BY_CLOCK for key in ("min_clk", "clk_locked", "deep_sleep")),
        *(("temperature", name) for name in ("vr", "hbm_stacks", "mid", "aid", "xcd")),
        *(("clock", name) for name in ("uclk_aid", "socclks_mid", "aid_#", "xcp_#")),
        ("link_metrics", "bit_rate"), ("link_metrics", "max_bandwidth"), ("link_metrics", "link_type"),
    }
)  # fmt: skip
# Keys without a metric in any section. They are needed for CSV, whose columns do not name sections.
IGNORED_NAMES = frozenset(
    {
        *(path[-1] for path in _IGNORED_PATHS if path[0] != "clock"),
        "market_name", "vendor_id", "vendor_name", "subvendor_id", "device_id", "subsystem_id", "rev_id",
        "asic_serial", "oam_id", "target_graphics_version", "max_pcie_speed", "slot_type", "name", "build_date",
        "part_number", "version", "model_number", "product_serial", "fru_id", "product_name", "manufacturer_name",
        "type", "vendor", "bit_width", "max_bandwidth", "node", "affinity",
    }
)  # fmt: skip
# The names of all sections. They show where a section begins in copied output without indentation.
SECTIONS = frozenset(
    {
        *(path[0] for path in FIELDS if len(path) > 1),
        *(path[0] for path in _IGNORED_PATHS),
        *_IGNORED_SECTIONS,
        "throttle", "ecc_blocks", "process_info", "retired", "pending", "link_metrics", "links",
    }
)  # fmt: skip


def is_top_level(key: str) -> bool:
    """Return whether a key with this name is outside of all sections."""
    return key == "perf_level" or key in _IGNORED_SECTIONS


def may_repeat(path: Path) -> bool:
    """Return whether a path may have several values."""
    return path[:1] in _REPEATED_PATHS or path in _REPEATED_PATHS


def is_ignored(path: Path) -> bool:
    """Return whether a path is known to have no metric."""
    is_apu_key = len(path) > 1 and path[1].startswith("apu_")
    return path[0] in _IGNORED_SECTIONS or path[:2] in _IGNORED_PATHS or path[:3] in _IGNORED_PATHS or is_apu_key
