"""Intel: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    BASIC,
    DISPLAY,
    ECC,
    PCIE_LINK,
    PCIE_LINK_MAX,
    RENDER_NODES,
    Card,
    Demo,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="intel",
    name="Intel",
    # Arc, Flex and Max are display controllers behind a bridge; integrated graphics are 00:02.0, NPUs 00:0b.0.
    # Intel's other accelerators (QuickAssist 0b40, FPGA 1200) are no devices of its GPU tools.
    pci=Pci(0x8086, (DISPLAY,), behind_bridge=True),
    nodes=(RENDER_NODES,),
    permissions="the group `render`; root for all counters",
    pool=Pool(
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
