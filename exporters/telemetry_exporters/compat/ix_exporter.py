"""Iluvatar's ix-exporter: the names of etc/metrics.yaml (Deep-Spark/ix-exporter @ 33b6619)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import MEBI, MEGA, PERCENT, Label, Missing, Peer, Row
from telemetry_exporters.compat.ways import Turned, one, total


def _status(count: float) -> float:
    return float(count > 0)


# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("temperature", "Temperature (C).", one("temperature_celsius{core}")),
    Row("fan_speed", "Fan speed (%).", one("fan_ratio"), PERCENT),
    Row("sm_clock", "SM clock (MHz).", one("clock_hertz{sm}"), MEGA),
    Row("mem_clock", "Memory clock (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("mem_total", "Memory in all (MiB).", one("memory_total_bytes"), MEBI),
    Row("mem_used", "Memory in use (MiB).", one("memory_used_bytes"), MEBI),
    Row("mem_free", "Memory not in use (MiB).", one("memory_free_bytes"), MEBI),
    Row("mem_utilization", "Memory in use (%).", one("memory_used_ratio"), PERCENT, near="of memory in use; the tool's own figure may be activity"),
    Row("gpu_utilization", "GPU utilization (%).", one("utilization_ratio"), PERCENT),
    Row("power_usage", "Power usage (W).", one("power_watts")),
    Row("ecc_sbe_vol_status", "1 after a corrected error.", Turned(total("ecc_corrected_total"), _status), near="from the count of errors"),
    Row("ecc_dbe_vol_status", "1 after an uncorrected error.", Turned(total("ecc_uncorrected_total"), _status), near="from the count of errors"),
)
# fmt: on

PEER = Peer(
    name="ix-exporter",
    source="Deep-Spark/ix-exporter",
    vendors=("iluvatar",),
    port=32021,
    prefix="ix_",
    labels=(
        Label("gpu", facts.number),
        Label("uuid", facts.uuid),
        Label("name", facts.model),
        Label("node_name", facts.hostname),
        Label("namespace", facts.namespace),
        Label("pod", facts.pod),
        Label("container", facts.container),
    ),
    rows=_ROWS,
    missing=(
        Missing("sm_utilization", "the tool tells one utilization: `ix_gpu_utilization`"),
        Missing("xid_errors", "the tool tells no events"),
        Missing("process_info", "`accelerator_process_memory_bytes` has memory by process"),
    ),
)
