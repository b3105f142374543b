"""Hygon's dcu-exporter (fossabot/dcu-exporter @ 2d5a925); hcu-exporter has the same names and more."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import MEGA, PERCENT, Label, Missing, Peer, Row
from telemetry_exporters.compat.ways import Each, one


def _block(word: str) -> str:
    """All blocks together are none of them."""
    return "" if word == "all" else word


# A table: a row is a line.
# fmt: off
ROWS = (
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


def labels(pod_prefix: str) -> tuple[Label, ...]:
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


PEER = Peer(
    name="dcu-exporter",
    source="fossabot/dcu-exporter",
    vendors=("hygon",),
    port=16080,
    prefix="dcu_",
    labels=labels("dcu"),
    rows=ROWS,
    missing=(
        Missing(
            "pciebw_mb",
            "a rate of unknown window; `accelerator_pcie_bandwidth_bytes_per_second` where the card tells it",
        ),
        Missing("vdcu_*", "virtual DCUs are not read"),
    ),
)
