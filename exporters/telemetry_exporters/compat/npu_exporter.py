"""Ascend's npu-exporter: the names of component/npu-exporter/collector (Ascend/mind-cluster @ 22bb3d9)."""

from __future__ import annotations

from telemetry_exporters.compat import facts
from telemetry_exporters.compat.peer import MEBI, MEGA, PERCENT, Label, Missing, NodeRow, Peer, Row
from telemetry_exporters.compat.ways import Always, number_of, one, total

_HEALTH = {"ok": 1.0, "warning": 0.0, "alarm": 0.0, "critical": 0.0}
_HBM = "told of DDR cards, too"

# A table: a row is a line.
# fmt: off
_ROWS = (
    Row("npu_chip_info_name", "Always 1; its label `name` tells the model.", Always(), facts=(Label("name", facts.model),)),
    Row("npu_chip_info_temperature", "Temperature (C).", one("temperature_celsius{core}", "temperature_celsius{soc}")),
    Row("npu_chip_info_hbm_temperature", "Memory temperature (C).", one("temperature_celsius{memory}")),
    Row("npu_chip_info_power", "Power (W).", one("power_watts")),
    Row("npu_chip_info_voltage", "Voltage (V).", one("voltage_volts{core}")),
    Row("npu_chip_info_utilization", "AI Core utilization (%).", one("engine_utilization_ratio{aicore}", "utilization_ratio"), PERCENT),
    Row("npu_chip_info_vector_utilization", "Vector core utilization (%).", one("engine_utilization_ratio{vector}"), PERCENT),
    Row("npu_chip_info_cube_utilization", "Cube core utilization (%).", one("engine_utilization_ratio{cube}"), PERCENT),
    Row("npu_chip_info_overall_utilization", "Utilization of the chip (%).", one("engine_utilization_ratio{npu}", "utilization_ratio"), PERCENT, near="the AI Core's where the tool tells no other"),
    Row("npu_chip_info_hbm_used_memory", "HBM in use (MB).", one("memory_used_bytes"), MEBI, near=_HBM),
    Row("npu_chip_info_hbm_total_memory", "HBM in all (MB).", one("memory_total_bytes"), MEBI, near=_HBM),
    Row("npu_chip_info_hbm_utilization", "HBM in use (%).", one("memory_used_ratio"), PERCENT, near=_HBM),
    Row("npu_chip_info_hbm_bandwidth_utilization", "HBM bandwidth in use (%).", one("memory_bandwidth_ratio"), PERCENT),
    Row("npu_chip_info_aicore_current_freq", "AI Core clock (MHz).", one("clock_hertz{aicore}", "clock_hertz{graphics}"), MEGA),
    Row("npu_chip_info_health_status", "1 for a healthy chip.", number_of("health", _HEALTH)),
    Row("npu_chip_info_process_info_num", "Processes on the chip.", one("processes")),
    Row("npu_chip_info_link_status", "1 while the network port is up.", one("link_up{roce}")),
    Row("npu_chip_info_hbm_ecc_enable_flag", "1 while error correction is on.", one("ecc_enabled")),
    Row("npu_chip_info_hbm_ecc_single_bit_error_cnt", "Corrected errors.", total("ecc_corrected_total")),
    Row("npu_chip_info_hbm_ecc_double_bit_error_cnt", "Uncorrected errors.", total("ecc_uncorrected_total")),
    Row("npu_chip_info_hbm_ecc_single_bit_isolated_pages_cnt", "Pages taken out of use for corrected errors.", one("retired_pages{single_bit_ecc}")),
    Row("npu_chip_info_hbm_ecc_double_bit_isolated_pages_cnt", "Pages taken out of use for uncorrected errors.", one("retired_pages{double_bit_ecc}")),
)
# fmt: on

PEER = Peer(
    name="npu-exporter",
    source="Ascend/mind-cluster",
    vendors=("ascend",),
    port=8082,
    prefix="",
    labels=(
        Label("id", facts.number),
        Label("model_name", facts.model),
        Label("vdie_id", facts.uuid),
        Label("pcie_bus_info", facts.upper_bus_id),
        Label("namespace", facts.namespace),
        Label("pod_name", facts.pod),
        Label("container_name", facts.container),
    ),
    rows=_ROWS,
    node_rows=(NodeRow("machine_npu_nums", "Chips of this node."),),
    missing=(
        Missing("npu_chip_info_{used,total}_memory", "the memory of DDR cards is told as that of HBM cards"),
        Missing("npu_chip_info_error_code*", "`accelerator_event_open` tells each open error code"),
        Missing(
            "npu_chip_info_bandwidth_{rx,tx}, *_pcie_*_bw, *_hccs_*, *_roce_*, *_mac_*, *_optical_*, *_sio_*, *_link_speed",
            "rates, or not read; `accelerator_link_…` counts what hccn_tool counts",
        ),
        Missing("npu_chip_info_hbm_ecc_total_{single,double}_bit_error_cnt", "the life-long counts are not read"),
        Missing(
            "container_npu_*, npu_container_info, vnpu_pod_*",
            "pods are labels of each series; virtual NPUs are not read",
        ),
        Missing("time stamps of samples", "a sample is of the time of its scrape"),
    ),
)
