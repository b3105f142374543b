"""Iluvatar: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import BASIC, Card, Demo, DeviceNodes, Mount, Pci, Pool, Vendor

VENDOR = Vendor(
    word="iluvatar",
    name="Iluvatar",
    pci=Pci(0x1E3E),
    nodes=(DeviceNodes(("/dev/iluvatar*",), ("iluvatar*",)),),
    permissions="`/dev/iluvatar*`",
    pool=Pool(
        comment="The toolkit with its tool and library.",
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
