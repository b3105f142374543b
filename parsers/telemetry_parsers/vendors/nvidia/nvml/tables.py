"""Maps NVML calls, fields and GPM metrics to readings, and error codes to `Absent` values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers.library_answers import LibrarySpec, Row
from telemetry_parsers.model import Absent

# Some drivers return code 2 for a missing field. Codes 25 and 26 mean an unsupported version of a call.
_ABSENCE_BY_CODE = MappingProxyType(
    {
        -1: Absent.NOT_UNDERSTOOD,  # the reader sets -1 if the library returned invalid text
        2: Absent.NOT_SUPPORTED,
        3: Absent.NOT_SUPPORTED,
        4: Absent.NOT_PERMITTED,
        6: Absent.NOT_REPORTED,
        13: Absent.NOT_SUPPORTED,
        17: Absent.NOT_PERMITTED,
        21: Absent.NOT_REPORTED,
        25: Absent.NOT_SUPPORTED,
        26: Absent.NOT_SUPPORTED,
        27: Absent.NOT_REPORTED,
    }
)
NVML = LibrarySpec("NVML", "nvml", "nvidia", devices="GPUs", max_devices=256, absence_by_code=_ABSENCE_BY_CODE)

_MHZ = 10**6
_NS = 10**9
_DOMAINS = ("graphics", "sm", "memory", "video")
_ENGINES = {"Encoder": "encoder", "Decoder": "decoder", "Jpg": "jpeg", "Ofa": "optical_flow"}
_ECC_LOCATIONS = {2: "dram", 7: "sram"}
_PCIE_ERRORS = (
    "correctable", "non_fatal", "fatal", "unsupported_request", "nak_received", "nak_sent", "replay_rollover",
    "l0_to_recovery",
)  # fmt: skip
# The limits of the temperature margin (T.Limit) that Ada, Hopper and later GPUs report.
_MARGIN_LIMITS = ("slowdown", "shutdown", "memory", "operation")
# (name in fields, number in calls, metric suffix) for errors since the driver was loaded, and in the GPU's lifetime.
_ECC_SPANS = (("vol", 0, ""), ("agg", 1, "_lifetime"))


def _ratio_row(metric: str, label: str = "", part: str | int | None = None) -> Row:
    return Row(metric, label, over=100, part=part)


def _power_row(metric: str, part: int | None = None) -> Row:
    return Row(metric, over=1000, part=part)


def _memory_rows(*parts: str) -> tuple[Row, ...]:
    return tuple(Row(f"memory_{part}_bytes", part=part) for part in parts)


MEMORY_CALLS = ("MemoryInfo_v2", "MemoryInfo", "BAR1MemoryInfo")
CALLS: Mapping[str, tuple[Row, ...]] = {
    "UtilizationRates": (
        _ratio_row("utilization_ratio", part="gpu"),
        _ratio_row("memory_activity_ratio", part="memory"),
    ),
    "MemoryInfo_v2": _memory_rows("total", "used", "free", "reserved"),
    # Before driver 510, used memory included the memory reserved by the driver.
    "MemoryInfo": _memory_rows("total", "used", "free"),
    "BAR1MemoryInfo": (Row("bar1_total_bytes", part="total"), Row("bar1_used_bytes", part="used")),
    "TemperatureV.0": (Row("temperature_celsius", "core"),),
    "TemperatureV.1": (Row("temperature_celsius", "hotspot"),),
    "Temperature.0": (Row("temperature_celsius", "core"),),
    "MarginTemperature": (Row("temperature_margin_celsius"),),
    "TemperatureThreshold.0": (Row("temperature_shutdown_celsius", "core"),),
    "TemperatureThreshold.1": (Row("temperature_slowdown_celsius", "core"),),
    "TemperatureThreshold.2": (Row("temperature_slowdown_celsius", "memory"),),
    **{f"ClockInfo.{n}": (Row("clock_hertz", word, _MHZ),) for n, word in enumerate(_DOMAINS)},
    **{f"MaxClockInfo.{n}": (Row("clock_max_hertz", word, _MHZ),) for n, word in enumerate(_DOMAINS)},
    **{f"{name}Utilization": (_ratio_row("engine_utilization_ratio", word, 0),) for name, word in _ENGINES.items()},
    "CurrPcieLinkGeneration": (Row("pcie_link_generation"),),
    "CurrPcieLinkWidth": (Row("pcie_link_width"),),
    "MaxPcieLinkGeneration": (Row("pcie_link_generation_max"),),
    "MaxPcieLinkWidth": (Row("pcie_link_width_max"),),
    "EnforcedPowerLimit": (_power_row("power_cap_watts"),),
    "PowerManagementDefaultLimit": (_power_row("power_cap_default_watts"),),
    "PowerManagementLimitConstraints": (_power_row("power_cap_min_watts", 0), _power_row("power_cap_max_watts", 1)),
    "EccMode": (Row("ecc_enabled", part=0),),
    "Attributes_v2": (Row("compute_units", part="multiprocessorCount"),),
}
MODULE_POWER = "power_module"
MEMORY_POWER = "power_memory"
# The throttling reason of each counter of throttled time. The counters count nanoseconds.
_REASON_BY_TIME_COUNTER: Mapping[str, str] = {
    "perf_policy_power": "sw_power_cap",
    "perf_policy_thermal": "thermal",
    "perf_policy_sync_boost": "sync_boost",
    "perf_policy_board_limit": "board_limit",
    "perf_policy_reliability": "reliability",
    "clocks_event_reason_sw_therm_slowdown": "sw_thermal",
    "clocks_event_reason_hw_therm_slowdown": "hw_thermal",
    "clocks_event_reason_hw_power_brake_slowdown": "hw_power_brake",
}
FIELDS: Mapping[str, Row] = {
    "power_average": _power_row("power_average_watts"),
    "power_instant": _power_row("power_instant_watts"),
    MODULE_POWER: _power_row("power_module_watts"),
    MEMORY_POWER: _power_row("power_memory_watts"),
    "power_current_limit": _power_row("power_cap_watts"),
    "power_default_limit": _power_row("power_cap_default_watts"),
    "power_min_limit": _power_row("power_cap_min_watts"),
    "power_max_limit": _power_row("power_cap_max_watts"),
    "memory_temp": Row("temperature_celsius", "memory"),
    **{f"margin_{limit}": Row("temperature_margin_limit_celsius", limit) for limit in _MARGIN_LIMITS},
    "total_energy_consumption": Row("energy_joules_total", over=1000),
    **{name: Row("throttled_seconds_total", word, over=_NS) for name, word in _REASON_BY_TIME_COUNTER.items()},
    "retired_sbe": Row("retired_pages", "single_bit_ecc"),
    "retired_dbe": Row("retired_pages", "double_bit_ecc"),
    "retired_pending": Row("retired_pages_pending"),
    "remapped_cor": Row("remapped_rows", "correctable"),
    "remapped_unc": Row("remapped_rows", "uncorrectable"),
    "remapped_pending": Row("row_remap_pending"),
    "remapped_failure": Row("row_remap_failed"),
    "pcie_replay_counter": Row("pcie_replays_total"),
    **{f"pcie_{kind}": Row("pcie_errors_total", kind) for kind in _PCIE_ERRORS},
    "pcie_count_tx_bytes": Row("pcie_transmit_bytes_total"),
    "pcie_count_rx_bytes": Row("pcie_receive_bytes_total"),
}
# Error counts by location, which GPUs up to Turing report in fields and later GPUs in calls.
# Totals are used only if no location is recorded.
ECC_FIELDS: Mapping[str, Row] = {
    f"ecc_{bit_errors}_{span_name}_{location}": Row(f"ecc_{kind}{lifetime_suffix}_total", word)
    for span_name, _, lifetime_suffix in _ECC_SPANS
    for bit_errors, kind in (("sbe", "corrected"), ("dbe", "uncorrected"))
    for location, word in (
        ("l1", "l1"), ("l2", "l2"), ("dev", "dram"), ("reg", "register_file"), ("tex", "texture"), ("cbu", "cbu"),
        ("total", "all"),
    )
}  # fmt: skip
ECC_CALLS: Mapping[str, Row] = {
    f"MemoryErrorCounter.{kind_number}.{span_number}.{location}": Row(f"ecc_{kind}{lifetime_suffix}_total", word)
    for _, span_number, lifetime_suffix in _ECC_SPANS
    for kind_number, kind in enumerate(("corrected", "uncorrected"))
    for location, word in _ECC_LOCATIONS.items()
}
_SHARED_GPM: Mapping[str, tuple[Row, ...]] = {
    "2": (_ratio_row("sm_active_ratio"),),
    "3": (_ratio_row("sm_occupancy_ratio"),),
    "4": (_ratio_row("pipe_active_ratio", "int"),),
    "5": (_ratio_row("tensor_active_ratio"),),
    "6": (_ratio_row("pipe_active_ratio", "tensor_dfma"),),
    "7": (_ratio_row("pipe_active_ratio", "tensor_hmma"),),
    "9": (_ratio_row("pipe_active_ratio", "tensor_imma"),),
    "10": (_ratio_row("memory_bandwidth_ratio"),),
    "11": (_ratio_row("pipe_active_ratio", "fp64"),),
    "12": (_ratio_row("pipe_active_ratio", "fp32"),),
    "13": (_ratio_row("pipe_active_ratio", "fp16"),),
}
_GRAPHICS = _ratio_row("graphics_active_ratio")
GPM: Mapping[str, tuple[Row, ...]] = {"1": (_GRAPHICS,), **_SHARED_GPM}
# NVML reports no utilization of MIG instances, so the share of time in which any work ran is used.
GPM_OF_INSTANCE: Mapping[str, tuple[Row, ...]] = {"1": (_GRAPHICS, _ratio_row("utilization_ratio")), **_SHARED_GPM}

POWER_USAGE = "PowerUsage"
PERFORMANCE_STATE = "PerformanceState"
PERFORMANCE_STATE_UNKNOWN = 32
REASON_CALLS = ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons")
# The reason "idle" is not reported, because an idle GPU is not throttled.
IDLE_REASON = 0x01
THROTTLE_REASONS: Mapping[int, str] = {
    0x02: "applications_clocks",
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
# Drivers before 615 report only these reasons: all of the above except the last two.
DEFAULT_REASONS = 0x1FE
RECOVERY_FIELD = "gpu_recovery_action"
RECOVERY_ACTIONS: Mapping[int, str] = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "reboot",
}
FAN_CALLS: Mapping[str, Row] = {
    "FanSpeed": Row("fan_ratio", over=100),
    "FanSpeed_v2": Row("fan_ratio", over=100),
    "FanSpeedRPM": Row("fan_rpm"),
}
# A GPU that shares a chip with a CPU has no PCIe link or memory of its own, but the driver returns numbers such as
# 1 and 0 (GB10: Syllo/nvtop #499; Thor: iopsystems/rezolus #1108, #1196).
NOT_ON_INTEGRATED = frozenset(
    {
        "memory_activity_ratio",
        "pcie_link_generation",
        "pcie_link_generation_max",
        "pcie_link_width",
        "pcie_link_width_max",
        "pcie_replays_total",
        "pcie_errors_total",
    }
)
# Calls that return the identity or the mode of a device, not a reading.
FACT_CALLS = frozenset(
    {
        "PersistenceMode", "ComputeMode", "MinorNumber", "NumaNodeId", "MemoryAffinity.1.0", "Architecture",
        "BoardPartNumber", "VbiosVersion", "GspFirmwareVersion", "ModuleId", "AddressingMode", "MigMode", "GpuFabricInfo",
    }
)  # fmt: skip

LINK_METRICS = (
    "link_up",
    "link_receive_bytes_total",
    "link_transmit_bytes_total",
    "link_crc_errors_total",
    "link_replay_errors_total",
    "link_recovery_errors_total",
    "link_receive_errors_total",
    "link_transmit_errors_total",
)
_SPECIAL_METRICS = (
    "power_watts",
    "performance_state",
    "throttled",
    "recovery_action",
    "fan_ratio",
    "fan_rpm",
    "processes",
    "memory_processes_bytes",
    "event_watch",
)
GIVES = tuple(
    dict.fromkeys(
        (
            *(row.metric for rows in CALLS.values() for row in rows),
            *(row.metric for table in (FIELDS, ECC_FIELDS) for row in table.values()),
            *(row.metric for rows in GPM.values() for row in rows),
            *LINK_METRICS,
            *_SPECIAL_METRICS,
        )
    )
)
