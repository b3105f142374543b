"""Omnistat: the names of docs/metrics.md and collector_amdsmi.py (ROCm/omnistat @ e93110f)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import KIBI, MEGA, PERCENT, Label, Missing, NodeRow, Peer, Row
from telemetry_exporters.compat.ways import Always, one, total

_BLOCKS = ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "hdp", "xgmi_wafl")

# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("version_info", "Versions of the driver and of the GPU.", Always(), facts=(Label("driver_ver", facts.driver), Label("vbios", facts.fact("firmware")), Label("type", facts.model), Label("serial", facts.serial))),
    Row("utilization_percentage", "GPU use (%).", one("utilization_ratio"), PERCENT),
    Row("vram_used_percentage", "Memory in use (%).", one("memory_used_ratio"), PERCENT),
    Row("vram_total_bytes", "Memory in all (B).", one("memory_total_bytes")),
    Row("vram_busy_percentage", "Memory controller use (%).", one("memory_activity_ratio"), PERCENT),
    Row("average_socket_power_watts", "Power of the socket (W).", one("power_watts"), facts=(Label("source", facts.known(facts.fact("power_kind"))),)),
    Row("power_cap_watts", "Power limit (W).", one("power_cap_watts")),
    Row("energy_joules", "Accumulated energy (J).", one("energy_joules_total")),
    Row("sclk_clock_mhz", "Current system clock (MHz).", one("clock_hertz{graphics}"), MEGA),
    Row("mclk_clock_mhz", "Current memory clock (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("temperature_celsius", "Temperature (C).", one("temperature_celsius{junction}"), labels=(("location", "junction"),)),
    Row("temperature_celsius", "Temperature (C).", one("temperature_celsius{edge}"), labels=(("location", "edge"),), near="they tell one sensor, we each of the two that there is"),
    Row("temperature_memory_celsius", "Memory temperature (C).", one("temperature_celsius{memory}"), labels=(("location", "hbm"),)),
    Row("num_compute_units", "Compute units.", one("compute_units")),
    Row("xgmi_total_read_kilobytes", "Read over all XGMI links (KB).", total("link_receive_bytes_total"), KIBI),
    Row("xgmi_total_write_kilobytes", "Written over all XGMI links (KB).", total("link_transmit_bytes_total"), KIBI),
    *(Row(f"ras_{block}_correctable_count", f"Correctable errors of {block}.", one(f"ecc_corrected_total{{{block}}}")) for block in _BLOCKS),
    *(Row(f"ras_{block}_uncorrectable_count", f"Uncorrectable errors of {block}.", one(f"ecc_uncorrected_total{{{block}}}")) for block in _BLOCKS),
)
# fmt: on

PEER = Peer(
    name="omnistat",
    source="ROCm/omnistat",
    vendors=("amd",),
    port=8001,
    prefix="rocm_",
    labels=(Label("card", facts.number),),
    rows=_ROWS,
    node_rows=(NodeRow("num_gpus", "GPUs of this node."),),
    missing=(
        Missing("compute_unit_occupancy, throttle_*, average_decoder_utilization_percentage", "not read in this form"),
        Missing("omnistat_host_*, omnistat_network_*", "node_exporter tells host and network"),
        Missing("rmsjob_info", "`accelerator_allocation_ratio` tells the job of each card, with `[attribution]`"),
    ),
)
