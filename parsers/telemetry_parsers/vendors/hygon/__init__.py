"""Hygon: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    BASIC,
    ECC,
    PCIE_LINK,
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
    word="hygon",
    name="Hygon",
    # Z100 is a display controller (0380), K100 a coprocessor (0b40). Hygon's CPUs have this vendor id as well.
    pci=Pci(0x1D94),
    nodes=(
        RENDER_NODES,
        DeviceNodes(("/dev/kfd",), ("kfd",)),
        DeviceNodes(("/dev/mkfd",), ("mkfd",)),
    ),
    permissions="as for AMD; in containers `/dev/mkfd` as well",
    pool=Pool(
        comment=(
            "The driver's files need no rights; hy-smi, which has memory and power where the driver has no files "
            "of them, needs the devices."
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
