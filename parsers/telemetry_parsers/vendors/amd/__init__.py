"""AMD: what is declared of the vendor, once; its parsers stand in this folder."""

from __future__ import annotations

from telemetry_parsers.vendor import (
    ACCELERATOR,
    BASIC,
    DISPLAY,
    ECC,
    LINKS,
    PCIE_LINK,
    PCIE_LINK_MAX,
    PCIE_RATES,
    POWER_CAPS,
    RENDER_NODES,
    Card,
    Demo,
    DeviceNodes,
    Pci,
    Pool,
    Vendor,
)

VENDOR = Vendor(
    word="amd",
    other_tools=(("amdgpu-top", "amdgpu-sysfs"), ("radeontop", "amdgpu-sysfs")),
    name="AMD",
    # ES1000 and Rage XL: the VGA of older servers' management controllers. Integrated graphics count: amdgpu lists them, too.
    pci=Pci(0x1002, (DISPLAY, ACCELERATOR), but_not=(0x515E, 0x5969, 0x4752)),
    nodes=(
        RENDER_NODES,
        DeviceNodes(("/dev/kfd",), ("kfd",)),
    ),
    permissions=(
        "nothing for the driver's files in /sys and for `rocm-smi`; the groups `render` and `video` for "
        "`rocminfo` and `amd-smi`"
    ),
    pool=Pool(
        comment=(
            "The driver's files below /sys, which every container has: no device, no library, no rights. For what "
            "only rocm-smi or amd-smi tells, use an image that has them, `privileged`, and add them to `sources`."
        ),
        sources=("amdgpu-sysfs",),
        classes=("0300", "0380", "1200"),
    ),
    demo=Demo(
        source="amd-smi",
        form="json",
        tool_version="26.0.0",
        driver="6.14.14",
        card=Card("AMD Instinct MI300X", 196592, 0, 135.0, 750.0, (132, 2100), (900, 1300), 76.0, 100.0, 5, 7, 304),
        identity="{uuid}",
        fast=(
            *BASIC,
            "power_cap_watts",
            "energy_joules_total",
            "memory_free_bytes",
            "memory_activity_ratio",
            "clock_hertz",
            "throttled",
            "performance_level",
        ),
        slow=(
            *PCIE_LINK,
            "pcie_replays_total",
            "pcie_errors_total",
            *PCIE_RATES,
            *LINKS,
            *ECC,
            "ecc_deferred_total",
            "memory_gtt_used_bytes",
            "memory_gtt_total_bytes",
            "processes",
        ),
        inventory=(
            *POWER_CAPS,
            "temperature_slowdown_celsius",
            "temperature_critical_celsius",
            "temperature_shutdown_celsius",
            "clock_max_hertz",
            *PCIE_LINK_MAX,
            "ecc_enabled",
            "compute_units",
            "fan_ratio",
        ),
        sensors=("junction", "memory"),
        domains=("graphics", "memory"),
        ecc_locations=("gfx", "umc"),
        throttle=("ppt", "socket_thermal"),
        power_kind="instant",
        not_supported=("fan_ratio",),
        pcie_errors=("nak_sent", "nak_received", "l0_to_recovery"),
    ),
)
