"""Intel's xpumd: OpenTelemetry's `hw.…` names as its Prometheus page has them (intel/xpumanager @ 34c32c6, xpumd/)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import Label, Missing, Peer, Row
from telemetry_exporters.compat.ways import Always, one

_PLAIN = "the value itself, without `statistic` and `aggregation`"
_CARD = (("hw_sensor_location", "gpu"),)
_MEMORY = (("hw_sensor_location", "memory"),)
_RECEIVE = (("network_io_direction", "receive"),)
_TRANSMIT = (("network_io_direction", "transmit"),)

# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("gpu_info", "Always 1; its labels tell who the GPU is.", Always(), facts=(Label("hw_model", facts.model), Label("hw_serial_number", facts.serial), Label("hw_driver_version", facts.driver), Label("hw_firmware_version", facts.fact("firmware")))),
    Row("temperature_celsius", "Temperature.", one("temperature_celsius{core}"), labels=_CARD, near=_PLAIN),
    Row("temperature_celsius", "Temperature.", one("temperature_celsius{memory}"), labels=_MEMORY, near=_PLAIN),
    Row("power_watts", "Power.", one("power_watts"), labels=_CARD),
    Row("energy_joules_total", "Energy.", one("energy_joules_total"), kind="counter"),
    Row("memory_usage_bytes", "Memory in use.", one("memory_used_bytes")),
    Row("memory_size_bytes", "Memory in all.", one("memory_total_bytes")),
    Row("memory_utilization_ratio", "Memory in use as a share of all.", one("memory_used_ratio")),
    Row("memory_bandwidth_utilization_ratio", "Memory bandwidth in use.", one("memory_bandwidth_ratio")),
    Row("gpu_utilization_ratio", "Utilization.", one("utilization_ratio"), labels=(("hw_gpu_task", "general"),)),
    Row("gpu_utilization_ratio", "Utilization.", one("engine_utilization_ratio{encoder}"), labels=(("hw_gpu_task", "encoder"),)),
    Row("gpu_utilization_ratio", "Utilization.", one("engine_utilization_ratio{decoder}"), labels=(("hw_gpu_task", "decoder"),)),
    Row("frequency_hertz", "Clock.", one("clock_hertz{graphics}"), labels=(("aggregation", "avg"), ("hw_frequency_domain", "gpu")), near="the clock at one moment as their average"),
    Row("gpu_io_bytes_total", "Bytes over PCIe.", one("pcie_receive_bytes_total"), kind="counter", labels=_RECEIVE),
    Row("gpu_io_bytes_total", "Bytes over PCIe.", one("pcie_transmit_bytes_total"), kind="counter", labels=_TRANSMIT),
)
# fmt: on

PEER = Peer(
    name="xpumd",
    source="intel/xpumanager",
    vendors=("intel",),
    port=29999,
    prefix="hw_",
    labels=(
        Label("pci_bdf", facts.bus_id),
        Label("hw_id", facts.uuid),
        Label("hw_name", facts.model),
        Label("node", facts.hostname),
    ),
    rows=_ROWS,
    missing=(
        Missing(
            '`statistic="min"`, `"max"`',
            "extremes of a window of theirs; Prometheus has `min_over_time` and `max_over_time`",
        ),
        Missing("memory_io_bytes_total", "bytes of the memory are not counted"),
        Missing("errors_total, status", "`accelerator_ecc_…_total` and `accelerator_health` tell them"),
        Missing("utilization by other engines", "theirs have no equals among our words"),
    ),
)
