"""dcgm-exporter: the names of etc/default-counters.csv and dcp-metrics-included.csv (NVIDIA/dcgm-exporter @ d5e5f51)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import (
    MEBI,
    MEGA,
    MILLI,
    NANO,
    PERCENT,
    ExporterTable,
    Label,
    NewestEventCode,
    Row,
    Total,
    UnservedNames,
    first_of,
)

_CRC_DEVIATION = "only the sum of flit and data errors is read"

# A table with one row per line.
# fmt: off
_DCGM_ROWS = (
    Row("DEV_SM_CLOCK", "SM clock frequency (in MHz).", first_of("clock_hertz{sm}", "clock_hertz{graphics}", "clock_hertz{aicore}"), MEGA),
    Row("DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", first_of("clock_hertz{memory}"), MEGA),
    Row("DEV_VIDEO_CLOCK", "Video encoder and decoder clock (in MHz).", first_of("clock_hertz{video}"), MEGA),
    Row("DEV_MAX_SM_CLOCK", "Highest SM clock (in MHz).", first_of("clock_max_hertz{sm}", "clock_max_hertz{graphics}"), MEGA),
    Row("DEV_MAX_MEM_CLOCK", "Highest memory clock (in MHz).", first_of("clock_max_hertz{memory}"), MEGA),
    Row("DEV_MEMORY_TEMP", "Memory temperature (in C).", first_of("temperature_celsius{memory}")),
    Row("DEV_GPU_TEMP", "GPU temperature (in C).", first_of("temperature_celsius{core}", "temperature_celsius{junction}", "temperature_celsius{edge}", "temperature_celsius{hotspot}")),
    Row("DEV_SLOWDOWN_TEMP", "Temperature at which the GPU slows down (in C).", first_of("temperature_slowdown_celsius{core}", "temperature_slowdown_celsius{junction}", "temperature_slowdown_celsius{edge}")),
    Row("DEV_SHUTDOWN_TEMP", "Temperature at which the GPU switches off (in C).", first_of("temperature_shutdown_celsius{core}", "temperature_shutdown_celsius{junction}", "temperature_shutdown_celsius{edge}")),
    Row("DEV_POWER_USAGE", "Power draw (in W).", first_of("power_watts")),
    Row("DEV_POWER_USAGE_INSTANT", "Instantaneous power draw (in W).", first_of("power_instant_watts")),
    Row("DEV_ENFORCED_POWER_LIMIT", "Power limit in force (in W).", first_of("power_cap_watts")),
    Row("DEV_POWER_MGMT_LIMIT", "Power limit that was set (in W).", first_of("power_cap_watts"), deviation="the limit in force, which may be lower than the limit that was set"),
    Row("DEV_POWER_MGMT_LIMIT_MIN", "Lowest power limit that can be set (in W).", first_of("power_cap_min_watts")),
    Row("DEV_POWER_MGMT_LIMIT_MAX", "Highest power limit that can be set (in W).", first_of("power_cap_max_watts")),
    Row("DEV_POWER_MGMT_LIMIT_DEF", "Power limit that the GPU starts with (in W).", first_of("power_cap_default_watts")),
    Row("DEV_TOTAL_ENERGY_CONSUMPTION", "Energy drawn since the driver was loaded (in mJ).", first_of("energy_joules_total"), MILLI, "counter"),
    Row("DEV_PCIE_REPLAY_COUNTER", "PCIe packets retransmitted.", first_of("pcie_replays_total"), kind="counter"),
    Row("DEV_PCIE_LINK_GEN", "Current PCIe generation of the link.", first_of("pcie_link_generation")),
    Row("DEV_PCIE_LINK_WIDTH", "Current number of PCIe lanes of the link.", first_of("pcie_link_width")),
    Row("DEV_PCIE_MAX_LINK_GEN", "Highest PCIe generation of the link.", first_of("pcie_link_generation_max")),
    Row("DEV_PCIE_MAX_LINK_WIDTH", "Maximum number of PCIe lanes of the link.", first_of("pcie_link_width_max")),
    Row("DEV_GPU_UTIL", "GPU utilization (in %).", first_of("utilization_ratio"), PERCENT, scope="undivided"),
    Row("DEV_MEM_COPY_UTIL", "Memory utilization (in %).", first_of("memory_activity_ratio"), PERCENT, scope="undivided"),
    Row("DEV_ENC_UTIL", "Encoder utilization (in %).", first_of("engine_utilization_ratio{encoder}"), PERCENT, scope="undivided"),
    Row("DEV_DEC_UTIL", "Decoder utilization (in %).", first_of("engine_utilization_ratio{decoder}"), PERCENT, scope="undivided"),
    Row("DEV_FAN_SPEED", "Fan speed (in %).", first_of("fan_ratio"), PERCENT),
    Row("DEV_PSTATE", "Performance state (0-15); 0 is the fastest.", first_of("performance_state")),
    Row("DEV_XID_ERRORS", "Number of the last Xid.", NewestEventCode("xid_", ("err_code", "err_msg"), ("0", "No Error")), deviation="the last Xid since the daemon started; 0 if there was none (only if the driver reports events); `err_msg` is empty for Xids; MIG instances have no series"),
    Row("DEV_POWER_VIOLATION", "Time throttled because of power (in ns).", first_of("throttled_seconds_total{sw_power_cap}"), NANO, "counter"),
    Row("DEV_THERMAL_VIOLATION", "Time throttled because of temperature (in ns).", first_of("throttled_seconds_total{thermal}"), NANO, "counter"),
    Row("DEV_SYNC_BOOST_VIOLATION", "Time throttled because of synchronous boost (in ns).", first_of("throttled_seconds_total{sync_boost}"), NANO, "counter"),
    Row("DEV_BOARD_LIMIT_VIOLATION", "Time throttled because of board limits (in ns).", first_of("throttled_seconds_total{board_limit}"), NANO, "counter"),
    Row("DEV_RELIABILITY_VIOLATION", "Time throttled because of reliability limits (in ns).", first_of("throttled_seconds_total{reliability}"), NANO, "counter"),
    Row("DEV_FB_FREE", "Framebuffer memory free (in MiB).", first_of("memory_free_bytes"), MEBI, scope="leaves"),
    Row("DEV_FB_USED", "Framebuffer memory used (in MiB).", first_of("memory_used_bytes"), MEBI, scope="leaves"),
    Row("DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", first_of("memory_reserved_bytes"), MEBI, scope="leaves"),
    Row("DEV_FB_TOTAL", "Total framebuffer memory (in MiB).", first_of("memory_total_bytes"), MEBI, scope="leaves"),
    Row("DEV_FB_USED_PERCENT", "Share of the framebuffer memory in use (0-1).", first_of("memory_used_ratio"), scope="leaves"),
    Row("DEV_BAR1_USED", "BAR1 memory used (in MiB).", first_of("bar1_used_bytes"), MEBI),
    Row("DEV_BAR1_TOTAL", "Total BAR1 memory (in MiB).", first_of("bar1_total_bytes"), MEBI),
    Row("DEV_ECC_SBE_VOL_TOTAL", "Corrected memory errors since the driver was loaded.", Total("ecc_corrected_total"), kind="counter"),
    Row("DEV_ECC_DBE_VOL_TOTAL", "Uncorrected memory errors since the driver was loaded.", Total("ecc_uncorrected_total"), kind="counter"),
    Row("DEV_ECC_SBE_AGG_TOTAL", "Corrected memory errors in the GPU's lifetime.", Total("ecc_corrected_lifetime_total"), kind="counter"),
    Row("DEV_ECC_DBE_AGG_TOTAL", "Uncorrected memory errors in the GPU's lifetime.", Total("ecc_uncorrected_lifetime_total"), kind="counter"),
    Row("DEV_RETIRED_SBE", "Pages retired because of corrected errors.", first_of("retired_pages{single_bit_ecc}"), kind="counter"),
    Row("DEV_RETIRED_DBE", "Pages retired because of uncorrected errors.", first_of("retired_pages{double_bit_ecc}"), kind="counter"),
    Row("DEV_RETIRED_PENDING", "1 while pages are waiting to be retired.", first_of("retired_pages_pending"), kind="counter"),
    Row("DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped because of uncorrected errors.", first_of("remapped_rows{uncorrectable}"), kind="counter"),
    Row("DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped because of corrected errors.", first_of("remapped_rows{correctable}"), kind="counter"),
    Row("DEV_ROW_REMAP_FAILURE", "1 if a row could not be remapped.", first_of("row_remap_failed")),
    Row("DEV_ROW_REMAP_PENDING", "1 while a row is waiting to be remapped.", first_of("row_remap_pending")),
    Row("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "Checksum errors on all NVLinks.", Total("link_crc_errors_total"), kind="counter", deviation=_CRC_DEVIATION),
    Row("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Packets retransmitted on all NVLinks.", Total("link_replay_errors_total"), kind="counter"),
    Row("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "Recoveries of all NVLinks.", Total("link_recovery_errors_total"), kind="counter"),
    Row("PROF_GR_ENGINE_ACTIVE", "Share of time in which any compute or graphics work ran (0-1).", first_of("graphics_active_ratio")),
    Row("PROF_SM_ACTIVE", "Share of time in which a multiprocessor had at least one warp (0-1). Average of all multiprocessors.", first_of("sm_active_ratio")),
    Row("PROF_SM_OCCUPANCY", "Resident warps as a share of the maximum (0-1).", first_of("sm_occupancy_ratio")),
    Row("PROF_PIPE_TENSOR_ACTIVE", "Share of time in which the tensor pipes worked (0-1).", first_of("tensor_active_ratio")),
    Row("PROF_DRAM_ACTIVE", "Share of time in which the memory sent or received (0-1).", first_of("memory_bandwidth_ratio")),
    Row("PROF_PIPE_FP64_ACTIVE", "Share of time in which the FP64 pipes worked (0-1).", first_of("pipe_active_ratio{fp64}")),
    Row("PROF_PIPE_FP32_ACTIVE", "Share of time in which the FP32 pipes worked (0-1).", first_of("pipe_active_ratio{fp32}")),
    Row("PROF_PIPE_FP16_ACTIVE", "Share of time in which the FP16 pipes worked (0-1).", first_of("pipe_active_ratio{fp16}")),
    Row("PROF_PCIE_TX_BYTES", "Bytes sent over PCIe per second.", first_of("pcie_transmit_bytes_per_second"), deviation="only if the card measures the rate itself"),
    Row("PROF_PCIE_RX_BYTES", "Bytes received over PCIe per second.", first_of("pcie_receive_bytes_per_second"), deviation="only if the card measures the rate itself"),
)
_DCGM_MISSING = (
    UnservedNames("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "the unit of this rate is disputed; use `accelerator_link_…_bytes_total`"),
    UnservedNames("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", _CRC_DEVIATION),
    UnservedNames("DCGM_FI_DEV_LOW_UTIL_VIOLATION", "NVML does not count this"),
    UnservedNames("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "licenses are not read"),
    UnservedNames("DCGM_EXP_*", "dcgm-exporter computes these counts itself"),
)
# fmt: on

DCGM = ExporterTable(
    name="dcgm-exporter",
    source="NVIDIA/dcgm-exporter",
    vendors=("nvidia",),
    port=9400,
    prefix="DCGM_FI_",
    labels=(
        Label("gpu", facts.number),
        Label("UUID", facts.uuid),
        Label("pci_bus_id", facts.long_bus_id),
        Label("device", facts.numbered("nvidia")),
        Label("modelName", facts.model),
        Label("GPU_I_PROFILE", facts.partition_only("profile")),
        Label("GPU_I_ID", facts.partition_only("gpu_instance")),
        Label("Hostname", facts.hostname),
        Label("DCGM_FI_DRIVER_VERSION", facts.driver),
        *map(Label, ("namespace", "pod", "container"), facts.POD),
    ),
    rows=_DCGM_ROWS,
    missing=_DCGM_MISSING,
    has_partitions=True,
    hostname_labels=("Hostname", "hostname"),
    version="4.8",
)

# The old units as multiples of the new units.
_MHZ, _PERCENT, _MIB, _MJ = 1e6, 0.01, float(1 << 20), 1e-3
# Maps a conversion factor to the change of the help texts: (old unit, new unit).
_UNIT_TEXTS: Mapping[float, tuple[str, str]] = MappingProxyType(
    {_MHZ: ("in MHz", "in Hz"), _PERCENT: ("in %", "0-1"), _MIB: ("in MiB", "in bytes"), _MJ: ("in mJ", "in J")}
)
# Renamed metrics in the default set of 4.9: (old name, new name, new value / old value).
# The names are from the release notes, NVIDIA/go-dcgm @ b7fa315 and NVIDIA's list of field IDs.
DEFAULT_RENAMES: tuple[tuple[str, str, float], ...] = (
    ("DEV_SM_CLOCK", "DEV_SM_CLOCK_HERTZ", _MHZ),
    ("DEV_MEM_CLOCK", "DEV_MEMORY_CLOCK_HERTZ", _MHZ),
    ("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", 1.0),
    ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", 1.0),
    ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", 1.0),
    ("DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_GPU_ENERGY_JOULES_TOTAL", _MJ),
    ("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", 1.0),
    ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", _PERCENT),
    ("DEV_MEM_COPY_UTIL", "DEV_MEMORY_UTIL_RATIO", _PERCENT),
    ("DEV_ENC_UTIL", "DEV_ENC_UTIL_RATIO", _PERCENT),
    ("DEV_DEC_UTIL", "DEV_DEC_UTIL_RATIO", _PERCENT),
    ("DEV_XID_ERRORS", "DEV_XID_ERROR", 1.0),
    ("DEV_FB_FREE", "DEV_FB_FREE_BYTES", _MIB),
    ("DEV_FB_USED", "DEV_FB_USED_BYTES", _MIB),
    ("DEV_FB_RESERVED", "DEV_FB_RESERVED_BYTES", _MIB),
    # DCGM computes the old field as KiB / 1,000, and the new field as KiB × 1,024.
    ("DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1_024_000.0),
    ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 1.0),
    ("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", 1.0),
    ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", 1.0),
    ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", 1.0),
    ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", 1.0),
    ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", 1.0),
)
# Renamed fields outside the default set, for users' own CSV files: (old name, new name, new value / old value).
_OTHER_RENAMES: tuple[tuple[str, str, float], ...] = (
    ("DEV_FB_TOTAL", "DEV_FB_CAPACITY_BYTES", _MIB),
    ("DEV_FB_USED_PERCENT", "DEV_FB_USED_RATIO", 1.0),
    ("DEV_VIDEO_CLOCK", "DEV_VIDEO_CLOCK_HERTZ", _MHZ),
    ("DEV_MAX_SM_CLOCK", "DEV_SM_MAX_CLOCK_HERTZ", _MHZ),
    ("DEV_MAX_MEM_CLOCK", "DEV_MEMORY_MAX_CLOCK_HERTZ", _MHZ),
    ("DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS", 1.0),
    ("DEV_SHUTDOWN_TEMP", "DEV_GPU_TEMP_SHUTDOWN_CELSIUS", 1.0),
    ("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS", 1.0),
    ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", 1.0),
    ("DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", 1.0),
    ("DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS", 1.0),
    ("DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS", 1.0),
    ("DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", 1.0),
    ("DEV_FAN_SPEED", "DEV_FAN_SPEED_RATIO", _PERCENT),
    ("DEV_PSTATE", "DEV_GPU_PSTATE", 1.0),
    ("DEV_BAR1_USED", "DEV_BAR1_USED_BYTES", _MIB),
    ("DEV_BAR1_TOTAL", "DEV_BAR1_CAPACITY_BYTES", _MIB),
    ("DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", 1.0),
    ("DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", 1.0),
    ("DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING", 1.0),
    ("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", 1.0),
    ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL", 1.0),
    ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL", 1.0),
    ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", 1.0),
    ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", 1.0),
    ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO", 1.0),
    ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO", 1.0),
    ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO", 1.0),
)
# Labels: their names in 4.8 and in 4.9.
DRIVER_LABELS = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
HOSTNAME_LABELS = ("Hostname", "hostname")
_LABEL_RENAMES = dict([DRIVER_LABELS, HOSTNAME_LABELS])
_RENAMES = {old: (new, factor) for old, new, factor in (*DEFAULT_RENAMES, *_OTHER_RENAMES)}


def _rename_row(row: Row) -> Row:
    new_name, factor = _RENAMES.get(row.name, (row.name, 1.0))
    old_unit, new_unit = _UNIT_TEXTS.get(factor, ("", ""))
    return replace(row, name=new_name, help=row.help.replace(old_unit, new_unit), factor=row.factor * factor)


def _rename_unserved(missing: UnservedNames) -> UnservedNames:
    name = missing.names.removeprefix(DCGM.prefix)
    return replace(missing, names=DCGM.prefix + _RENAMES[name][0]) if name in _RENAMES else missing


DCGM_4_9 = replace(
    DCGM,
    version="4.9",
    labels=tuple(replace(label, name=_LABEL_RENAMES.get(label.name, label.name)) for label in DCGM.labels),
    rows=tuple(map(_rename_row, DCGM.rows)),
    missing=tuple(map(_rename_unserved, DCGM.missing)),
    hostname_labels=HOSTNAME_LABELS[::-1],
    note=(
        "The release notes of 4.9 do not list the new metric names. The names here are from NVIDIA/go-dcgm, "
        "except for these, which are not confirmed: `DCGM_FI_DEV_{MEMORY,ENC,DEC}_UTIL_RATIO`, "
        "`DCGM_FI_DEV_FB_{FREE,USED,RESERVED,CAPACITY}_BYTES` and `DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND`."
    ),
)
