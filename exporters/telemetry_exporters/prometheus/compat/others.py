"""Tables of the exporters of Ascend, Cambricon, MetaX, Iluvatar and Intel."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat import facts
from telemetry_exporters.prometheus.compat.table import (
    GIGATRANSFERS_BY_GENERATION,
    HEALTH_NUMBERS,
    KIBI,
    MEBI,
    MEGA,
    MILLI,
    PERCENT,
    Constant,
    Converted,
    Difference,
    ExporterTable,
    FactNumber,
    Label,
    NodeRow,
    PerLabelValue,
    Row,
    StateNumber,
    Total,
    UnservedNames,
    first_of,
)

_ALSO_DDR = "also served for cards with DDR memory"

# A table with one row per line.
# fmt: off
_NPU_ROWS = (
    Row("npu_chip_info_name", "Always 1; its label `name` is the model.", Constant(), device_labels=(Label("name", facts.chip_name),)),
    Row("npu_chip_info_temperature", "Temperature (C).", first_of("temperature_celsius{core}", "temperature_celsius{soc}")),
    Row("npu_chip_info_hbm_temperature", "Memory temperature (C).", first_of("temperature_celsius{memory}")),
    Row("npu_chip_info_power", "Power (W).", first_of("power_watts")),
    Row("npu_chip_info_voltage", "Voltage (V).", first_of("voltage_volts{core}")),
    Row("npu_chip_info_utilization", "AI Core utilization (%).", first_of("engine_utilization_ratio{aicore}", "utilization_ratio"), PERCENT),
    Row("npu_chip_info_vector_utilization", "Vector core utilization (%).", first_of("engine_utilization_ratio{vector}"), PERCENT),
    Row("npu_chip_info_cube_utilization", "Cube core utilization (%).", first_of("engine_utilization_ratio{cube}"), PERCENT),
    Row("npu_chip_info_overall_utilization", "Utilization of the chip (%).", first_of("engine_utilization_ratio{npu}", "utilization_ratio"), PERCENT, deviation="the AI Core's utilization if the tool reports no utilization of the chip"),
    Row("npu_chip_info_hbm_used_memory", "HBM in use (MB).", first_of("memory_used_bytes"), MEBI, deviation=_ALSO_DDR),
    Row("npu_chip_info_hbm_total_memory", "Total HBM (MB).", first_of("memory_total_bytes"), MEBI, deviation=_ALSO_DDR),
    Row("npu_chip_info_hbm_utilization", "HBM in use (%).", first_of("memory_used_ratio"), PERCENT, deviation=_ALSO_DDR),
    Row("npu_chip_info_hbm_bandwidth_utilization", "HBM bandwidth in use (%).", first_of("memory_bandwidth_ratio"), PERCENT),
    Row("npu_chip_info_aicore_current_freq", "AI Core clock (MHz).", first_of("clock_hertz{aicore}", "clock_hertz{graphics}"), MEGA),
    Row("npu_chip_info_health_status", "1 for a healthy chip.", StateNumber("health", HEALTH_NUMBERS)),
    Row("npu_chip_info_process_info_num", "Processes on the chip.", first_of("processes")),
    Row("npu_chip_info_link_status", "1 while the network port is up.", first_of("link_up{roce}")),
    Row("npu_chip_info_hbm_ecc_enable_flag", "1 while error correction is on.", first_of("ecc_enabled")),
    Row("npu_chip_info_hbm_ecc_single_bit_error_cnt", "Corrected errors.", Total("ecc_corrected_total")),
    Row("npu_chip_info_hbm_ecc_double_bit_error_cnt", "Uncorrected errors.", Total("ecc_uncorrected_total")),
    Row("npu_chip_info_hbm_ecc_single_bit_isolated_pages_cnt", "Pages retired because of corrected errors.", first_of("retired_pages{single_bit_ecc}")),
    Row("npu_chip_info_hbm_ecc_double_bit_isolated_pages_cnt", "Pages retired because of uncorrected errors.", first_of("retired_pages{double_bit_ecc}")),
)
_NPU_MISSING = (
    UnservedNames("physical ids", "`id` is the logic id, as in releases up to 5.0; newer releases print the physical id"),
    UnservedNames("npu_chip_info_{used,total}_memory", "the memory of DDR cards is served under the names for HBM"),
    UnservedNames("npu_chip_info_error_code*", "`accelerator_event_open` has a series for each open error code"),
    UnservedNames("npu_chip_info_bandwidth_{rx,tx}, npu_chip_info_pcie_*_bw, npu_chip_info_hccs_*, npu_chip_info_roce_*, npu_chip_mac_*, npu_chip_optical_*, npu_chip_info_sio_*, npu_chip_link_*", "use `accelerator_link_…`, which have hccn_tool's counters; rates are not exported, and most other values are not read"),
    UnservedNames("npu_chip_info_hbm_ecc_total_{single,double}_bit_error_cnt", "the lifetime counts are not read"),
    UnservedNames("container_npu_*, npu_container_info, vnpu_pod_*", "each series has labels for its pod; virtual NPUs are not read"),
    UnservedNames("time stamps of samples", "Prometheus sets the time of each scrape"),
)
# fmt: on

# The names are from component/npu-exporter/collector @ 22bb3d9.
NPU = ExporterTable(
    name="npu-exporter",
    source="Ascend/mind-cluster",
    vendors=("ascend",),
    port=8082,
    prefix="",
    labels=(
        Label("id", facts.number),
        Label("model_name", facts.chip_name),
        Label("vdie_id", facts.hyphened_uuid),
        Label("pcie_bus_info", facts.upper_bus_id),
        *map(Label, ("namespace", "pod_name", "container_name"), facts.POD),
    ),
    rows=_NPU_ROWS,
    node_rows=(NodeRow("machine_npu_nums", "Chips of this node."),),
    missing=_NPU_MISSING,
)

_NO_VF_LABELS = (("vf", ""),)
_ONE_FOR_ALL_CORES = "one value for all cores, shown as core 0"

# A table with one row per line.
# fmt: off
_MLU_ROWS = (
    Row("temperature", "Temperature of the board (C).", first_of("temperature_celsius{board}")),
    Row("chip_temperature", "Temperature of the chip (C).", first_of("temperature_celsius{core}")),
    Row("memory_temperature", "Temperature of the memory (C).", first_of("temperature_celsius{memory}"), labels=(("memory_die", ""),)),
    Row("power_usage", "Power usage (W).", first_of("power_watts"), labels=_NO_VF_LABELS),
    Row("power_current_limit", "Power limit in force (W).", first_of("power_cap_watts")),
    Row("power_default_limit", "Power limit that the card starts with (W).", first_of("power_cap_default_watts")),
    Row("power_max_limit", "Highest power limit (W).", first_of("power_cap_max_watts")),
    Row("power_min_limit", "Lowest power limit (W).", first_of("power_cap_min_watts")),
    Row("memory_used", "Memory in use (B).", first_of("memory_used_bytes")),
    Row("memory_total", "Total memory (B).", first_of("memory_total_bytes")),
    Row("memory_free", "Memory not in use (B).", first_of("memory_free_bytes")),
    Row("memory_reserved", "Reserved memory (B).", first_of("memory_reserved_bytes")),
    Row("memory_utilization", "Memory in use (%).", first_of("memory_used_ratio"), PERCENT, labels=_NO_VF_LABELS),
    Row("utilization", "Utilization (%).", first_of("utilization_ratio"), PERCENT, labels=_NO_VF_LABELS),
    Row("frequency", "Clock of the cores (MHz).", first_of("clock_hertz{graphics}"), MEGA),
    Row("ddr_frequency", "Clock of the memory (MHz).", first_of("clock_hertz{memory}"), MEGA),
    Row("health", "1 for a healthy card.", StateNumber("health", HEALTH_NUMBERS), labels=(("unhealth_reason", ""),), deviation="only if the tool reports the health; the reason is not read"),
    Row("ecc_current_mode", "1 while error correction is on.", first_of("ecc_enabled")),
    Row("pcie_current_speed", "Current PCIe generation of the link.", first_of("pcie_link_generation")),
    Row("pcie_current_width", "Current number of PCIe lanes of the link.", first_of("pcie_link_width")),
    Row("pcie_max_speed", "Highest PCIe generation.", first_of("pcie_link_generation_max")),
    Row("pcie_max_width", "Most PCIe lanes.", first_of("pcie_link_width_max")),
    Row("pcie_replay_count", "PCIe packets retransmitted.", first_of("pcie_replays_total"), kind="counter"),
    Row("video_codec_utilization", "Encoder utilization (%).", first_of("engine_utilization_ratio{encoder}"), PERCENT, labels=(("vpu_core", "0"),), deviation=_ONE_FOR_ALL_CORES),
    Row("video_decoder_utilization", "Decoder utilization (%).", first_of("engine_utilization_ratio{decoder}"), PERCENT, labels=(("decoder_core", "0"),), deviation=_ONE_FOR_ALL_CORES),
    Row("remapped_correct_rows", "Rows remapped because of corrected errors.", first_of("remapped_rows{correctable}"), kind="counter"),
    Row("remapped_uncorrect_rows", "Rows remapped because of uncorrected errors.", first_of("remapped_rows{uncorrectable}"), kind="counter"),
    Row("container", "Always 1; its labels identify the pod that uses the card.", FactNumber(facts.one_if_owned, readings=("up",)), labels=_NO_VF_LABELS),
)
_MLU_MISSING = (
    UnservedNames("mlu_fan_speed", "unit: revolutions per minute; use `accelerator_fan_ratio`, which is a share of the maximum"),
    UnservedNames("mlu_last_xid_error, mlu_xid_error_count", "`accelerator_event_…` have a series for each error code"),
    UnservedNames("mlu_allocated", "`sum(mlu_container)` returns this number"),
    UnservedNames("mlu_activity, mlu_core_utilization, mlu_tensor_util", "only one utilization is read, and it is served as `mlu_utilization`"),
    UnservedNames("mlu_mlulink_*, mlu_mim_*, mlu_smlu_*, mlu_virtual_*, mlu_process_*, mlu_chassis_*, mlu_chip_cpu_*, mlu_host_*", "not read"),
    UnservedNames("mlu_*_voltage, mlu_*_current, mlu_cluster_temperature, mlu_over_temp_*, mlu_thermal_slow_down, mlu_*frequency_status", "not read"),
    UnservedNames("mlu_*ecc_*, mlu_address_swaps_*, mlu_d2d_*, mlu_*retired_*, mlu_remapped_{failed,pending}_rows, mlu_repair_*, mlu_parity_error", "not read"),
    UnservedNames("mlu_arm_os_*, mlu_bar4_*, mlu_ddr_*_width, mlu_default_frequency, mlu_image_codec_utilization, mlu_tiny_core_*", "not read"),
    UnservedNames("mlu_compute_mode, mlu_driver_state, mlu_env_share_exhausted, mlu_heartbeat_count, mlu_numa_node_id, mlu_optical_status", "not read"),
    UnservedNames("mlu_pcie_{read,write}_throughput, mlu_pcie_info, mlu_rdma_device_info, mlu_version", "not read"),
)
# fmt: on

_MLU_DRIVER = facts.prefixed("v", facts.driver)
# The names are from examples/metrics.yaml @ 934abae.
MLU = ExporterTable(
    name="mlu-exporter",
    source="Cambricon/mlu-exporter",
    vendors=("cambricon",),
    port=30108,
    prefix="mlu_",
    labels=(
        Label("mlu", facts.number),
        Label("model", facts.model),
        Label("type", facts.model_family),
        Label("sn", facts.serial),
        Label("uuid", facts.uuid),
        Label("driver", _MLU_DRIVER),
        Label("mcu", facts.prefixed("v", facts.fact("firmware"))),
        Label("node", facts.hostname),
        Label("node_ip", facts.address),
        *map(Label, ("namespace", "pod", "container"), facts.POD),
    ),
    rows=_MLU_ROWS,
    node_rows=(
        NodeRow(
            "machine_mlu_nums",
            "Cards of this node.",
            count_by=(
                Label("driver", _MLU_DRIVER),
                Label("model", facts.model),
                Label("node_ip", facts.address),
                Label("type", facts.model_family),
            ),
        ),
    ),
    node_label="node",
    missing=_MLU_MISSING,
)
_DIE_LABELS = (("die_id", "0"),)
_VRAM_LABELS = (*_DIE_LABELS, ("type", "vram"))

# A table with one row per line.
# fmt: off
_MX_ROWS = (
    Row("gpu_usage", "GPU usage (%).", first_of("utilization_ratio"), PERCENT, labels=_DIE_LABELS),
    Row("memory_total", "Total memory (KB).", first_of("memory_total_bytes"), KIBI, labels=_VRAM_LABELS),
    Row("memory_used", "Memory in use (KB).", first_of("memory_used_bytes"), KIBI, labels=_VRAM_LABELS),
    Row("memory_usage", "Memory in use (%).", first_of("memory_used_ratio"), PERCENT, labels=_VRAM_LABELS),
    Row("board_power", "Power of the board (mW).", first_of("power_watts"), MILLI),
    Row("chip_hotspot_temp", "Temperature of the hottest spot (C).", first_of("temperature_celsius{hotspot}"), labels=_DIE_LABELS),
    Row("chip_hbm_temp", "Temperature of the memory (C).", first_of("temperature_celsius{memory}"), labels=_DIE_LABELS),
    Row("board_core_temp", "Temperature of the board (C).", first_of("temperature_celsius{board}", "temperature_celsius{core}")),
    Row("gpu_clock", "Clock of the cores (MHz).", first_of("clock_hertz{graphics}"), MEGA, labels=_DIE_LABELS),
    Row("mem_clock", "Clock of the memory (MHz).", first_of("clock_hertz{memory}"), MEGA, labels=_DIE_LABELS),
    Row("vpue_clock", "Clock of the encoder (MHz).", first_of("clock_hertz{vpue}"), MEGA, labels=_DIE_LABELS),
    Row("vpud_clock", "Clock of the decoder (MHz).", first_of("clock_hertz{vpud}"), MEGA, labels=_DIE_LABELS),
    Row("vpue_usage", "Encoder usage (%).", first_of("engine_utilization_ratio{encoder}"), PERCENT, labels=_DIE_LABELS),
    Row("vpud_usage", "Decoder usage (%).", first_of("engine_utilization_ratio{decoder}"), PERCENT, labels=_DIE_LABELS),
    Row("pcie_width", "PCIe lanes.", first_of("pcie_link_width")),
    Row("pcie_speed", "PCIe link speed (GT/s).", Converted(first_of("pcie_link_generation"), GIGATRANSFERS_BY_GENERATION.get), deviation="computed from the link's generation"),
    Row("process", "Processes on the GPU.", first_of("processes")),
    Row("ecc_error_count", "Corrected errors.", PerLabelValue("ecc_corrected_total", "type", "{}_ce".format), deviation="`type` is our name for the location, followed by `_ce` or `_ue`"),
    Row("ecc_error_count", "Corrected errors.", PerLabelValue("ecc_uncorrected_total", "type", "{}_ue".format), deviation="`type` is our name for the location, followed by `_ce` or `_ue`"),
    Row("mxlk_traffic_total_bytes", "Bytes transferred over a MetaXLink.", PerLabelValue("link_receive_bytes_total", "mxlkId"), labels=(("type", "rx"),), deviation="`mxlkId` is our name for the link"),
    Row("mxlk_traffic_total_bytes", "Bytes transferred over a MetaXLink.", PerLabelValue("link_transmit_bytes_total", "mxlkId"), labels=(("type", "tx"),), deviation="`mxlkId` is our name for the link"),
    Row("gpu_state", "1 while the GPU is available.", first_of("up")),
)
_MX_MISSING = (
    UnservedNames('mx_memory_*{type="xtt"}', "host memory is not the card's memory"),
    UnservedNames("other dies", "each card is one device with the `die_id` 0"),
    UnservedNames("mx_pcie_bw, mx_mxlk_bw", "use `accelerator_pcie_…_bytes_per_second`, which exist if the card measures the rates"),
    UnservedNames("mx_*_eid_errors, mx_pci_event, mx_ras_count, mx_mxlk_aer_count, mx_clk_thr, mx_xcore_dpm_level, mx_pcie_bridge_*, mx_mxlk_{speed,width}, mx_sgpu_*", "not read"),
)
# fmt: on

# The names are from mx_exporter/default-counters.csv @ 874612b.
MX = ExporterTable(
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
        *map(Label, ("exported_namespace", "exported_pod", "exported_container"), facts.POD),
    ),
    rows=_MX_ROWS,
    missing=_MX_MISSING,
    hostname_labels=("Hostname",),
)


def _zero_or_one(count: float) -> float:
    return float(count > 0)


# A table with one row per line.
# fmt: off
_IX_ROWS = (
    Row("temperature", "Temperature (C).", first_of("temperature_celsius{core}"), decimals=0),
    Row("fan_speed", "Fan speed (%).", first_of("fan_ratio"), PERCENT, decimals=0),
    Row("sm_clock", "SM clock (MHz).", first_of("clock_hertz{sm}"), MEGA, decimals=0),
    Row("mem_clock", "Memory clock (MHz).", first_of("clock_hertz{memory}"), MEGA, decimals=0),
    Row("mem_total", "Total memory (MiB).", first_of("memory_total_bytes"), MEBI, decimals=0),
    Row("mem_used", "Memory in use (MiB).", first_of("memory_used_bytes"), MEBI, decimals=0),
    Row("mem_free", "Memory not in use (MiB).", Difference(("memory_total_bytes", "memory_used_bytes")), MEBI, decimals=0),
    Row("mem_utilization", "Memory in use (%).", first_of("memory_used_ratio"), PERCENT, deviation="the share of the memory in use; ix-exporter's value may be the memory activity", decimals=0),
    Row("gpu_utilization", "GPU utilization (%).", first_of("utilization_ratio"), PERCENT, decimals=0),
    Row("power_usage", "Power usage (W).", first_of("power_watts"), decimals=0),
    Row("ecc_sbe_vol_status", "1 after a corrected error.", Converted(Total("ecc_corrected_total"), _zero_or_one), deviation="computed from the error count"),
    Row("ecc_dbe_vol_status", "1 after an uncorrected error.", Converted(Total("ecc_uncorrected_total"), _zero_or_one), deviation="computed from the error count"),
)
_IX_MISSING = (
    UnservedNames("ix_sm_utilization", "the tool reports only one utilization, and it is served as `ix_gpu_utilization`"),
    UnservedNames("ix_xid_errors", "the tool reports no events"),
    UnservedNames("ix_process_info", "`accelerator_process_memory_bytes` has the memory of each process"),
)
# fmt: on

# The names are from etc/metrics.yaml @ 33b6619.
IX = ExporterTable(
    name="ix-exporter",
    source="Deep-Spark/ix-exporter",
    vendors=("iluvatar",),
    port=32021,
    prefix="ix_",
    labels=(
        Label("gpu", facts.number),
        Label("uuid", facts.uuid),
        Label("name", facts.model),
        Label("node_name", facts.kubernetes_name),
        *map(Label, ("namespace", "pod", "container"), map(facts.or_empty, facts.POD)),
    ),
    rows=_IX_ROWS,
    missing=_IX_MISSING,
)
_MAXIMUM_NOTE = "the sensor's value; according to Intel's driver, it is the maximum of the GPU or memory"
_RECEIVE_LABELS = (("network_io_direction", "receive"),)
_TRANSMIT_LABELS = (("network_io_direction", "transmit"),)
# xpumd's component names. The numbers assume the usual order of components.
_GPU_NAME = Label("hw_name", facts.numbered_from_1("gpu-"))
_PCI_NAME = Label("hw_name", facts.numbered_from_1("gpu-", "-pci"))
_BOARD_LABELS = (("hw_name", "power-1"), ("hw_sensor_location", "card"))
_MEMORY_LABELS = (("hw_memory_location", "device"), ("hw_name", "mem-1"))
_MEMORY_TYPE = (Label("hw_memory_type", facts.lower(facts.fact("memory_type"))),)
_ENGINE_TASKS = {
    "compute": "compute-all", "render": "render-all", "media": "media-all", "copy": "copy-all", "3d": "3d-all",
    "decoder": "media-decode-single", "encoder": "media-encode-single", "media_enhancement": "media-enhancement-single",
}  # fmt: skip

# A table with one row per line.
# fmt: off
_XPUMD_ROWS = (
    Row("gpu_info", "Information about the GPU device.", Constant(), device_labels=(_GPU_NAME, Label("hw_model", facts.model), Label("hw_vendor", facts.always("Intel(R) Corporation")), Label("pci_vendor_id", facts.always("8086")), Label("pci_device_id", facts.non_empty(facts.fact("pci_device_id"))), Label("hw_serial_number", facts.non_empty(facts.serial)), Label("hw_driver_version", facts.non_empty(facts.driver)), Label("hw_firmware_version", facts.non_empty(facts.fact("firmware")))), deviation="`pci_device_id` exists only if a tool prints it"),
    Row("temperature_celsius", "Temperature.", first_of("temperature_celsius{core}"), labels=(("hw_name", "temp-2"), ("hw_sensor_location", "gpu"), ("statistic", "max")), deviation=_MAXIMUM_NOTE),
    Row("temperature_celsius", "Temperature.", first_of("temperature_celsius{memory}"), labels=(("hw_name", "temp-3"), ("hw_sensor_location", "memory"), ("statistic", "max")), deviation=_MAXIMUM_NOTE),
    Row("power_watts", "Power.", first_of("power_watts"), labels=_BOARD_LABELS),
    Row("energy_joules_total", "Energy.", first_of("energy_joules_total"), kind="counter", labels=_BOARD_LABELS),
    Row("memory_usage_bytes", "Memory used.", first_of("memory_used_bytes"), labels=_MEMORY_LABELS, device_labels=_MEMORY_TYPE),
    Row("memory_size_bytes", "Size of the memory.", first_of("memory_total_bytes"), labels=_MEMORY_LABELS, device_labels=_MEMORY_TYPE),
    Row("memory_utilization_ratio", "Share of the memory in use.", first_of("memory_used_ratio"), labels=_MEMORY_LABELS, device_labels=_MEMORY_TYPE),
    Row("memory_bandwidth_utilization_ratio", "Memory bandwidth in use.", first_of("memory_bandwidth_ratio"), labels=_MEMORY_LABELS, device_labels=_MEMORY_TYPE),
    Row("gpu_utilization_ratio", "Utilization.", first_of("utilization_ratio"), labels=(("hw_gpu_task", "all"), ("hw_name", "engine-0-all"))),
    Row("gpu_utilization_ratio", "Utilization.", PerLabelValue("engine_utilization_ratio", "hw_gpu_task", _ENGINE_TASKS.get), deviation="all engines of a kind share one value"),
    Row("frequency_hertz", "Frequency.", first_of("clock_hertz{graphics}"), labels=(("aggregation", "avg"), ("hw_frequency_domain", "gpu"), ("hw_name", "freq-2")), deviation="the current clock, not an average"),
    Row("gpu_io_bytes_total", "PCIe bytes.", first_of("pcie_receive_bytes_total"), kind="counter", labels=_RECEIVE_LABELS, device_labels=(_PCI_NAME,)),
    Row("gpu_io_bytes_total", "PCIe bytes.", first_of("pcie_transmit_bytes_total"), kind="counter", labels=_TRANSMIT_LABELS, device_labels=(_PCI_NAME,)),
)
_XPUMD_MISSING = (
    UnservedNames('`statistic="min"`, `aggregation="min"`, `"max"`', "minima and maxima over xpumd's time window; use `min_over_time` and `max_over_time`"),
    UnservedNames("hw_memory_io_bytes_total", "bytes read from and written to memory are not counted"),
    UnservedNames("hw_errors_total, hw_status", "`accelerator_ecc_…_total` and `accelerator_health` have the same values"),
)
# fmt: on

# OpenTelemetry's `hw.…` names as xpumd shows them on its Prometheus page (xpumd/ @ 34c32c6).
XPUMD = ExporterTable(
    name="xpumd",
    source="intel/xpumanager",
    vendors=("intel",),
    port=8080,
    prefix="hw_",
    labels=(
        Label("pci_bdf", facts.bus_id),
        Label("hw_id", facts.uuid),
        Label("node", facts.hostname),
    ),
    rows=_XPUMD_ROWS,
    missing=_XPUMD_MISSING,
)
