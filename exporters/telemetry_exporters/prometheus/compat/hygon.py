"""Exporters for Hygon's cards: hcu-exporter has the names of dcu-exporter and more.

dcu-exporter: fossabot/dcu-exporter @ 2d5a925.
hcu-exporter: the names of pkg/util/metrics_define.go (HYGON-AI/hcu-exporter @ d69863a).
"""

from __future__ import annotations

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import MEGA, PERCENT, Each, Label, Missing, Peer, Row, one, total


def _block(word: str) -> str:
    """All blocks together are none of them."""
    return "" if word == "all" else word


# A table: a row is a line.
# fmt: off
_DCU_ROWS = (
    Row("temp", "Temperature (C).", one("temperature_celsius{edge}", "temperature_celsius{junction}", "temperature_celsius{core}"), near="the edge sensor, else the junction, else the core"),
    Row("power_usage", "Power usage (W).", one("power_watts")),
    Row("powercap", "Power limit (W).", one("power_cap_watts")),
    Row("sclk", "System clock (MHz).", one("clock_hertz{graphics}"), MEGA),
    Row("utilizationrate", "Utilization (%).", one("utilization_ratio"), PERCENT),
    Row("usedmemory_bytes", "Memory in use (B).", one("memory_used_bytes")),
    Row("memorycap_bytes", "Memory in all (B).", one("memory_total_bytes")),
    Row("ce_count", "Correctable errors by block.", Each(("ecc_corrected_total",), "block_type", _block), near="by the blocks that the tool names"),
    Row("ue_count", "Uncorrectable errors by block.", Each(("ecc_uncorrected_total",), "block_type", _block), near="by the blocks that the tool names"),
)
# fmt: on


def _labels(pod_prefix: str) -> tuple[Label, ...]:
    """The labels of both exporters; those of pods begin with the exporter's own word."""
    return (
        Label("device_id", facts.serial),
        Label("minor_number", facts.number),
        Label("name", facts.model),
        Label("node", facts.hostname),
        Label("pcieBus_number", facts.bus_id),
        Label(f"{pod_prefix}_pod_namespace", facts.namespace),
        Label(f"{pod_prefix}_pod_name", facts.pod),
        Label("container", facts.container),
    )


DCU = Peer(
    name="dcu-exporter",
    source="fossabot/dcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="dcu_",
    labels=_labels("dcu"),
    rows=_DCU_ROWS,
    missing=(
        Missing(
            "pciebw_mb",
            "a rate of unknown window; `accelerator_pcie_bandwidth_bytes_per_second` where the card tells it",
        ),
        Missing("vdcu_*", "virtual DCUs are not read"),
    ),
)
_SENSORS = {"edge": "edge", "junction": "junction", "memory": "mem", "core": "core"}


def _sensor(word: str) -> str:
    return _SENSORS.get(word, "")


# A table: a row is a line.
# fmt: off
_HCU_ROWS = (
    *_DCU_ROWS,
    Row("mclk", "Memory clock (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("sclk_max", "Highest system clock (MHz).", one("clock_max_hertz{graphics}"), MEGA),
    Row("mclk_max", "Highest memory clock (MHz).", one("clock_max_hertz{memory}"), MEGA),
    Row("vram_percent", "Memory in use (%).", one("memory_used_ratio"), PERCENT),
    Row("available_memory_bytes", "Memory not in use (B).", one("memory_free_bytes")),
    Row("temp_mem", "Memory temperature (C).", one("temperature_celsius{memory}")),
    Row("sensor_temp", "Temperature at a sensor (C).", Each(("temperature_celsius",), "sensor_type", _sensor)),
    Row("powercap_range_min", "Lowest power limit (W).", one("power_cap_min_watts")),
    Row("powercap_range_max", "Highest power limit (W).", one("power_cap_max_watts")),
    Row("ecc_enabled", "1 while error correction is on.", one("ecc_enabled")),
    Row("fan_percent", "Fan speed (%).", one("fan_ratio"), PERCENT),
    Row("fan_rpm", "Fan speed (revolutions a minute).", one("fan_rpm")),
    Row("pcie_width", "PCIe lanes.", one("pcie_link_width")),
    Row("pcie_replay_count", "PCIe packets sent again.", one("pcie_replays_total")),
    Row("ce_count_total", "Correctable errors.", total("ecc_corrected_total")),
    Row("ue_count_total", "Uncorrectable errors.", total("ecc_uncorrected_total")),
    Row("compute_unit_count", "Compute units.", one("compute_units")),
)
# fmt: on

HCU = Peer(
    name="hcu-exporter",
    source="HYGON-AI/hcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="hcu_",
    labels=_labels("hcu"),
    rows=_HCU_ROWS,
    missing=(
        Missing("pciebw_mb, df_bw_*, umc_*, hylink_*, xhcl_*", "rates and links are not read"),
        Missing("cu_usage, wave_*, se_usage, compute_unit_remaining_count, memory_remaining", "not read"),
        Missing(
            "vhcu_*, process_*", "virtual HCUs are not read; `accelerator_process_memory_bytes` has memory by process"
        ),
    ),
)
