"""Tables of the exporters for AMD and Hygon cards."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import (
    GIGATRANSFERS_BY_GENERATION,
    HEALTH_NUMBERS,
    KIBI,
    MEBI,
    MEGA,
    MICRO,
    PERCENT,
    Constant,
    Converted,
    Difference,
    ExporterTable,
    Label,
    LabelFunction,
    NodeRow,
    PerIndex,
    PerLabelValue,
    Row,
    StateNumber,
    Total,
    UnservedNames,
    first_of,
)

_DEVICE_METRICS_BLOCKS = (
    "sdma", "gfx", "mmhub", "athub", "bif", "hdp", "xgmi_wafl", "df", "smn", "sem", "mp0", "mp1", "fuse", "umc", "mca", "vcn", "jpeg",
    "ih", "mpio",
)  # fmt: skip
_CLOCK_TYPES = {"graphics": "system", "memory": "memory", "video": "video", "soc": "soc", "fabric": "fabric"}
_ONE_PER_DOMAIN = "one clock per domain, without `clock_index`; `clock_type` is spelled as in 1.4.2 and later"
_ONE_FOR_ALL_ENGINES = "one value for all engines, shown as engine 0"
_OUR_LINK_ORDER = "`link_index` follows our order of links; it is `all` if only the sum is known"


def _hbm_stack_number(sensor: str) -> str:
    number = sensor.removeprefix("hbm")
    return number if sensor.startswith("hbm") and number.isdecimal() else ""


# A table with one row per line.
# fmt: off
_DEVICE_METRICS_ROWS = (
    Row("gpu_package_power", "Power of the package (W).", first_of("power_instant_watts")),
    Row("gpu_average_package_power", "Average power of the package (W).", first_of("power_average_watts")),
    Row("gpu_power_usage", "Power usage (W).", first_of("power_watts")),
    Row("gpu_edge_temperature", "Edge temperature (C).", first_of("temperature_celsius{edge}")),
    Row("gpu_junction_temperature", "Junction temperature (C).", first_of("temperature_celsius{junction}")),
    Row("gpu_memory_temperature", "Memory temperature (C).", first_of("temperature_celsius{memory}")),
    Row("gpu_hbm_temperature", "Temperature of a memory stack (C).", PerLabelValue("temperature_celsius", "hbm_index", _hbm_stack_number)),
    Row("gpu_energy_consumed", "Accumulated energy (uJ).", first_of("energy_joules_total"), MICRO),
    Row("gpu_gfx_activity", "Graphics engine usage (%).", first_of("utilization_ratio"), PERCENT),
    Row("gpu_umc_activity", "Memory engine usage (%).", first_of("memory_activity_ratio"), PERCENT),
    Row("gpu_total_vram", "Total VRAM (MB).", first_of("memory_total_bytes"), MEBI),
    Row("gpu_used_vram", "Used VRAM (MB).", first_of("memory_used_bytes"), MEBI),
    Row("gpu_free_vram", "Free VRAM (MB).", Difference(("memory_total_bytes", "memory_used_bytes")), MEBI),
    Row("gpu_total_gtt", "Total GTT memory (MB).", first_of("memory_gtt_total_bytes"), MEBI),
    Row("gpu_used_gtt", "Used GTT memory (MB).", first_of("memory_gtt_used_bytes"), MEBI),
    Row("gpu_free_gtt", "Free GTT memory (MB).", Difference(("memory_gtt_total_bytes", "memory_gtt_used_bytes")), MEBI),
    Row("gpu_vcn_activity", "Usage of the video engines (%).", first_of("engine_utilization_ratio{vcn}"), PERCENT, labels=(("vcn_index", "0"),), deviation=_ONE_FOR_ALL_ENGINES),
    Row("gpu_jpeg_activity", "Usage of the JPEG engines (%).", first_of("engine_utilization_ratio{jpeg}"), PERCENT, labels=(("jpeg_index", "0"),), deviation=_ONE_FOR_ALL_ENGINES),
    Row("gpu_clock", "Clock (MHz).", PerLabelValue("clock_hertz", "clock_type", _CLOCK_TYPES.get), MEGA, deviation=_ONE_PER_DOMAIN),
    Row("gpu_max_clock", "Highest clock (MHz).", PerLabelValue("clock_max_hertz", "clock_type", _CLOCK_TYPES.get), MEGA, deviation=_ONE_PER_DOMAIN),
    Row("gpu_ecc_correct_total", "Correctable errors.", Total("ecc_corrected_total")),
    Row("gpu_ecc_uncorrect_total", "Uncorrectable errors.", Total("ecc_uncorrected_total")),
    *(Row(f"gpu_ecc_correct_{block}", f"Correctable errors of {block}.", first_of(f"ecc_corrected_total{{{block}}}")) for block in _DEVICE_METRICS_BLOCKS),
    *(Row(f"gpu_ecc_uncorrect_{block}", f"Uncorrectable errors of {block}.", first_of(f"ecc_uncorrected_total{{{block}}}")) for block in _DEVICE_METRICS_BLOCKS),
    Row("pcie_replay_count", "PCIe packets retransmitted.", first_of("pcie_replays_total")),
    Row("pcie_recovery_count", "PCIe recoveries.", first_of("pcie_errors_total{l0_to_recovery}")),
    Row("pcie_nack_sent_count", "PCIe NAKs sent.", first_of("pcie_errors_total{nak_sent}")),
    Row("pcie_nack_received_count", "PCIe NAKs received.", first_of("pcie_errors_total{nak_received}")),
    Row("pcie_speed", "PCIe link speed (GT/s).", Converted(first_of("pcie_link_generation"), GIGATRANSFERS_BY_GENERATION.get), deviation="computed from the link's generation"),
    Row("pcie_max_speed", "Highest PCIe link speed (GT/s).", Converted(first_of("pcie_link_generation_max"), GIGATRANSFERS_BY_GENERATION.get), deviation="computed from the link's generation"),
    Row("gpu_xgmi_link_rx", "Data received over an XGMI link (KB).", PerIndex("link_receive_bytes_total", "link_index"), KIBI, deviation=_OUR_LINK_ORDER),
    Row("gpu_xgmi_link_tx", "Data sent over an XGMI link (KB).", PerIndex("link_transmit_bytes_total", "link_index"), KIBI, deviation=_OUR_LINK_ORDER),
    Row("gpu_health", "1 for a healthy GPU.", StateNumber("health", HEALTH_NUMBERS), deviation="only if the card reports its health"),
)
_DEVICE_METRICS_MISSING = (
    UnservedNames("gpu_{gfx,vcn,jpeg}_busy_instantaneous", "the activity of each die is not read"),
    UnservedNames("pcie_bandwidth, pcie_rx, pcie_tx, pcie_bidirectional_bandwidth", "the units of these rates are disputed; use `accelerator_pcie_…_bytes_per_second`, which exist if the card measures the rates"),
    UnservedNames("gpu_violation_*, gpu_min_clock, gpu_prof_*, gpu_afid_errors, gpu_{total,used,free}_visible_vram", "not read"),
    UnservedNames("pcie_replay_rollover_count", "not read"),
    UnservedNames("gpu_total_memory, gpu_usage", "old names of `gpu_total_vram` and `gpu_gfx_activity`"),
    UnservedNames("label deployment_mode", "always `baremetal`, because the mode is not read"),
    UnservedNames("label cluster_name", "set it in Prometheus (`external_labels` or `relabel_configs`)"),
)
# fmt: on

_NONE = facts.always("none")
_PART_NUMBER = facts.fact("oam_part_number", "part_number", "board_part_number")
# The names are from docs/configuration/metricslist.md @ afd0fe8.
DEVICE_METRICS = ExporterTable(
    name="device-metrics-exporter",
    source="ROCm/device-metrics-exporter",
    vendors=("amd",),
    port=5000,
    prefix="",
    labels=(
        Label("gpu_id", facts.number),
        Label("gpu_uuid", facts.uuid),
        Label("serial_number", facts.serial),
        Label("card_series", facts.model),
        Label("card_model", facts.either(_PART_NUMBER, facts.model)),
        Label("card_vendor", facts.always("Advanced Micro Devices, Inc. [AMD/ATI]")),
        Label("hostname", facts.hostname),
        Label("gpu_partition_id", facts.partition_number),
        Label("gpu_compute_partition_type", facts.lower(facts.either(facts.fact("compute_partition"), _NONE))),
        Label("gpu_memory_partition_type", facts.lower(facts.either(facts.fact("memory_partition"), _NONE))),
        Label("deployment_mode", facts.always("baremetal")),
        Label("driver_version", facts.driver),
        Label("vbios_version", facts.fact("firmware")),
        Label("job_id", facts.or_empty(facts.owner("job_id"))),
        Label("job_user", facts.or_empty(facts.owner("user"))),
        Label("job_partition", facts.or_empty(facts.owner("partition"))),
        *map(Label, ("namespace", "pod", "container"), map(facts.or_empty, facts.POD)),
    ),
    rows=_DEVICE_METRICS_ROWS,
    node_rows=(NodeRow("gpu_nodes_total", "GPUs of this node."),),
    node_label="hostname",
    missing=_DEVICE_METRICS_MISSING,
    has_partitions=True,
    hostname_labels=("hostname",),
)
_OMNISTAT_BLOCKS = ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "hdp", "xgmi_wafl")

# A table with one row per line.
# fmt: off
_OMNISTAT_ROWS = (
    Row("version_info", "Versions of the driver and of the GPU.", Constant(), device_labels=(Label("driver_ver", facts.driver), Label("vbios", facts.fact("firmware")), Label("type", facts.model), Label("serial", facts.serial))),
    Row("utilization_percentage", "GPU use (%).", first_of("utilization_ratio"), PERCENT),
    Row("vram_used_percentage", "Memory in use (%).", first_of("memory_used_ratio"), PERCENT),
    Row("vram_total_bytes", "Total memory (B).", first_of("memory_total_bytes")),
    Row("vram_busy_percentage", "Memory controller use (%).", first_of("memory_activity_ratio"), PERCENT),
    Row("average_socket_power_watts", "Power of the socket (W).", first_of("power_watts"), device_labels=(Label("source", facts.non_empty(facts.fact("power_kind"))),)),
    Row("power_cap_watts", "Power limit (W).", first_of("power_cap_watts")),
    Row("energy_joules", "Accumulated energy (J).", first_of("energy_joules_total")),
    Row("sclk_clock_mhz", "Current system clock (MHz).", first_of("clock_hertz{graphics}"), MEGA),
    Row("mclk_clock_mhz", "Current memory clock (MHz).", first_of("clock_hertz{memory}"), MEGA),
    Row("temperature_celsius", "Temperature (C).", first_of("temperature_celsius{junction}"), labels=(("location", "hotspot"),)),
    Row("temperature_celsius", "Temperature (C).", first_of("temperature_celsius{edge}"), labels=(("location", "edge"),), deviation="Omnistat exposes only one of the two sensors; this page exposes both"),
    Row("temperature_memory_celsius", "Memory temperature (C).", first_of("temperature_celsius{memory}"), labels=(("location", "vram"),), deviation="Omnistat's `location` is `hbm_0` on cards that report each memory stack"),
    Row("num_compute_units", "Compute units.", first_of("compute_units")),
    Row("xgmi_total_read_kilobytes", "Data read over all XGMI links (KB).", Total("link_receive_bytes_total"), KIBI),
    Row("xgmi_total_write_kilobytes", "Data written over all XGMI links (KB).", Total("link_transmit_bytes_total"), KIBI),
    *(Row(f"ras_{block}_correctable_count", f"Correctable errors of {block}.", first_of(f"ecc_corrected_total{{{block}}}")) for block in _OMNISTAT_BLOCKS),
    *(Row(f"ras_{block}_uncorrectable_count", f"Uncorrectable errors of {block}.", first_of(f"ecc_uncorrected_total{{{block}}}")) for block in _OMNISTAT_BLOCKS),
)
_OMNISTAT_MISSING = (
    UnservedNames("rocm_compute_unit_occupancy, rocm_throttle_*, rocm_average_decoder_utilization_percentage", "not read in this form"),
    UnservedNames("omnistat_*", "node_exporter exposes the metrics of host and network"),
    UnservedNames("rmsjob_*", "with `attribution.enabled`, `accelerator_allocation_ratio` has the job of each card"),
)
# fmt: on

# The names are from docs/metrics.md and collector_amdsmi.py @ e93110f.
OMNISTAT = ExporterTable(
    name="omnistat",
    source="ROCm/omnistat",
    vendors=("amd",),
    port=8001,
    prefix="rocm_",
    labels=(Label("card", facts.number),),
    rows=_OMNISTAT_ROWS,
    node_rows=(NodeRow("num_gpus", "GPUs of this node."),),
    missing=_OMNISTAT_MISSING,
)


def _empty_if_total(block: str) -> str:
    return "" if block == "all" else block


# A table with one row per line.
# fmt: off
_DCU_ROWS = (
    Row("temp", "Temperature (C).", first_of("temperature_celsius{edge}", "temperature_celsius{junction}", "temperature_celsius{core}"), deviation="the first of these sensors that the card has: edge, junction, core"),
    Row("power_usage", "Power usage (W).", first_of("power_watts")),
    Row("powercap", "Power limit (W).", first_of("power_cap_watts")),
    Row("sclk", "System clock (MHz).", first_of("clock_hertz{graphics}"), MEGA),
    Row("utilizationrate", "Utilization (%).", first_of("utilization_ratio"), PERCENT),
    Row("usedmemory_bytes", "Memory in use (B).", first_of("memory_used_bytes")),
    Row("memorycap_bytes", "Total memory (B).", first_of("memory_total_bytes")),
    Row("ce_count", "Correctable errors by block.", PerLabelValue("ecc_corrected_total", "block_type", _empty_if_total), deviation="`block_type` has the tool's names of the blocks"),
    Row("ue_count", "Uncorrectable errors by block.", PerLabelValue("ecc_uncorrected_total", "block_type", _empty_if_total), deviation="`block_type` has the tool's names of the blocks"),
)
_DCU_MISSING = (
    UnservedNames("dcu_pciebw_mb", "the time window of this rate is unknown; use `accelerator_pcie_bandwidth_bytes_per_second`, which exists if the card measures the rate"),
    UnservedNames("vdcu_*", "virtual DCUs are not read"),
)
# fmt: on


def _hygon_labels(prefix: str, *pod_facts: LabelFunction) -> tuple[Label, ...]:
    names = (f"{prefix}_pod_namespace", f"{prefix}_pod_name", "container")
    return (
        Label("device_id", facts.serial),
        Label("minor_number", facts.number),
        Label("name", facts.model),
        Label("node", facts.hostname),
        Label("pcieBus_number", facts.bus_id),
        *map(Label, names, pod_facts),
    )


# The names are from commit 2d5a925.
DCU = ExporterTable(
    name="dcu-exporter",
    source="fossabot/dcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="dcu_",
    labels=_hygon_labels("dcu", *facts.POD),
    rows=_DCU_ROWS,
    missing=_DCU_MISSING,
)
_SENSOR_TYPES = {"edge": "edge", "junction": "junction", "memory": "mem", "core": "core"}

# A table with one row per line.
# fmt: off
_HCU_ROWS = (
    *_DCU_ROWS,
    Row("mclk", "Memory clock (MHz).", first_of("clock_hertz{memory}"), MEGA),
    Row("sclk_max", "Highest system clock (MHz).", first_of("clock_max_hertz{graphics}"), MEGA),
    Row("mclk_max", "Highest memory clock (MHz).", first_of("clock_max_hertz{memory}"), MEGA),
    Row("vram_percent", "Memory in use (%).", first_of("memory_used_ratio"), PERCENT),
    Row("available_memory_bytes", "Memory not in use (B).", Difference(("memory_total_bytes", "memory_used_bytes"))),
    Row("temp_mem", "Memory temperature (C).", first_of("temperature_celsius{memory}")),
    Row("sensor_temp", "Temperature at a sensor (C).", PerLabelValue("temperature_celsius", "sensor_type", _SENSOR_TYPES.get)),
    Row("powercap_range_min", "Lowest power limit (W).", first_of("power_cap_min_watts")),
    Row("powercap_range_max", "Highest power limit (W).", first_of("power_cap_max_watts")),
    Row("ecc_enabled", "1 while error correction is on.", first_of("ecc_enabled")),
    Row("fan_percent", "Fan speed (%).", first_of("fan_ratio"), PERCENT),
    Row("fan_rpm", "Fan speed (revolutions per minute).", first_of("fan_rpm")),
    Row("pcie_width", "PCIe lanes.", first_of("pcie_link_width")),
    Row("pcie_replay_count", "PCIe packets retransmitted.", first_of("pcie_replays_total")),
    Row("ce_count_total", "Correctable errors.", Total("ecc_corrected_total")),
    Row("ue_count_total", "Uncorrectable errors.", Total("ecc_uncorrected_total")),
    Row("compute_unit_count", "Compute units.", first_of("compute_units")),
    Row("health_status", "1 for a healthy card.", StateNumber("health", HEALTH_NUMBERS), deviation="only if the tool reports it"),
)
_HCU_MISSING = (
    UnservedNames("hcu_pciebw_*, hcu_df_bw_*, hcu_umc_*, hcu_hylink_*, hcu_xhcl_*", "throughput and link metrics are not read"),
    UnservedNames("hcu_cu_usage, hcu_wave_*, hcu_se_usage", "not read"),
    UnservedNames("hcu_compute_unit_remaining_count, hcu_memory_remaining", "not read"),
    UnservedNames("vhcu_*, hcu_process_*", "virtual HCUs are not read; `accelerator_process_memory_bytes` has the memory of each process"),
)
# fmt: on

# The names are from pkg/util/metrics_define.go @ d69863a.
HCU = ExporterTable(
    name="hcu-exporter",
    source="HYGON-AI/hcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="hcu_",
    labels=_hygon_labels("hcu", *map(facts.or_empty, facts.POD)),
    rows=_HCU_ROWS,
    missing=_HCU_MISSING,
)
