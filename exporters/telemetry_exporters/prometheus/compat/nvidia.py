"""Tables of nvidia_gpu_exporter and nvitop-exporter."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import (
    MEBI,
    MEGA,
    PERCENT,
    Constant,
    ExporterTable,
    FactNumber,
    Label,
    NodeRow,
    PerLabelValue,
    Row,
    StateNumber,
    Total,
    UnservedNames,
    first_of,
)

# The poll `fast` reads NVML's real cards. The poll `readings` reads simulated cards.
_SOURCE, _POLLS = "nvml", ("fast", "readings")
_THROTTLE_REASONS = {
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "sw_thermal": "sw_thermal_slowdown",
    "hw_thermal": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake_slowdown",
    "sync_boost": "sync_boost",
    "applications_clocks": "applications_clocks_setting",
}
_REASONS_WITH_SECONDS = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake", "sync_boost")
_COUNTER_NOTE = "NVML's `perf_policy` counters are the source of sw_power_cap and sync_boost"
# Locations of memory errors: (name in the exporter, our name).
_LOCATIONS = (("device_memory", "dram"), ("dram", "dram"), ("sram", "sram"))
_RECOVERY_NUMBERS = {"none": 0.0, "reset": 1.0, "reboot": 2.0, "drain": 3.0, "drain_and_reset": 4.0}
_COMPUTE_MODES = {"default": 0.0, "exclusive_thread": 1.0, "prohibited": 2.0, "exclusive_process": 3.0}
_FABRIC_STATES = {"not_started": 1.0, "in_progress": 2.0, "completed": 3.0}
_OFF_ON_NUMBERS = {"off": 0.0, "on": 1.0}
_MIG_LABELS = (Label("gpu_instance_id", facts.partition_only("gpu_instance")),)


def _xid_number(event_code: str) -> str:
    return event_code.removeprefix("xid_") if event_code.startswith("xid_") else ""


def _ecc_rows() -> tuple[Row, ...]:
    scopes = (("volatile", ""), ("aggregate", "_lifetime"))
    kinds = ("corrected", "uncorrected")
    totals = (
        Row(
            f"ecc_errors_{kind}_{scope}_total",
            f"ecc.errors.{kind}.{scope}.total",
            Total(f"ecc_{kind}{suffix}_total"),
            scope="cards",
        )
        for scope, suffix in scopes
        for kind in kinds
    )
    by_location = (
        Row(
            f"ecc_errors_{kind}_{scope}_{nvidia_location}",
            f"ecc.errors.{kind}.{scope}.{nvidia_location}",
            first_of(f"ecc_{kind}{suffix}_total{{{ours}}}"),
            scope="cards",
        )
        for scope, suffix in scopes
        for kind in kinds
        for nvidia_location, ours in _LOCATIONS
    )
    return (*totals, *by_location)


# A table with one row per line.
# fmt: off
_INFO_ROW = Row(
    "gpu_info", "Always 1; its labels identify the GPU.", Constant(),
    device_labels=(
        Label("name", facts.model), Label("index", facts.number), Label("pci_bus_id", facts.long_bus_id), Label("serial", facts.serial),
        Label("driver_version", facts.driver), Label("vbios_version", facts.fact("firmware")), Label("cuda_version", facts.fact("cuda_version")),
        Label("compute_cap", facts.fact("compute_capability")), Label("driver_model_current", facts.always("[N/A]")),
        Label("driver_model_pending", facts.always("[N/A]")),
    ),
    deviation="the label `pci_sub_device_id` is missing, because it is not read", scope="cards",
)
_CARD_ROWS = (
    ("index", "index", FactNumber(facts.number)),
    ("serial", "serial", FactNumber(facts.serial)),
    ("compute_cap", "compute_cap", FactNumber(facts.fact("compute_capability"), readings=("info{compute_capability}",))),
    ("pstate", "pstate", first_of("performance_state")),
    ("utilization_gpu_ratio", "utilization.gpu [%]", first_of("utilization_ratio")),
    ("utilization_memory_ratio", "utilization.memory [%]", first_of("memory_activity_ratio")),
    ("utilization_encoder_ratio", "utilization.encoder [%]", first_of("engine_utilization_ratio{encoder}")),
    ("utilization_decoder_ratio", "utilization.decoder [%]", first_of("engine_utilization_ratio{decoder}")),
    ("utilization_jpeg_ratio", "utilization.jpeg [%]", first_of("engine_utilization_ratio{jpeg}")),
    ("utilization_ofa_ratio", "utilization.ofa [%]", first_of("engine_utilization_ratio{optical_flow}")),
    ("memory_used_bytes", "memory.used [MiB]", first_of("memory_used_bytes")),
    ("memory_total_bytes", "memory.total [MiB]", first_of("memory_total_bytes")),
    ("memory_free_bytes", "memory.free [MiB]", first_of("memory_free_bytes")),
    ("memory_reserved_bytes", "memory.reserved [MiB]", first_of("memory_reserved_bytes")),
    ("temperature_gpu", "temperature.gpu", first_of("temperature_celsius{core}", "temperature_celsius{junction}", "temperature_celsius{edge}")),
    ("temperature_memory", "temperature.memory", first_of("temperature_celsius{memory}")),
    ("temperature_gpu_tlimit", "temperature.gpu.tlimit", first_of("temperature_margin_celsius")),
    ("power_draw_watts", "power.draw [W]", first_of("power_watts")),
    ("power_draw_average_watts", "power.draw.average [W]", first_of("power_average_watts")),
    ("power_draw_instant_watts", "power.draw.instant [W]", first_of("power_instant_watts")),
    ("enforced_power_limit_watts", "enforced.power.limit [W]", first_of("power_cap_watts")),
    ("power_default_limit_watts", "power.default_limit [W]", first_of("power_cap_default_watts")),
    ("power_min_limit_watts", "power.min_limit [W]", first_of("power_cap_min_watts")),
    ("power_max_limit_watts", "power.max_limit [W]", first_of("power_cap_max_watts")),
    ("fan_speed_ratio", "fan.speed [%]", first_of("fan_ratio")),
    ("clocks_current_graphics_clock_hz", "clocks.current.graphics [MHz]", first_of("clock_hertz{graphics}")),
    ("clocks_current_sm_clock_hz", "clocks.current.sm [MHz]", first_of("clock_hertz{sm}")),
    ("clocks_current_memory_clock_hz", "clocks.current.memory [MHz]", first_of("clock_hertz{memory}")),
    ("clocks_current_video_clock_hz", "clocks.current.video [MHz]", first_of("clock_hertz{video}")),
    ("clocks_max_graphics_clock_hz", "clocks.max.graphics [MHz]", first_of("clock_max_hertz{graphics}")),
    ("clocks_max_sm_clock_hz", "clocks.max.sm [MHz]", first_of("clock_max_hertz{sm}")),
    ("clocks_max_memory_clock_hz", "clocks.max.memory [MHz]", first_of("clock_max_hertz{memory}")),
    ("pcie_link_gen_current", "pcie.link.gen.current", first_of("pcie_link_generation")),
    ("pcie_link_gen_max", "pcie.link.gen.max", first_of("pcie_link_generation_max")),
    ("pcie_link_width_current", "pcie.link.width.current", first_of("pcie_link_width")),
    ("pcie_link_width_max", "pcie.link.width.max", first_of("pcie_link_width_max")),
    ("ecc_mode_current", "ecc.mode.current", first_of("ecc_enabled")),
    ("remapped_rows_correctable", "remapped_rows.correctable", first_of("remapped_rows{correctable}")),
    ("remapped_rows_uncorrectable", "remapped_rows.uncorrectable", first_of("remapped_rows{uncorrectable}")),
    ("remapped_rows_pending", "remapped_rows.pending", first_of("row_remap_pending")),
    ("remapped_rows_failure", "remapped_rows.failure", first_of("row_remap_failed")),
    ("retired_pages_pending", "retired_pages.pending", first_of("retired_pages_pending")),
    ("gpu_recovery_action", "gpu_recovery_action", StateNumber("recovery_action", _RECOVERY_NUMBERS)),
    ("compute_mode", "compute_mode", FactNumber(facts.fact("compute_mode"), _COMPUTE_MODES, ("info{compute_mode}",))),
    ("persistence_mode", "persistence_mode", FactNumber(facts.fact("persistence_mode"), _OFF_ON_NUMBERS, ("info{persistence_mode}",))),
    ("mig_mode_current", "mig.mode.current", FactNumber(facts.fact("mig_mode"), _OFF_ON_NUMBERS, ("info{mig_mode}",))),
    ("mig_mode_pending", "mig.mode.pending", FactNumber(facts.either(facts.fact("mig_mode_pending"), facts.fact("mig_mode")), _OFF_ON_NUMBERS, ("info{mig_mode}",))),
    ("ecc_mode_pending", "ecc.mode.pending", FactNumber(facts.either(facts.fact("ecc_mode_pending"), facts.fact("ecc_mode")), _OFF_ON_NUMBERS, ("info{ecc_mode}",))),
    ("fabric_clique_id", "fabric.clique_id", FactNumber(facts.fact("fabric_clique"), readings=("info{fabric_clique}",))),
    ("fabric_state", "fabric.state", FactNumber(facts.fact("fabric_state"), _FABRIC_STATES, ("info{fabric_state}",))),
)
_NVIDIA_GPU_ROWS = (
    _INFO_ROW,
    *(Row(name, words, formula, scope="cards") for name, words, formula in _CARD_ROWS),
    Row("power_limit_watts", "power.limit [W]", first_of("power_cap_watts"), deviation="the limit in force", scope="cards"),
    Row("energy_joules_total", "Energy drawn since the driver was loaded.", first_of("energy_joules_total"), kind="counter", scope="cards"),
    *(Row(f"clocks_event_reasons_{theirs}", f"clocks_event_reasons.{theirs}", first_of(f"throttled{{{ours}}}"), scope="cards") for ours, theirs in _THROTTLE_REASONS.items()),
    *(Row(f"clocks_throttle_reasons_{theirs}", f"clocks_throttle_reasons.{theirs}", first_of(f"throttled{{{ours}}}"), deviation="the name before driver 535; the new name is also served", scope="cards") for ours, theirs in _THROTTLE_REASONS.items()),
    *(Row(f"clocks_event_reasons_counters_{_THROTTLE_REASONS[ours]}_seconds", f"clocks_event_reasons_counters.{_THROTTLE_REASONS[ours]} [us]", first_of(f"throttled_seconds_total{{{ours}}}"), deviation=_COUNTER_NOTE, scope="cards") for ours in _REASONS_WITH_SECONDS),
    *_ecc_rows(),
    Row("xid_errors_total", "Xid events since the daemon started.", PerLabelValue("events_total", "xid", _xid_number), kind="counter", scope="cards"),
    Row("xid_last_timestamp_seconds", "Unix time of the last Xid with this number.", PerLabelValue("event_last_timestamp_seconds", "xid", _xid_number), scope="cards"),
    Row("compute_apps", "Processes with a compute context.", first_of("processes"), deviation="includes processes that have only a graphics context", scope="cards"),
    Row("mig_info", "Always 1; its labels identify the MIG device.", Constant(), device_labels=(Label("mig_uuid", facts.own_uuid), *_MIG_LABELS, Label("compute_instance_id", facts.partition_only("compute_instance")), Label("profile", facts.partition_only("profile"))), scope="partitions"),
    *(Row(f"mig_memory_{part}_bytes", f"Memory of the GPU instance: {part}.", first_of(f"memory_{part}_bytes"), device_labels=_MIG_LABELS, scope="partitions") for part in ("total", "used", "free", "reserved")),
    Row("mig_graphics_activity_ratio", "Share of time in which any compute or graphics work ran.", first_of("graphics_active_ratio"), device_labels=_MIG_LABELS, scope="partitions"),
    Row("mig_sm_activity_ratio", "Share of time in which a multiprocessor had at least one warp. Average of all multiprocessors.", first_of("sm_active_ratio"), device_labels=_MIG_LABELS, scope="partitions"),
    Row("mig_sm_occupancy_ratio", "Resident warps as a share of the maximum.", first_of("sm_occupancy_ratio"), device_labels=_MIG_LABELS, scope="partitions"),
    Row("mig_tensor_activity_ratio", "Share of time in which the tensor pipes worked.", first_of("tensor_active_ratio"), device_labels=_MIG_LABELS, scope="partitions"),
)
_NODE_ROWS = (
    NodeRow("last_collect_success", "1 if the latest poll of the GPUs succeeded.", "telemetry_source_up", _SOURCE),
    NodeRow("last_collect_success_timestamp_seconds", "Unix time of the latest successful poll.", "telemetry_source_last_success_timestamp_seconds", _SOURCE, _POLLS),
    NodeRow("last_collect_duration_seconds", "Duration of the latest poll.", "telemetry_source_duration_seconds", _SOURCE, _POLLS),
    NodeRow("failed_scrapes_total", "Failed polls.", "telemetry_source_failures_total", _SOURCE, _POLLS, kind="counter"),
)
_NVIDIA_GPU_MISSING = (
    UnservedNames("nvidia_smi_clocks_event_reasons_{active,supported,gpu_idle}", "an idle GPU is not throttled and has no reason"),
    UnservedNames("nvidia_smi_pcie_throughput_{tx,rx}_bytes_per_second", "`accelerator_pcie_…_bytes_total` count bytes; the call takes 20 ms per card"),
    UnservedNames("nvidia_smi_compute_app_info, nvidia_smi_compute_app_used_memory_bytes, nvidia_smi_compute_apps_last_collect_success", "with `attribution.process_metrics`, `accelerator_process_memory_bytes` has the values"),
    UnservedNames("nvidia_smi_count", "`count(nvidia_smi_index)` returns this number"),
    UnservedNames("nvidia_smi_{name,driver_version,kmd_version}", "most drivers print texts; `nvidia_smi_gpu_info` has them as labels"),
    UnservedNames("nvidia_smi_command_exit_code, nvidia_smi_nvml_return_code", "`telemetry_source_failures_total` counts failures by reason"),
    UnservedNames("nvidia_smi_pcie_link_gen_{gpucurrent,gpumax,hostmax}", "only the link between GPU and host is read; see `nvidia_smi_pcie_link_gen_{current,max}`"),
    UnservedNames("nvidia_smi_ecc_errors_uncorrected_{aggregate,volatile}_sram_*", "the kinds of SRAM errors are not read"),
    UnservedNames("nvidia_smi_ecc_errors_*_{texture_memory,l1_cache,l2_cache,cbu,register_file}", "only on old GPUs"),
    UnservedNames("nvidia_smi_driver_model_*, nvidia_smi_display_*, nvidia_smi_clocks_applications_*", "not read"),
    UnservedNames("nvidia_smi_accounting_*, nvidia_smi_c2c_mode, nvidia_smi_edpp_multiplier_ratio, nvidia_smi_gsp_mode_*", "not read"),
    UnservedNames("nvidia_smi_inforom_*, nvidia_smi_pci_*, nvidia_smi_platform_*, nvidia_smi_encoder_stats_*, nvidia_smi_protected_memory_*, nvidia_smi_remapped_rows_{histogram_*,*_inactive}, nvidia_smi_multi_part_*", "not read"),
)
# fmt: on

# The names are from docs/METRICS.md and from captured pages @ e656cd8.
NVIDIA_GPU = ExporterTable(
    name="nvidia_gpu_exporter",
    source="utkuozdemir/nvidia_gpu_exporter",
    vendors=("nvidia",),
    port=9835,
    prefix="nvidia_smi_",
    labels=(Label("uuid", facts.bare_uuid),),
    rows=_NVIDIA_GPU_ROWS,
    node_rows=_NODE_ROWS,
    missing=_NVIDIA_GPU_MISSING,
    has_partitions=True,
)
# A table with one row per line.
# fmt: off
_NVITOP_ROWS = (
    Row("gpu_utilization_Percentage", "GPU utilization rate (%).", first_of("utilization_ratio"), PERCENT),
    Row("gpu_memory_utilization_Percentage", "GPU memory utilization rate (%).", first_of("memory_activity_ratio"), PERCENT),
    Row("gpu_encoder_utilization_Percentage", "GPU encoder utilization rate (%).", first_of("engine_utilization_ratio{encoder}"), PERCENT),
    Row("gpu_decoder_utilization_Percentage", "GPU decoder utilization rate (%).", first_of("engine_utilization_ratio{decoder}"), PERCENT),
    Row("gpu_memory_total_MiB", "Total GPU memory (MiB).", first_of("memory_total_bytes"), MEBI),
    Row("gpu_memory_used_MiB", "Used GPU memory (MiB).", first_of("memory_used_bytes"), MEBI),
    Row("gpu_memory_free_MiB", "Free GPU memory (MiB).", first_of("memory_free_bytes"), MEBI),
    Row("gpu_memory_percent_Percentage", "Used GPU memory (%).", first_of("memory_used_ratio"), PERCENT),
    Row("gpu_clock_sm_MHz", "SM clock speed (MHz).", first_of("clock_hertz{sm}", "clock_hertz{graphics}"), MEGA),
    Row("gpu_clock_memory_MHz", "Memory clock speed (MHz).", first_of("clock_hertz{memory}"), MEGA),
    Row("gpu_clock_graphics_MHz", "Graphics clock speed (MHz).", first_of("clock_hertz{graphics}"), MEGA),
    Row("gpu_clock_video_MHz", "Video clock speed (MHz).", first_of("clock_hertz{video}"), MEGA),
    Row("gpu_power_usage_W", "Power usage (W).", first_of("power_watts")),
    Row("gpu_power_limit_W", "Power limit (W).", first_of("power_cap_watts")),
    Row("gpu_temperature_C", "Temperature (C).", first_of("temperature_celsius{core}", "temperature_celsius{junction}", "temperature_celsius{edge}")),
    Row("gpu_fan_speed_Percentage", "Fan speed (%).", first_of("fan_ratio"), PERCENT),
)
_NVITOP_MISSING = (
    UnservedNames("gpu_pcie_*_throughput_MiBps, gpu_nvlink_*_MiBps", "rates; `accelerator_pcie_…_bytes_total` and `accelerator_link_…_bytes_total` count bytes"),
    UnservedNames("host_*", "node_exporter exposes the host's metrics"),
    UnservedNames("process_*", "`accelerator_process_memory_bytes` has the memory of each process"),
)
# fmt: on

# The names are from nvitop_exporter/exporter.py @ 3e797b2.
NVITOP = ExporterTable(
    name="nvitop-exporter",
    source="XuehaiPan/nvitop",
    vendors=("nvidia",),
    port=5050,
    prefix="",
    labels=(
        Label("hostname", facts.hostname),
        Label("index", facts.number),
        Label("devicename", facts.model),
        Label("uuid", facts.uuid),
    ),
    rows=_NVITOP_ROWS,
    missing=_NVITOP_MISSING,
    hostname_labels=("hostname",),
)
