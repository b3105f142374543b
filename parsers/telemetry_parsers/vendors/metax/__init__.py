"""MetaX: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    BASIC,
    ECC,
    PCIE_LINK,
    PCIE_LINK_MAX,
    RENDER_NODES,
    Card,
    Demo,
    DeviceNodes,
    Mount,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="metax",
    name="MetaX",
    pci=Pci(0x9999),
    nodes=(RENDER_NODES, DeviceNodes(("/dev/mxcd",), ("mxcd",))),
    permissions="`/dev/mxcd`, `/dev/dri`",
    pool=Pool(
        comment="The driver with its tool. For cards sold with ht-smi mount /opt/htdriver.",
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
