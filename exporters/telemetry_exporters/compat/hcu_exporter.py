"""Hygon's hcu-exporter: the names of pkg/util/metrics_define.go (HYGON-AI/hcu-exporter @ d69863a)."""

from __future__ import annotations

from telemetry_exporters.compat import dcu_exporter
from telemetry_exporters.compat.peer import MEGA, PERCENT, Missing, Peer, Row
from telemetry_exporters.compat.ways import Each, one, total

_SENSORS = {"edge": "edge", "junction": "junction", "memory": "mem", "core": "core"}


def _sensor(word: str) -> str:
    return _SENSORS.get(word, "")


# A table: a row is a line.
# fmt: off
_ROWS = (
    *dcu_exporter.ROWS,
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

PEER = Peer(
    name="hcu-exporter",
    source="HYGON-AI/hcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="hcu_",
    labels=dcu_exporter.labels("hcu"),
    rows=_ROWS,
    missing=(
        Missing("pciebw_mb, df_bw_*, umc_*, hylink_*, xhcl_*", "rates and links are not read"),
        Missing("cu_usage, wave_*, se_usage, compute_unit_remaining_count, memory_remaining", "not read"),
        Missing(
            "vhcu_*, process_*", "virtual HCUs are not read; `accelerator_process_memory_bytes` has memory by process"
        ),
    ),
)
