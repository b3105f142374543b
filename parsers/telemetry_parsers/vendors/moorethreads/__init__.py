"""Moore Threads: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    ACCELERATOR,
    BASIC,
    DISPLAY,
    PCIE_LINK,
    PCIE_LINK_MAX,
    RENDER_NODES,
    Card,
    Demo,
    DeviceNodes,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="moorethreads",
    name="Moore Threads",
    pci=Pci(0x1ED5, (DISPLAY, ACCELERATOR)),
    nodes=(
        RENDER_NODES,
        DeviceNodes(("/dev/mtgpu*",), ("mtgpu*",)),
    ),
    permissions="`/dev/mtgpu.*`, through the group `render` or `video`",
    pool=Pool(
        comment="Moore Threads' container toolkit brings the library, the tool and the devices in.",
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
        slow=(*PCIE_LINK, "retired_pages", "retired_pages_pending"),
        inventory=("power_cap_default_watts", "power_cap_max_watts", "clock_max_hertz", *PCIE_LINK_MAX, "ecc_enabled"),
        domains=("graphics", "memory", "video"),
        engines=("encoder", "decoder"),
    ),
)
