"""nvitop-exporter: the names of nvitop_exporter/exporter.py (XuehaiPan/nvitop @ 3e797b2)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import MEBI, MEGA, PERCENT, Label, Missing, Peer, Row
from telemetry_exporters.compat.ways import one

# A table: a row is a line.
# fmt: off
_ROWS = (
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
# fmt: on

PEER = Peer(
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
    rows=_ROWS,
    missing=(
        Missing(
            "gpu_pcie_*_throughput_MiBps, gpu_nvlink_*_MiBps",
            "rates; `accelerator_pcie_…_bytes_total` and `accelerator_link_…_bytes_total` count bytes",
        ),
        Missing("host_*", "node_exporter tells the host"),
        Missing("process_*", "`accelerator_process_memory_bytes` has memory by process"),
    ),
    hostname_labels=("hostname",),
)
