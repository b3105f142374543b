"""NVIDIA: what is declared of the vendor, once; its parser stands in this folder. NVML is asked, nvidia-smi is not run."""

from __future__ import annotations

from dataclasses import replace

from telemetry_parsers.vendor import (
    ACCELERATOR,
    BASIC,
    DISPLAY,
    ECC,
    LINKS,
    PCIE_LINK,
    PCIE_LINK_MAX,
    POWER_CAPS,
    Card,
    Demo,
    DeviceNodes,
    Partition,
    Pci,
    Pool,
    Vendor,
)

# What a MIG instance has of its own.
_OF_INSTANCES = (
    "utilization_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_free_bytes",
    "graphics_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "memory_bandwidth_ratio",
)
# NVML does not tell these of a whole card while MIG is on.
_NOT_WITH_MIG = ("utilization_ratio", "memory_activity_ratio")

_H100 = Demo(
    source="nvml",
    form="data",
    tool_version="13.580.95",
    driver="580.95.05",
    card=Card("NVIDIA H100 80GB HBM3", 81559, 551, 70.0, 700.0, (345, 1980), (1593, 2619), 68.0, 87.0, 5, links=18),
    identity="GPU-{uuid}",
    fast=(
        *BASIC,
        "power_average_watts",
        "power_instant_watts",
        "power_memory_watts",
        "power_cap_watts",
        "energy_joules_total",
        "temperature_margin_celsius",
        "memory_free_bytes",
        "memory_reserved_bytes",
        "memory_activity_ratio",
        "memory_bandwidth_ratio",
        "graphics_active_ratio",
        "sm_active_ratio",
        "sm_occupancy_ratio",
        "tensor_active_ratio",
        "pipe_active_ratio",
        "clock_hertz",
        "throttled",
        "performance_state",
        "event_watch",
    ),
    slow=(
        "engine_utilization_ratio",
        "throttled_seconds_total",
        *PCIE_LINK,
        "pcie_replays_total",
        "pcie_errors_total",
        "pcie_receive_bytes_total",
        "pcie_transmit_bytes_total",
        *LINKS,
        "link_crc_errors_total",
        "link_replay_errors_total",
        "link_recovery_errors_total",
        *ECC,
        "remapped_rows",
        "row_remap_pending",
        "row_remap_failed",
        "recovery_action",
        "processes",
    ),
    inventory=(
        *POWER_CAPS,
        "temperature_slowdown_celsius",
        "temperature_margin_limit_celsius",
        "clock_max_hertz",
        *PCIE_LINK_MAX,
        "ecc_enabled",
        "ecc_corrected_lifetime_total",
        "ecc_uncorrected_lifetime_total",
        "fan_ratio",
    ),
    sensors=("core", "memory"),
    domains=("graphics", "sm", "memory", "video"),
    engines=("encoder", "decoder", "jpeg", "optical_flow"),
    ecc_locations=("dram", "sram"),
    throttle=("sw_power_cap", "sw_thermal"),
    events=("xid_13", "xid_31", "xid_43", "xid_94"),
    fatal_event="xid_119",
    lost_event="xid_79",
    not_supported=("fan_ratio",),
    pcie_errors=("nak_received", "correctable", "non_fatal", "fatal", "l0_to_recovery"),
)
_WITH_MIG = replace(
    _H100,
    partitions=(Partition("3g.40gb", 0.496), Partition("2g.20gb", 0.246), Partition("1g.10gb", 0.122)),
    partition_keys=_OF_INSTANCES,
    only_partitions=_NOT_WITH_MIG,
)
_GB200 = replace(
    _H100,
    card=Card("NVIDIA GB200", 189471, 722, 180.0, 1000.0, (345, 1965), (3996, 3996), 66.0, 87.0, 5, links=18),
    fast=(*_H100.fast, "power_module_watts"),
    slow=(*_H100.slow, "link_receive_errors_total", "link_transmit_errors_total"),
)

VENDOR = Vendor(
    word="nvidia",
    other_tools=(("nvidia-smi", "nvml"), ("dcgmi", "nvml"), ("nvitop", "nvml"), ("nvtop", "nvml")),
    name="NVIDIA",
    # Audio, USB, bridges (NVSwitch) and network functions of the same cards are of other classes.
    pci=Pci(0x10DE, (DISPLAY, ACCELERATOR)),
    nodes=(
        DeviceNodes(
            ("/dev/nvidiactl", "/dev/nvidia[0-9]*"),
            ("195", "nvidia*"),
            "nvidia0 …, nvidiactl; nvidia-uvm, nvidia-caps (MIG), nvidia-nvswitch",
        ),
    ),
    permissions=(
        "`/dev/nvidiactl` and `/dev/nvidia*`, which every user may open; for GPM, root or `CAP_SYS_ADMIN`, "
        "see [nvidia](vendors/nvidia.md#permissions)"
    ),
    pool=Pool(
        comment=(
            "NVML comes from NVIDIA's container toolkit: the runtime class, unless `nvidia` is the nodes' default "
            "runtime. Where the device plugin's settings forbid NVIDIA_VISIBLE_DEVICES to ordinary containers, "
            "set `privileged`. GPM (SM and tensor activity) is for root with SYS_ADMIN, unless the driver lets "
            "everybody, and MIG instances need NVIDIA_MIG_MONITOR_DEVICES, which the toolkit gives to privileged "
            "containers only: docs/vendors/nvidia.md."
        ),
        sources=("nvml",),
        classes=("0300", "0302"),
        labels=("nvidia.com/gpu.present",),
        runtime_class="nvidia",
        environment=(
            ("NVIDIA_VISIBLE_DEVICES", "all"),
            ("NVIDIA_DRIVER_CAPABILITIES", "utility"),
        ),
    ),
    demo=_H100,
    other_demos=(("h100mig", _WITH_MIG), ("gb200", _GB200)),
)
