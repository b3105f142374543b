"""Huawei Ascend: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    ACCELERATOR,
    BASIC,
    ECC,
    Card,
    Demo,
    DeviceNodes,
    Mount,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="ascend",
    other_tools=(("ascend-dmi", "npu-smi"),),
    name="Huawei Ascend",
    # Accelerators only: Huawei's display controllers (Hi1710) are the VGA of management controllers.
    pci=Pci(0x19E5, (ACCELERATOR,)),
    nodes=(
        DeviceNodes(
            ("/dev/davinci_manager", "/dev/davinci[0-9]*"),
            ("devdrv-cdev", "vdevdrv-cdev", "davinci*", "devmm_svm", "hisi_hdc"),
            "davinci0 … are devdrv-cdev, those of virtual NPUs vdevdrv-cdev",
        ),
    ),
    permissions="the driver's group, `HwHiAiUser` by default",
    pool=Pool(
        comment=(
            "npu-smi and hccn_tool of the node's driver with its libraries. On nodes that have npu-smi in "
            "/usr/local/sbin, mount that one."
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
        card=Card("910B3", 65536, 0, 90.0, 400.0, (800, 1800), (1600, 1600), 62.0, 105.0, 4, links=7),
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
    lacks=(("power_cap_watts", "npu-smi shows the power drawn; no output of it that is known shows a limit"),),
)
