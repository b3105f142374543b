"""What is read of the drivers' files, and how often."""

from __future__ import annotations

from telemetry_parsers.model import Files, Poll
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import DRIVERS

_KFD = "/sys/class/kfd/kfd"
_NODE = f"{_KFD}/topology/nodes/*"
# A card that sleeps is not woken: nothing in its folder is opened but this, which shows that it does.
_ASLEEP = (("power/runtime_status", "suspended"),)
# pcie_bw is left out: reading it takes a second.
_FAST = (
    "vendor", "device", "product_name", "unique_id", "power/runtime_status", "gpu_busy_percent", "mem_busy_percent",
    "mem_info_vram_total", "mem_info_vram_used", "mem_info_gtt_total", "mem_info_gtt_used", "chip_power_average", "pp_dpm_sclk", "pp_dpm_mclk", "pp_dpm_socclk",
    "pp_dpm_fclk", "pp_dpm_vclk", "power_dpm_force_performance_level", "hwmon/hwmon*/temp*_input",
    "hwmon/hwmon*/temp*_label", "hwmon/hwmon*/temp*_crit", "hwmon/hwmon*/temp*_emergency",
    "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input", "hwmon/hwmon*/power1_cap",
    "hwmon/hwmon*/power1_cap_default", "hwmon/hwmon*/power1_cap_max", "hwmon/hwmon*/power1_cap_min",
    "hwmon/hwmon*/freq*_input", "hwmon/hwmon*/in*_input", "hwmon/hwmon*/in*_label", "hwmon/hwmon*/fan1_input",
    "hwmon/hwmon*/fan1_max", "hwmon/hwmon*/pwm1", "hwmon/hwmon*/pwm1_max",
)  # fmt: skip
_SLOW = (
    "vendor", "ras/*_err_count", "ras/features", "ras/gpu_vram_bad_pages", "pcie_replay_count", "current_link_speed",
    "current_link_width", "max_link_speed", "max_link_width",
)  # fmt: skip
# These the driver and the PCI core remember: they are read of a sleeping card as well, and do not wake it.
_RARE = (
    "vendor", "device", "product_name", "unique_id", "serial_number", "vbios_version", "numa_node",
    "current_compute_partition", "current_memory_partition",
)  # fmt: skip


def _of_each(*names: str) -> tuple[str, ...]:
    return tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*/{name}" for driver in DRIVERS for name in names)


def _of_nodes(*names: str) -> tuple[str, ...]:
    return tuple(f"{_NODE}/{name}" for name in names)


POLLS = (
    Poll(
        name="readings",
        request=Files(
            globs=(*_of_each(*_FAST), *_of_nodes("properties")),
            links=tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*" for driver in DRIVERS),
            binary=_of_each("gpu_metrics"),
            skip_when=_ASLEEP,
        ),
        interval=2.0,
        deadline=2.0,
    ),
    Poll(
        name="links",
        request=Files(globs=_of_each(*_SLOW), skip_when=_ASLEEP),
        tier="slow",
        interval=60.0,
        deadline=5.0,
        lists_devices=False,
    ),
    Poll(
        name="processes",
        # The folder of processes cannot be read as a file, but its presence shows that none is a fact. Each card's
        # vendor shows which cards there are: of those that only KFD lists, KFD is asked for more than processes.
        request=Files(
            globs=(*_of_each("vendor"), *_of_nodes("gpu_id", "properties"), f"{_KFD}/proc", f"{_KFD}/proc/*/vram_*")
        ),
        tier="slow",
        interval=60.0,
        deadline=5.0,
        lists_devices=False,
    ),
    Poll(
        name="facts",
        request=Files(
            globs=(
                *_of_each(*_RARE),
                *_of_nodes("gpu_id", "properties", "mem_banks/*/properties"),
                *(f"/sys/module/{driver}/version" for driver in DRIVERS),
            )
        ),
        tier="inventory",
        interval=300.0,
        deadline=5.0,
        lists_devices=False,
    ),
)
