"""MetaX's mx-exporter: the names of mx_exporter/default-counters.csv (MetaX-MACA/mxExporter @ 874612b)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import KIBI, MEGA, MILLI, PERCENT, Label, Missing, Peer, Row
from telemetry_exporters.compat.ways import Each, Turned, one

_VRAM = (("type", "vram"),)
_GIGATRANSFERS = {1.0: 2.5, 2.0: 5.0, 3.0: 8.0, 4.0: 16.0, 5.0: 32.0, 6.0: 64.0}

# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("gpu_usage", "GPU usage (%).", one("utilization_ratio"), PERCENT),
    Row("memory_total", "Memory in all (KB).", one("memory_total_bytes"), KIBI, labels=_VRAM),
    Row("memory_used", "Memory in use (KB).", one("memory_used_bytes"), KIBI, labels=_VRAM),
    Row("memory_usage", "Memory in use (%).", one("memory_used_ratio"), PERCENT, labels=_VRAM),
    Row("board_power", "Power of the board (mW).", one("power_watts"), MILLI),
    Row("chip_hotspot_temp", "Temperature of the hottest spot (C).", one("temperature_celsius{hotspot}")),
    Row("chip_hbm_temp", "Temperature of the memory (C).", one("temperature_celsius{memory}")),
    Row("board_core_temp", "Temperature of the board (C).", one("temperature_celsius{board}", "temperature_celsius{core}")),
    Row("gpu_clock", "Clock of the cores (MHz).", one("clock_hertz{graphics}"), MEGA),
    Row("mem_clock", "Clock of the memory (MHz).", one("clock_hertz{memory}"), MEGA),
    Row("vpue_clock", "Clock of the encoder (MHz).", one("clock_hertz{vpue}"), MEGA),
    Row("vpud_clock", "Clock of the decoder (MHz).", one("clock_hertz{vpud}"), MEGA),
    Row("vpue_usage", "Encoder usage (%).", one("engine_utilization_ratio{encoder}"), PERCENT),
    Row("vpud_usage", "Decoder usage (%).", one("engine_utilization_ratio{decoder}"), PERCENT),
    Row("pcie_width", "PCIe lanes.", one("pcie_link_width")),
    Row("pcie_speed", "PCIe link speed (GT/s).", Turned(one("pcie_link_generation"), _GIGATRANSFERS.get), near="from the generation of the link"),
    Row("process", "Processes on the GPU.", one("processes")),
    Row("ecc_error_count", "Corrected errors.", Each(("ecc_corrected_total",), "type", "{}_ce".format), near="`type` is our word for the place, and `ce` or `ue`"),
    Row("ecc_error_count", "Corrected errors.", Each(("ecc_uncorrected_total",), "type", "{}_ue".format), near="`type` is our word for the place, and `ce` or `ue`"),
    Row("mxlk_traffic_total_bytes", "Bytes over a MetaXLink.", Each(("link_receive_bytes_total",), "mxlkId"), labels=(("type", "rx"),), near="`mxlkId` is our word for the link"),
    Row("mxlk_traffic_total_bytes", "Bytes over a MetaXLink.", Each(("link_transmit_bytes_total",), "mxlkId"), labels=(("type", "tx"),), near="`mxlkId` is our word for the link"),
    Row("gpu_state", "1 while the GPU is available.", one("up")),
)
# fmt: on

PEER = Peer(
    name="mx-exporter",
    source="MetaX-MACA/mxExporter",
    vendors=("metax",),
    port=8000,
    prefix="mx_",
    labels=(
        Label("deviceId", facts.number),
        Label("uuid", facts.uuid),
        Label("modelName", facts.model),
        Label("Hostname", facts.hostname),
        Label("driver_version", facts.driver),
        Label("bios_version", facts.fact("firmware")),
        Label("exported_pod", facts.pod),
        Label("exported_namespace", facts.namespace),
        Label("exported_container", facts.container),
    ),
    rows=_ROWS,
    missing=(
        Missing('memory_*{type="xtt"}', "the host's memory is not told as the card's"),
        Missing("pcie_bw, mxlk_bw", "rates; `accelerator_pcie_…_bytes_per_second` where the card tells them"),
        Missing(
            "*_eid_errors, pci_event, ras_count, mxlk_aer_count, clk_thr, xcore_dpm_level, pcie_bridge_*, mxlk_{speed,width}, sgpu_*",
            "not read",
        ),
    ),
    hostname_labels=("Hostname",),
)
