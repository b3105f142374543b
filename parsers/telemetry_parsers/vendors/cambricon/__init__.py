"""Cambricon: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import BASIC, Card, Demo, DeviceNodes, Mount, Pci, Pool, Vendor

VENDOR = Vendor(
    word="cambricon",
    name="Cambricon",
    pci=Pci(0xCABC),
    nodes=(DeviceNodes(("/dev/cambricon_ctl", "/dev/cambricon_dev*"), ("cambricon*",)),),
    permissions="`/dev/cambricon_ctl`, `/dev/cambricon_dev*`",
    pool=Pool(
        comment="The tool, and the devices.",
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
