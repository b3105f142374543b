"""Enflame: what is declared of the vendor, once; its parsers stand in this folder."""

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
    word="enflame",
    name="Enflame",
    pci=Pci(0x1E36),
    nodes=(DeviceNodes(("/dev/gcu*",), ("gcu*",)),),
    permissions="`/dev/gcu*`",
    pool=Pool(
        comment="The tool.",
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
