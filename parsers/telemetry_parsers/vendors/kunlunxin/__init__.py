"""Kunlunxin: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    BASIC,
    PCIE_LINK,
    PCIE_LINK_MAX,
    Card,
    Demo,
    DeviceNodes,
    Mount,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="kunlunxin",
    name="Kunlunxin",
    pci=Pci(0x1D22),
    nodes=(DeviceNodes(("/dev/xpuctrl", "/dev/xpu[0-9]*"), ("xpu*",)),),
    permissions="`/dev/xpuctrl`, `/dev/xpu*`",
    pool=Pool(
        comment="The tool and its library.",
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
