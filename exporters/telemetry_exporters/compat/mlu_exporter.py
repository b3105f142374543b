"""Cambricon's mlu-exporter: the names of examples/metrics.yaml (Cambricon/mlu-exporter @ 934abae)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import MEGA, PERCENT, Label, Missing, NodeRow, Peer, Row
from telemetry_exporters.compat.ways import number_of, one

_HEALTH = {"ok": 1.0, "warning": 0.0, "alarm": 0.0, "critical": 0.0}

# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("temperature", "Temperature of the board (C).", one("temperature_celsius{board}")),
    Row("chip_temperature", "Temperature of the chip (C).", one("temperature_celsius{core}")),
    Row("memory_temperature", "Temperature of the memory (C).", one("temperature_celsius{memory}")),
    Row("power_usage", "Power usage (W).", one("power_watts")),
    Row("power_current_limit", "Power limit in force (W).", one("power_cap_watts")),
    Row("power_default_limit", "Power limit at start (W).", one("power_cap_default_watts")),
    Row("power_max_limit", "Highest power limit (W).", one("power_cap_max_watts")),
    Row("power_min_limit", "Lowest power limit (W).", one("power_cap_min_watts")),
    Row("memory_used", "Memory in use (B).", one("memory_used_bytes")),
    Row("memory_total", "Memory in all (B).", one("memory_total_bytes")),
    Row("memory_free", "Memory not in use (B).", one("memory_free_bytes")),
    Row("memory_reserved", "Reserved memory (B).", one("memory_reserved_bytes")),
    Row("memory_utilization", "Memory in use (%).", one("memory_used_ratio"), PERCENT),
    Row("utilization", "Utilization (%).", one("utilization_ratio"), PERCENT),
    Row("frequency", "Clock of the cores (MHz).", one("clock_hertz{graphics}"), MEGA),
    Row("ddr_frequency", "Clock of the memory (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("health", "1 for a healthy card.", number_of("health", _HEALTH), near="only where the tool tells it"),
    Row("ecc_current_mode", "1 while error correction is on.", one("ecc_enabled")),
    Row("pcie_current_speed", "PCIe generation of the link as it runs.", one("pcie_link_generation")),
    Row("pcie_current_width", "PCIe lanes of the link as it runs.", one("pcie_link_width")),
    Row("pcie_max_speed", "Highest PCIe generation.", one("pcie_link_generation_max")),
    Row("pcie_max_width", "Most PCIe lanes.", one("pcie_link_width_max")),
    Row("pcie_replay_count", "PCIe packets sent again.", one("pcie_replays_total")),
    Row("video_codec_utilization", "Encoder utilization (%).", one("engine_utilization_ratio{encoder}"), PERCENT),
    Row("video_decoder_utilization", "Decoder utilization (%).", one("engine_utilization_ratio{decoder}"), PERCENT),
    Row("remapped_correct_rows", "Rows replaced for corrected errors.", one("remapped_rows{correctable}")),
    Row("remapped_uncorrect_rows", "Rows replaced for uncorrected errors.", one("remapped_rows{uncorrectable}")),
)
# fmt: on

PEER = Peer(
    name="mlu-exporter",
    source="Cambricon/mlu-exporter",
    vendors=("cambricon",),
    port=30108,
    prefix="mlu_",
    labels=(
        Label("mlu", facts.number),
        Label("model", facts.model),
        Label("type", facts.always("mlu")),
        Label("sn", facts.serial),
        Label("uuid", facts.uuid),
        Label("driver", facts.driver),
        Label("mcu", facts.fact("firmware")),
        Label("node", facts.hostname),
        Label("namespace", facts.namespace),
        Label("pod", facts.pod),
        Label("container", facts.container),
    ),
    rows=_ROWS,
    node_rows=(NodeRow("machine_mlu_nums", "Cards of this node."),),
    node_label="node",
    missing=(
        Missing("fan_speed", "revolutions a minute there, a share of the maximum here: `accelerator_fan_ratio`"),
        Missing("container", "pods are labels of each series"),
        Missing("mlulink_*, smlu_*, process_*, chassis_*, voltages, currents, temperatures of clusters", "not read"),
    ),
)
