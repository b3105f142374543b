"""Tables of nvidia_gpu_exporter and nvitop-exporter."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import (
    MEBI,
    MEGA,
    PERCENT,
    Always,
    Each,
    Label,
    Missing,
    NodeRow,
    NumberOf,
    OfFact,
    Peer,
    Row,
    Total,
    one,
)

# NVML's fast poll, and that of simulated cards.
_SOURCE, _POLLS = "nvml", ("fast", "readings")
_REASONS = {
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "sw_thermal": "sw_thermal_slowdown",
    "hw_thermal": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake_slowdown",
    "sync_boost": "sync_boost",
    "applications_clocks": "applications_clocks_setting",
}
_COUNTED = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake", "sync_boost")
_BY_POLICY = "NVML's count by policy for sw_power_cap and sync_boost"
# Locations of memory errors. A card with SRAM counts reports its device memory as DRAM.
_LOCATIONS = (("device_memory", "dram"), ("dram", "dram"), ("sram", "sram"))
_RECOVERY = {"none": 0.0, "reset": 1.0, "reboot": 2.0, "drain": 3.0, "drain_and_reset": 4.0}
_COMPUTE_MODES = {"default": 0.0, "exclusive_thread": 1.0, "prohibited": 2.0, "exclusive_process": 3.0}
_FABRIC_STATES = {"not_started": 1.0, "in_progress": 2.0, "completed": 3.0}
_SWITCH = {"off": 0.0, "on": 1.0}
_MIG_LABELS = (Label("gpu_instance_id", facts.partition_only("gpu_instance")),)


def _xid(word: str) -> str:
    return word.removeprefix("xid_") if word.startswith("xid_") else ""


def _ecc() -> tuple[Row, ...]:
    """Return the rows of volatile and aggregate errors, in total and by location."""
    spans = (("volatile", ""), ("aggregate", "_lifetime"))
    kinds = ("corrected", "uncorrected")
    totals = (
        Row(
            f"ecc_errors_{kind}_{span}_total",
            f"ecc.errors.{kind}.{span}.total",
            Total(f"ecc_{kind}{lasting}_total"),
            only="cards",
        )
        for span, lasting in spans
        for kind in kinds
    )
    placed = (
        Row(
            f"ecc_errors_{kind}_{span}_{theirs}",
            f"ecc.errors.{kind}.{span}.{theirs}",
            one(f"ecc_{kind}{lasting}_total{{{ours}}}"),
            only="cards",
        )
        for span, lasting in spans
        for kind in kinds
        for theirs, ours in _LOCATIONS
    )
    return (*totals, *placed)


# A table: a row is a line.
# fmt: off
_INFO = Row(
    "gpu_info", "Always 1; its labels identify the GPU.", Always(),
    facts=(
        Label("name", facts.model), Label("index", facts.number), Label("pci_bus_id", facts.long_bus_id), Label("serial", facts.serial),
        Label("driver_version", facts.driver), Label("vbios_version", facts.fact("firmware")), Label("cuda_version", facts.fact("cuda_version")),
        Label("compute_cap", facts.fact("compute_capability")), Label("driver_model_current", facts.always("[N/A]")),
        Label("driver_model_pending", facts.always("[N/A]")),
    ),
    near="without `pci_sub_device_id`, which is not read", only="cards",
)
_OF_CARDS = (
    ("index", "index", OfFact(facts.number)),
    ("serial", "serial", OfFact(facts.serial)),
    ("compute_cap", "compute_cap", OfFact(facts.fact("compute_capability"), readings=("info{compute_capability}",))),
    ("pstate", "pstate", one("performance_state")),
    ("utilization_gpu_ratio", "utilization.gpu [%]", one("utilization_ratio")),
    ("utilization_memory_ratio", "utilization.memory [%]", one("memory_activity_ratio")),
    ("utilization_encoder_ratio", "utilization.encoder [%]", one("engine_utilization_ratio{encoder}")),
    ("utilization_decoder_ratio", "utilization.decoder [%]", one("engine_utilization_ratio{decoder}")),
    ("utilization_jpeg_ratio", "utilization.jpeg [%]", one("engine_utilization_ratio{jpeg}")),
    ("utilization_ofa_ratio", "utilization.ofa [%]", one("engine_utilization_ratio{optical_flow}")),
    ("memory_used_bytes", "memory.used [MiB]", one("memory_used_bytes")),
    ("memory_total_bytes", "memory.total [MiB]", one("memory_total_bytes")),
    ("memory_free_bytes", "memory.free [MiB]", one("memory_free_bytes")),
    ("memory_reserved_bytes", "memory.reserved [MiB]", one("memory_reserved_bytes")),
    ("temperature_gpu", "temperature.gpu", one("temperature_celsius{core}", "temperature_celsius{junction}", "temperature_celsius{edge}")),
    ("temperature_memory", "temperature.memory", one("temperature_celsius{memory}")),
    ("temperature_gpu_tlimit", "temperature.gpu.tlimit", one("temperature_margin_celsius")),
    ("power_draw_watts", "power.draw [W]", one("power_watts")),
    ("power_draw_average_watts", "power.draw.average [W]", one("power_average_watts")),
    ("power_draw_instant_watts", "power.draw.instant [W]", one("power_instant_watts")),
    ("enforced_power_limit_watts", "enforced.power.limit [W]", one("power_cap_watts")),
    ("power_default_limit_watts", "power.default_limit [W]", one("power_cap_default_watts")),
    ("power_min_limit_watts", "power.min_limit [W]", one("power_cap_min_watts")),
    ("power_max_limit_watts", "power.max_limit [W]", one("power_cap_max_watts")),
    ("fan_speed_ratio", "fan.speed [%]", one("fan_ratio")),
    ("clocks_current_graphics_clock_hz", "clocks.current.graphics [MHz]", one("clock_hertz{graphics}")),
    ("clocks_current_sm_clock_hz", "clocks.current.sm [MHz]", one("clock_hertz{sm}")),
    ("clocks_current_memory_clock_hz", "clocks.current.memory [MHz]", one("clock_hertz{memory}")),
    ("clocks_current_video_clock_hz", "clocks.current.video [MHz]", one("clock_hertz{video}")),
    ("clocks_max_graphics_clock_hz", "clocks.max.graphics [MHz]", one("clock_max_hertz{graphics}")),
    ("clocks_max_sm_clock_hz", "clocks.max.sm [MHz]", one("clock_max_hertz{sm}")),
    ("clocks_max_memory_clock_hz", "clocks.max.memory [MHz]", one("clock_max_hertz{memory}")),
    ("pcie_link_gen_current", "pcie.link.gen.current", one("pcie_link_generation")),
    ("pcie_link_gen_max", "pcie.link.gen.max", one("pcie_link_generation_max")),
    ("pcie_link_width_current", "pcie.link.width.current", one("pcie_link_width")),
    ("pcie_link_width_max", "pcie.link.width.max", one("pcie_link_width_max")),
    ("ecc_mode_current", "ecc.mode.current", one("ecc_enabled")),
    ("remapped_rows_correctable", "remapped_rows.correctable", one("remapped_rows{correctable}")),
    ("remapped_rows_uncorrectable", "remapped_rows.uncorrectable", one("remapped_rows{uncorrectable}")),
    ("remapped_rows_pending", "remapped_rows.pending", one("row_remap_pending")),
    ("remapped_rows_failure", "remapped_rows.failure", one("row_remap_failed")),
    ("retired_pages_pending", "retired_pages.pending", one("retired_pages_pending")),
    ("gpu_recovery_action", "gpu_recovery_action", NumberOf("recovery_action", _RECOVERY)),
    ("compute_mode", "compute_mode", OfFact(facts.fact("compute_mode"), _COMPUTE_MODES, ("info{compute_mode}",))),
    ("persistence_mode", "persistence_mode", OfFact(facts.fact("persistence_mode"), _SWITCH, ("info{persistence_mode}",))),
    ("mig_mode_current", "mig.mode.current", OfFact(facts.fact("mig_mode"), _SWITCH, ("info{mig_mode}",))),
    ("mig_mode_pending", "mig.mode.pending", OfFact(facts.either(facts.fact("mig_mode_pending"), facts.fact("mig_mode")), _SWITCH, ("info{mig_mode}",))),
    ("ecc_mode_pending", "ecc.mode.pending", OfFact(facts.either(facts.fact("ecc_mode_pending"), facts.fact("ecc_mode")), _SWITCH, ("info{ecc_mode}",))),
    ("fabric_clique_id", "fabric.clique_id", OfFact(facts.fact("fabric_clique"), readings=("info{fabric_clique}",))),
    ("fabric_state", "fabric.state", OfFact(facts.fact("fabric_state"), _FABRIC_STATES, ("info{fabric_state}",))),
)
_NVIDIA_GPU_ROWS = (
    _INFO,
    *(Row(name, words, way, only="cards") for name, words, way in _OF_CARDS),
    Row("power_limit_watts", "power.limit [W]", one("power_cap_watts"), near="the limit in force", only="cards"),
    Row("energy_joules_total", "Energy drawn since the driver was loaded.", one("energy_joules_total"), kind="counter", only="cards"),
    *(Row(f"clocks_event_reasons_{theirs}", f"clocks_event_reasons.{theirs}", one(f"throttled{{{ours}}}"), only="cards") for ours, theirs in _REASONS.items()),
    *(Row(f"clocks_throttle_reasons_{theirs}", f"clocks_throttle_reasons.{theirs}", one(f"throttled{{{ours}}}"), near="the name before driver 535, served beside the new one", only="cards") for ours, theirs in _REASONS.items()),
    *(Row(f"clocks_event_reasons_counters_{_REASONS[ours]}_seconds", f"clocks_event_reasons_counters.{_REASONS[ours]} [us]", one(f"throttled_seconds_total{{{ours}}}"), near=_BY_POLICY, only="cards") for ours in _COUNTED),
    *_ecc(),
    Row("xid_errors_total", "Xid events since the daemon started.", Each("events_total", "xid", _xid), kind="counter", only="cards"),
    Row("xid_last_timestamp_seconds", "Unix time of the last Xid of that number.", Each("event_last_timestamp_seconds", "xid", _xid), only="cards"),
    Row("compute_apps", "Processes with a compute context.", one("processes"), near="processes with a graphics context alone count, too", only="cards"),
    Row("mig_info", "Always 1; its labels identify the MIG device.", Always(), facts=(Label("mig_uuid", facts.own_uuid), *_MIG_LABELS, Label("compute_instance_id", facts.partition_only("compute_instance")), Label("profile", facts.partition_only("profile"))), only="partitions"),
    *(Row(f"mig_memory_{part}_bytes", f"Memory of the GPU instance: {part}.", one(f"memory_{part}_bytes"), facts=_MIG_LABELS, only="partitions") for part in ("total", "used", "free", "reserved")),
    Row("mig_graphics_activity_ratio", "Share of time in which any compute or graphics work ran.", one("graphics_active_ratio"), facts=_MIG_LABELS, only="partitions"),
    Row("mig_sm_activity_ratio", "Share of time and multiprocessors with at least one warp.", one("sm_active_ratio"), facts=_MIG_LABELS, only="partitions"),
    Row("mig_sm_occupancy_ratio", "Resident warps as a share of the maximum.", one("sm_occupancy_ratio"), facts=_MIG_LABELS, only="partitions"),
    Row("mig_tensor_activity_ratio", "Share of time in which the tensor pipes worked.", one("tensor_active_ratio"), facts=_MIG_LABELS, only="partitions"),
)
_NODE_ROWS = (
    NodeRow("last_collect_success", "1 when the last reading of the GPUs succeeded.", "telemetry_source_up", _SOURCE),
    NodeRow("last_collect_success_timestamp_seconds", "Unix time of the last reading that succeeded.", "telemetry_source_last_success_timestamp_seconds", _SOURCE, _POLLS),
    NodeRow("last_collect_duration_seconds", "Duration of the last reading.", "telemetry_source_duration_seconds", _SOURCE, _POLLS),
    NodeRow("failed_scrapes_total", "Readings that failed.", "telemetry_source_failures_total", _SOURCE, _POLLS, kind="counter"),
)
_NVIDIA_GPU_MISSING = (
    Missing("nvidia_smi_clocks_event_reasons_{active,supported,gpu_idle}", "an idle GPU is not throttled and has no reason"),
    Missing("nvidia_smi_pcie_throughput_{tx,rx}_bytes_per_second", "`accelerator_pcie_…_bytes_total` count bytes; the call takes 20 ms a card"),
    Missing("nvidia_smi_compute_app_info, nvidia_smi_compute_app_used_memory_bytes, nvidia_smi_compute_apps_last_collect_success", "`accelerator_process_memory_bytes` has them, with `[attribution] process_metrics`"),
    Missing("nvidia_smi_count", "`count(nvidia_smi_index)` is the same number"),
    Missing("nvidia_smi_{name,driver_version,kmd_version}", "texts that some drivers print as numbers: `nvidia_smi_gpu_info` has them"),
    Missing("nvidia_smi_command_exit_code, nvidia_smi_nvml_return_code", "`telemetry_source_failures_total` counts failures by reason"),
    Missing("nvidia_smi_pcie_link_gen_{gpucurrent,gpumax,hostmax}", "the link of the GPU alone is not read; `nvidia_smi_pcie_link_gen_{current,max}` are those of GPU and host"),
    Missing("nvidia_smi_ecc_errors_uncorrected_{aggregate,volatile}_sram_*", "the kinds of SRAM errors are not read"),
    Missing("nvidia_smi_ecc_errors_*_{texture_memory,l1_cache,l2_cache,cbu,register_file}", "only on old GPUs"),
    Missing("nvidia_smi_driver_model_*, nvidia_smi_display_*, nvidia_smi_clocks_applications_*", "not read"),
    Missing("nvidia_smi_accounting_*, nvidia_smi_c2c_mode, nvidia_smi_edpp_multiplier_ratio, nvidia_smi_gsp_mode_*", "not read"),
    Missing("nvidia_smi_inforom_*, nvidia_smi_pci_*, nvidia_smi_platform_*, nvidia_smi_encoder_stats_*, nvidia_smi_protected_memory_*, nvidia_smi_remapped_rows_{histogram_*,*_inactive}, nvidia_smi_multi_part_*", "not read"),
)
# fmt: on

# The names of docs/METRICS.md and captured pages @ e656cd8.
NVIDIA_GPU = Peer(
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
# A table: a row is a line.
# fmt: off
_NVITOP_ROWS = (
    Row("gpu_utilization_Percentage", "GPU utilization rate (%).", one("utilization_ratio"), PERCENT),
    Row("gpu_memory_utilization_Percentage", "GPU memory utilization rate (%).", one("memory_activity_ratio"), PERCENT),
    Row("gpu_encoder_utilization_Percentage", "GPU encoder utilization rate (%).", one("engine_utilization_ratio{encoder}"), PERCENT),
    Row("gpu_decoder_utilization_Percentage", "GPU decoder utilization rate (%).", one("engine_utilization_ratio{decoder}"), PERCENT),
    Row("gpu_memory_total_MiB", "Total GPU memory (MiB).", one("memory_total_bytes"), MEBI),
    Row("gpu_memory_used_MiB", "Used GPU memory (MiB).", one("memory_used_bytes"), MEBI),
    Row("gpu_memory_free_MiB", "Free GPU memory (MiB).", one("memory_free_bytes"), MEBI),
    Row("gpu_memory_percent_Percentage", "Used GPU memory (%).", one("memory_used_ratio"), PERCENT),
    Row("gpu_clock_sm_MHz", "SM clock speed (MHz).", one("clock_hertz{sm}", "clock_hertz{graphics}"), MEGA),
    Row("gpu_clock_memory_MHz", "Memory clock speed (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("gpu_clock_graphics_MHz", "Graphics clock speed (MHz).", one("clock_hertz{graphics}"), MEGA),
    Row("gpu_clock_video_MHz", "Video clock speed (MHz).", one("clock_hertz{video}"), MEGA),
    Row("gpu_power_usage_W", "Power usage (W).", one("power_watts")),
    Row("gpu_power_limit_W", "Power limit (W).", one("power_cap_watts")),
    Row("gpu_temperature_C", "Temperature (C).", one("temperature_celsius{core}", "temperature_celsius{junction}", "temperature_celsius{edge}")),
    Row("gpu_fan_speed_Percentage", "Fan speed (%).", one("fan_ratio"), PERCENT),
)
_NVITOP_MISSING = (
    Missing("gpu_pcie_*_throughput_MiBps, gpu_nvlink_*_MiBps", "rates; `accelerator_pcie_…_bytes_total` and `accelerator_link_…_bytes_total` count bytes"),
    Missing("host_*", "node_exporter has the host's metrics"),
    Missing("process_*", "`accelerator_process_memory_bytes` has memory by process"),
)
# fmt: on

# The names of nvitop_exporter/exporter.py @ 3e797b2.
NVITOP = Peer(
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
