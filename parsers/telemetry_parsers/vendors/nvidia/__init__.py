"""NVIDIA: what is declared of the vendor, once; its parser stands in this folder. NVML is asked, nvidia-smi is not run."""

from __future__ import annotations

from telemetry_parsers.demo import BASIC, ECC, LINKS, PCIE_LINK, PCIE_LINK_MAX, POWER_CAPS, Card, Demo
from telemetry_parsers.vendor import ACCELERATOR, DISPLAY, DeviceNodes, Pci, Pool, ToolMarks, Vendor

VENDOR = Vendor(
    word="nvidia",
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
    tools=(
        ToolMarks(
            "nvidia-smi", ("NVIDIA-SMI", "NVSMI LOG", "<nvidia_smi_log>", "power.draw [W]", "memory.total [MiB]")
        ),
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
    demo=Demo(
        source="nvml",
        form="data",
        tool_version="13.580.95",
        driver="580.95.05",
        card=Card("NVIDIA H100 80GB HBM3", 81559, 551, 70.0, 700.0, (345, 1980), (1593, 2619), 68.0, 87.0, 5, links=18),
        identity="GPU-{uuid}",
        fast=(
            *BASIC,
            "power_instant_watts",
            "power_cap_watts",
            "energy_joules_total",
            "temperature_margin_celsius",
            "memory_free_bytes",
            "memory_reserved_bytes",
            "memory_activity_ratio",
            "sm_active_ratio",
            "sm_occupancy_ratio",
            "tensor_active_ratio",
            "clock_hertz",
            "throttled",
            "performance_state",
        ),
        slow=(
            "engine_utilization_ratio",
            "throttled_seconds_total",
            *PCIE_LINK,
            "pcie_replays_total",
            *LINKS,
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
            "clock_max_hertz",
            *PCIE_LINK_MAX,
            "ecc_enabled",
            "fan_ratio",
        ),
        sensors=("core", "memory"),
        domains=("graphics", "sm", "memory", "video"),
        engines=("encoder", "decoder", "jpeg", "optical_flow"),
        ecc_locations=("dram", "sram"),
        throttle=("sw_power_cap", "sw_thermal"),
        events=("xid_13", "xid_31", "xid_43", "xid_94"),
        lost_event="xid_79",
        not_supported=("fan_ratio",),
    ),
)
