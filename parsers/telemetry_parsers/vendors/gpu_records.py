"""The records of vendors whose accelerators are GPUs."""

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
    PCIE_RATES,
    POWER_CAPS,
    RENDER_NODES,
    Card,
    Demo,
    DeviceNodes,
    Mount,
    NodePool,
    Partition,
    PciFunctions,
    Vendor,
)

_MIG_INSTANCE_METRICS = (
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
_H100_MIG = replace(
    _H100,
    partitions=(Partition("3g.40gb", 0.496), Partition("2g.20gb", 0.246), Partition("1g.10gb", 0.122)),
    partition_keys=_MIG_INSTANCE_METRICS,
    only_partitions=("utilization_ratio", "memory_activity_ratio"),  # not reported for a whole card in MIG mode
)
_B200 = replace(
    _H100,
    card=Card("NVIDIA B200", 183359, 722, 140.0, 1000.0, (120, 1965), (3996, 3996), 68.0, 87.0, 5, links=18),
)
_GB200 = replace(
    _H100,
    card=Card("NVIDIA GB200", 189471, 722, 180.0, 1200.0, (120, 1965), (3996, 3996), 66.0, 87.0, 5, links=18),
    fast=(*_H100.fast, "power_module_watts"),
    slow=(*_H100.slow, "link_receive_errors_total", "link_transmit_errors_total"),
)

NVIDIA = Vendor(
    word="nvidia",
    other_tools=(("nvidia-smi", "nvml"), ("dcgmi", "nvml"), ("nvitop", "nvml"), ("nvtop", "nvml")),
    name="NVIDIA",
    # Audio and other functions of the cards, and bridges (NVSwitch), have other PCI classes.
    pci=PciFunctions(0x10DE, (DISPLAY, ACCELERATOR)),
    nodes=(
        DeviceNodes(
            ("/dev/nvidiactl", "/dev/nvidia[0-9]*"),
            ("195", "nvidia*"),
            "nvidia0 …, nvidiactl; nvidia-uvm, nvidia-caps (MIG), nvidia-nvswitch",
        ),
    ),
    permissions=(
        "`/dev/nvidiactl` and `/dev/nvidia*`, which every user may open. GPM needs root or `CAP_SYS_ADMIN`: "
        "see [nvidia](vendors/nvidia.md#permissions)"
    ),
    pool=NodePool(
        comment=(
            "NVIDIA's container toolkit provides NVML. It needs the runtime class, unless `nvidia` is the nodes' default "
            "runtime. If the device plugin forbids NVIDIA_VISIBLE_DEVICES in ordinary containers, set `privileged`. "
            "GPM (SM and tensor activity) needs root with SYS_ADMIN, unless the driver allows GPM for all users. "
            "MIG instances need NVIDIA_MIG_MONITOR_DEVICES, which the toolkit accepts only in privileged "
            "containers: docs/vendors/nvidia.md."
        ),
        sources=("nvml",),
        classes=("0300", "0302"),
        labels=("nvidia.com/gpu.present",),
        runtime_class="nvidia",
        environment=(("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", "utility")),
    ),
    demo=_B200,
    other_demos=(("h100", _H100), ("h100mig", _H100_MIG), ("gb200", _GB200)),
)

AMD = Vendor(
    word="amd",
    other_tools=(("amdgpu-top", "amdgpu-sysfs"), ("radeontop", "amdgpu-sysfs")),
    name="AMD",
    # The excluded ids are VGA chips of old servers (ES1000 and Rage XL).
    pci=PciFunctions(0x1002, (DISPLAY, ACCELERATOR), excluded_ids=(0x515E, 0x5969, 0x4752)),
    nodes=(RENDER_NODES, DeviceNodes(("/dev/kfd",), ("kfd",))),
    permissions=(
        "the groups `render` and `video` for `rocminfo` and `amd-smi`. The driver's files and `rocm-smi` need "
        "no permissions"
    ),
    pool=NodePool(
        comment=(
            "Every container can read the driver's files below /sys. If you need readings that only rocm-smi or amd-smi "
            "reports, use an image with the tool, set `privileged`, and add the tool to `sources`."
        ),
        sources=("amdgpu-sysfs",),
        classes=("0300", "0380", "1200"),
    ),
    demo=Demo(
        source="amd-smi",
        form="json",
        tool_version="26.0.0",
        driver="6.14.14",
        card=Card("AMD Instinct MI355X", 294896, 0, 238.0, 1400.0, (132, 2400), (900, 2000), 76.0, 100.0, 5, 7, 256),
        identity="{uuid}",
        fast=(
            *BASIC,
            "power_cap_watts",
            "energy_joules_total",
            "memory_free_bytes",
            "memory_activity_ratio",
            "clock_hertz",
            "throttled",
            "performance_level",
        ),
        slow=(
            *PCIE_LINK,
            "pcie_replays_total",
            "pcie_errors_total",
            *PCIE_RATES,
            *LINKS,
            *ECC,
            "ecc_deferred_total",
            "memory_gtt_used_bytes",
            "memory_gtt_total_bytes",
            "processes",
        ),
        inventory=(
            *POWER_CAPS,
            "temperature_slowdown_celsius",
            "temperature_critical_celsius",
            "temperature_shutdown_celsius",
            "clock_max_hertz",
            *PCIE_LINK_MAX,
            "ecc_enabled",
            "compute_units",
            "fan_ratio",
        ),
        sensors=("junction", "memory"),
        domains=("graphics", "memory"),
        ecc_locations=("gfx", "umc"),
        throttle=("ppt", "socket_thermal"),
        power_kind="instant",
        not_supported=("fan_ratio",),
        pcie_errors=("nak_sent", "nak_received", "l0_to_recovery"),
    ),
)

HYGON = Vendor(
    word="hygon",
    name="Hygon",
    # All PCI classes are needed: Z100 is a display controller (0380), but K100 is a coprocessor (0b40).
    pci=PciFunctions(0x1D94),
    nodes=(RENDER_NODES, DeviceNodes(("/dev/kfd",), ("kfd",)), DeviceNodes(("/dev/mkfd",), ("mkfd",))),
    permissions="as for AMD; in containers `/dev/mkfd` as well",
    pool=NodePool(
        comment=(
            "The driver's files need no rights. hy-smi needs the devices. It reports memory and power if the driver "
            "has no files for them."
        ),
        sources=("amdgpu-sysfs", "hy-smi", "rocminfo"),
        classes=("0380", "0b40"),
        privileged=True,
        mounts=(Mount("hyhal", "/opt/hyhal"),),
        environment=(("LD_LIBRARY_PATH", "/opt/hyhal/lib"),),
    ),
    demo=Demo(
        source="hy-smi",
        form="json",
        tool_version="1.20.0",
        driver="6.3.28-V1.3.0b",
        card=Card("K100_AI", 65520, 0, 76.0, 400.0, (600, 1350), (500, 900), 74.0, 95.0, 5),
        identity="{hex16}",
        fast=(*BASIC, "power_cap_watts", "clock_hertz", "performance_level"),
        slow=(*ECC, "processes"),
        inventory=PCIE_LINK,
        sensors=("edge", "junction", "memory", "core"),
        domains=("graphics", "memory"),
        ecc_locations=("umc",),
    ),
)

MOORETHREADS = Vendor(
    word="moorethreads",
    name="Moore Threads",
    pci=PciFunctions(0x1ED5, (DISPLAY, ACCELERATOR)),
    nodes=(RENDER_NODES, DeviceNodes(("/dev/mtgpu*",), ("mtgpu*",))),
    permissions="`/dev/mtgpu.*`, through the group `render` or `video`",
    pool=NodePool(
        comment="Moore Threads' container toolkit adds the library, the tool and the devices to the container.",
        sources=("mtml", "mthreads-gmi"),
        classes=("0300", "0302", "1200"),
        runtime_class="mthreads",
        environment=(("MTHREADS_VISIBLE_DEVICES", "all"),),
    ),
    demo=Demo(
        source="mthreads-gmi",
        form="json",
        tool_version="2.3.3",
        driver="3.3.8-server",
        card=Card("MTT S5000", 81920, 0, 96.0, 950.0, (600, 1900), (1600, 3200), 70.0, 95.0, 5),
        identity="{uuid}",
        fast=(
            *BASIC,
            "power_cap_watts",
            "memory_free_bytes",
            "engine_utilization_ratio",
            "clock_hertz",
            "performance_state",
        ),
        slow=(*PCIE_LINK, "retired_pages", "retired_pages_pending", "processes"),
        inventory=("power_cap_default_watts", "power_cap_max_watts", "clock_max_hertz", *PCIE_LINK_MAX, "ecc_enabled"),
        domains=("graphics", "memory", "video"),
        engines=("encoder", "decoder"),
    ),
)

METAX = Vendor(
    word="metax",
    name="MetaX",
    pci=PciFunctions(0x9999),
    nodes=(RENDER_NODES, DeviceNodes(("/dev/mxcd",), ("mxcd",))),
    permissions="`/dev/mxcd`, `/dev/dri`",
    pool=NodePool(
        comment="Mounts the driver and its tool from the node. For cards sold with ht-smi, mount /opt/htdriver.",
        sources=("mx-smi",),
        classes=("0300", "0380", "1200"),
        privileged=True,
        mounts=(Mount("driver", "/opt/mxdriver"),),
        environment=(("LD_LIBRARY_PATH", "/opt/mxdriver/lib"),),
    ),
    demo=Demo(
        source="mx-smi",
        form="text",
        tool_version="2.2.9",
        driver="3.0.11",
        card=Card("MetaX C550", 65536, 0, 53.0, 450.0, (400, 1600), (900, 1800), 70.0, 95.0, 5),
        identity="GPU-{uuid}",
        fast=(*BASIC, "power_cap_watts", "performance_state"),
        slow=("health", *PCIE_LINK, *ECC, "processes"),
        inventory=(*PCIE_LINK_MAX, "ecc_enabled"),
        ecc_locations=("sram",),
    ),
)

ILUVATAR = Vendor(
    word="iluvatar",
    name="Iluvatar",
    pci=PciFunctions(0x1E3E),
    nodes=(DeviceNodes(("/dev/iluvatar*",), ("iluvatar*",)),),
    permissions="`/dev/iluvatar*`",
    pool=NodePool(
        comment="Mounts the toolkit, with its tool and library, from the node.",
        sources=("ixsmi",),
        classes=("0302", "1200"),
        privileged=True,
        mounts=(Mount("corex", "/usr/local/corex"),),
    ),
    demo=Demo(
        source="ixsmi",
        form="text",
        tool_version="4.4.0",
        driver="4.4.0",
        card=Card("Iluvatar BI-V100", 32768, 0, 56.0, 250.0, (500, 1500), (1200, 1200), 74.0, 95.0, 4),
        identity="GPU-{uuid}",
        fast=(*BASIC, "power_cap_watts", "clock_hertz", "fan_ratio", "performance_state"),
        slow=("processes",),
        domains=("sm", "memory"),
    ),
)

INTEL = Vendor(
    word="intel",
    name="Intel",
    # Arc, Flex and Max are behind a bridge. Integrated graphics (00:02.0) and NPUs (00:0b.0) are not.
    # Intel's GPU tools do not list Intel's other accelerators (QuickAssist 0b40, FPGA 1200).
    pci=PciFunctions(0x8086, (DISPLAY,), behind_bridge=True),
    nodes=(RENDER_NODES,),
    permissions="the group `render`; root for all counters",
    pool=NodePool(
        comment="xpu-smi needs its libraries and Level Zero: use an image that has them (`image`).",
        sources=("xpu-smi",),
        classes=("0300", "0380"),
        privileged=True,
    ),
    demo=Demo(
        source="xpu-smi",
        form="json",
        tool_version="1.3.6",
        driver="1.25.18",
        card=Card(
            "Intel(R) Data Center GPU Max 1550", 131072, 0, 150.0, 600.0, (900, 1600), (3200, 3200), 68.0, 105.0, 5
        ),
        identity="{uuid}",
        fast=(*BASIC, "energy_joules_total", "engine_utilization_ratio", "memory_bandwidth_ratio", "clock_hertz"),
        slow=(*PCIE_LINK, "pcie_replays_total", *ECC, "health"),
        inventory=(
            *PCIE_LINK_MAX,
            "clock_max_hertz",
            "temperature_slowdown_celsius",
            "temperature_shutdown_celsius",
            "ecc_enabled",
        ),
        sensors=("core", "memory"),
        domains=("graphics",),
        engines=("decoder", "encoder", "copy"),
        ecc_locations=("all",),
    ),
)
