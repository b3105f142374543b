"""Describes the vendors whose accelerators are not GPUs."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    ACCELERATOR,
    BASIC,
    ECC,
    PCIE_LINK,
    PCIE_LINK_MAX,
    Card,
    Demo,
    DeviceNodes,
    Mount,
    NodePool,
    PciFunctions,
    Vendor,
)

ASCEND = Vendor(
    word="ascend",
    other_tools=(("ascend-dmi", "npu-smi"),),
    name="Huawei Ascend",
    # DISPLAY is omitted, because Huawei's Hi1710 display controllers belong to management controllers (BMC).
    pci=PciFunctions(0x19E5, (ACCELERATOR,)),
    nodes=(
        DeviceNodes(
            ("/dev/davinci_manager", "/dev/davinci[0-9]*"),
            ("devdrv-cdev", "vdevdrv-cdev", "davinci*", "devmm_svm", "hisi_hdc"),
            "devdrv-cdev drives davinci0 …; vdevdrv-cdev drives virtual NPUs",
        ),
    ),
    permissions="the driver's group, `HwHiAiUser` by default",
    pool=NodePool(
        comment=(
            "Mounts npu-smi, hccn_tool and the driver's libraries from the node. On nodes that have "
            "npu-smi in /usr/local/sbin, mount that file."
        ),
        sources=("npu-smi", "hccn-tool"),
        classes=("1200",),
        privileged=True,
        mounts=(
            Mount("driver", "/usr/local/Ascend/driver"),
            Mount("dcmi", "/usr/local/dcmi"),
            Mount("npu-smi", "/usr/local/bin/npu-smi", "File"),
            Mount("install-info", "/etc/ascend_install.info", "File"),
        ),
        environment=(
            (
                "LD_LIBRARY_PATH",
                "/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/common:/usr/local/Ascend/driver/lib64/driver",
            ),
        ),
    ),
    demo=Demo(
        source="npu-smi",
        form="text",
        tool_version="25.5.1",
        driver="25.5.1",
        # The values of a whole package with two dies.
        card=Card("Ascend 910C", 131072, 0, 170.0, 760.0, (800, 1800), (1600, 1600), 66.0, 105.0, 5, links=7),
        identity="{vdie}",
        fast=(*BASIC, "engine_utilization_ratio", "memory_bandwidth_ratio", "health"),
        slow=(*ECC, "pcie_replays_total", "pcie_errors_total", "voltage_volts", "link_up", "processes"),
        inventory=("clock_max_hertz",),
        sensors=("core", "memory"),
        domains=("aicore",),
        engines=("aicore", "aicpu", "ctrlcpu", "vector"),
        ecc_locations=("hbm",),
        pcie_errors=("receive", "transmit", "lcrc", "ecrc"),
    ),
    missing_metrics=(("power_cap_watts", "npu-smi shows the power drawn, but no known output shows a limit"),),
)

CAMBRICON = Vendor(
    word="cambricon",
    name="Cambricon",
    pci=PciFunctions(0xCABC),
    nodes=(DeviceNodes(("/dev/cambricon_ctl", "/dev/cambricon_dev*"), ("cambricon*",)),),
    permissions="`/dev/cambricon_ctl`, `/dev/cambricon_dev*`",
    pool=NodePool(
        comment="Mounts the tool from the node.",
        sources=("cnmon",),
        classes=("0b40", "1200"),
        privileged=True,
        mounts=(Mount("cnmon", "/usr/bin/cnmon", "File"),),
    ),
    demo=Demo(
        source="cnmon",
        form="text",
        tool_version="5.10.22",
        driver="5.10.22",
        card=Card("MLU370-X8", 23374, 0, 40.0, 250.0, (300, 1300), (1200, 1600), 72.0, 90.0, 4),
        identity="{uuid}",
        fast=(*BASIC, "power_cap_watts", "fan_ratio"),
        slow=("processes",),
    ),
)

ENFLAME = Vendor(
    word="enflame",
    name="Enflame",
    pci=PciFunctions(0x1E36),
    nodes=(DeviceNodes(("/dev/gcu*",), ("gcu*",)),),
    permissions="`/dev/gcu*`",
    pool=NodePool(
        comment="Mounts the tool from the node.",
        sources=("efsmi",),
        classes=("0300", "1200"),
        privileged=True,
        mounts=(Mount("efsmi", "/usr/bin/efsmi", "File"),),
    ),
    demo=Demo(
        source="efsmi",
        form="text",
        tool_version="1.7.2.14",
        driver="1.7.2.14",
        card=Card("Enflame S60", 42976, 1129, 96.0, 300.0, (500, 1500), (7000, 7000), 66.0, 95.0, 5),
        identity="TR{hex16}",
        fast=(*BASIC, "power_cap_watts", "memory_free_bytes", "memory_reserved_bytes"),
        slow=("engine_utilization_ratio", *PCIE_LINK),
        inventory=(*PCIE_LINK_MAX, "ecc_enabled"),
        engines=("encoder", "decoder"),
    ),
)

KUNLUNXIN = Vendor(
    word="kunlunxin",
    name="Kunlunxin",
    pci=PciFunctions(0x1D22),
    nodes=(DeviceNodes(("/dev/xpuctrl", "/dev/xpu[0-9]*"), ("xpu*",)),),
    permissions="`/dev/xpuctrl`, `/dev/xpu*`",
    pool=NodePool(
        comment="Mounts the tool and its library from the node.",
        sources=("xpu-smi-kunlun",),
        classes=("0b40", "1200"),
        privileged=True,
        mounts=(Mount("xpu", "/usr/local/xpu"),),
    ),
    demo=Demo(
        source="xpu-smi-kunlun",
        form="text",
        tool_version="5.0.21",
        driver="5.0.21.26",
        card=Card("P800 OAM", 98304, 0, 85.0, 400.0, (600, 1450), (1450, 1450), 66.0, 95.0, 4),
        identity="GPU-{uuid}",
        fast=(*BASIC, "power_cap_watts"),
        slow=(*PCIE_LINK, "processes"),
        inventory=(*PCIE_LINK_MAX, "ecc_enabled"),
        sensors=("core", "memory"),
    ),
)
