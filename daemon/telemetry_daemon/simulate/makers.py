"""What each vendor's simulated source is called, what its cards are like, and which readings it can give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers.model import Form


@dataclass(frozen=True, slots=True)
class Card:
    """What one model of card is like; temperatures are those of the die."""

    model: str
    memory_mib: int
    memory_reserved_mib: int
    idle_watts: float
    cap_watts: float
    graphics_mhz: tuple[int, int]
    memory_mhz: tuple[int, int]
    full_load_celsius: float
    slowdown_celsius: float
    pcie_generation: int
    links: int = 0
    compute_units: int = 0


@dataclass(frozen=True, slots=True)
class Maker:
    """One vendor: the source that its cards are read by, and the keys of the metrics in each of its polls.

    `throttle` names the reason of the power cap and of the temperature; `not_supported` are the keys that the
    source knows and this model has nothing for; `identity` is the shape of its uuids.
    """

    vendor: str
    source: str
    form: Form
    tool_version: str
    driver: str
    card: Card
    identity: str
    fast: tuple[str, ...]
    slow: tuple[str, ...] = ()
    inventory: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ("core",)
    domains: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    ecc_locations: tuple[str, ...] = ()
    throttle: tuple[str, str] = ("", "")
    events: tuple[str, ...] = ()
    lost_event: str = ""
    power_kind: str = "average"
    not_supported: tuple[str, ...] = ()


_BASIC = ("temperature_celsius", "power_watts", "utilization_ratio", "memory_used_bytes", "memory_total_bytes")
_LINK = ("pcie_link_generation", "pcie_link_width")
_LINK_MAX = ("pcie_link_generation_max", "pcie_link_width_max")
_CAPS = ("power_cap_default_watts", "power_cap_min_watts", "power_cap_max_watts")
_ECC = ("ecc_corrected_total", "ecc_uncorrected_total")
_LINKS = ("link_up", "link_receive_bytes_total", "link_transmit_bytes_total")

_NVIDIA = Maker(
    vendor="nvidia",
    source="nvml",
    form="data",
    tool_version="13.580.95",
    driver="580.95.05",
    card=Card("NVIDIA H100 80GB HBM3", 81559, 551, 70.0, 700.0, (345, 1980), (1593, 2619), 68.0, 87.0, 5, links=18),
    identity="GPU-{uuid}",
    fast=(
        *_BASIC,
        "power_instant_watts",
        "power_cap_watts",
        "energy_joules_total",
        "temperature_margin_celsius",
        "memory_free_bytes",
        "memory_reserved_bytes",
        "memory_activity_ratio",
        "sm_active_ratio",
        "sm_occupancy_ratio",
        "tensor_active_ratio",
        "clock_hertz",
        "throttled",
        "performance_state",
    ),
    slow=(
        "engine_utilization_ratio",
        "throttled_seconds_total",
        *_LINK,
        "pcie_replays_total",
        *_LINKS,
        *_ECC,
        "remapped_rows",
        "row_remap_pending",
        "row_remap_failed",
        "recovery_action",
        "processes",
    ),
    inventory=(*_CAPS, "temperature_slowdown_celsius", "clock_max_hertz", *_LINK_MAX, "ecc_enabled", "fan_ratio"),
    sensors=("core", "memory"),
    domains=("graphics", "sm", "memory", "video"),
    engines=("encoder", "decoder", "jpeg", "optical_flow"),
    ecc_locations=("dram", "sram"),
    throttle=("sw_power_cap", "sw_thermal"),
    events=("xid_13", "xid_31", "xid_43", "xid_94"),
    lost_event="xid_79",
    not_supported=("fan_ratio",),
)
_AMD = Maker(
    vendor="amd",
    source="amd-smi",
    form="json",
    tool_version="26.0.0",
    driver="6.14.14",
    card=Card("AMD Instinct MI300X", 196592, 0, 135.0, 750.0, (132, 2100), (900, 1300), 76.0, 100.0, 5, 7, 304),
    identity="{uuid}",
    fast=(
        *_BASIC,
        "power_cap_watts",
        "energy_joules_total",
        "memory_free_bytes",
        "memory_activity_ratio",
        "clock_hertz",
        "throttled",
        "performance_level",
    ),
    slow=(*_LINK, "pcie_replays_total", *_LINKS, *_ECC, "processes"),
    inventory=(
        *_CAPS,
        "temperature_slowdown_celsius",
        "clock_max_hertz",
        *_LINK_MAX,
        "compute_units",
        "fan_ratio",
    ),
    sensors=("junction", "memory"),
    domains=("graphics", "memory"),
    ecc_locations=("gfx", "umc"),
    throttle=("ppt", "socket_thermal"),
    power_kind="instant",
    not_supported=("fan_ratio",),
)
_HYGON = Maker(
    vendor="hygon",
    source="hy-smi",
    form="json",
    tool_version="1.20.0",
    driver="6.3.28-V1.3.0b",
    card=Card("K100_AI", 65520, 0, 76.0, 400.0, (600, 1350), (500, 900), 74.0, 95.0, 5),
    identity="{hex16}",
    fast=(*_BASIC, "power_cap_watts", "clock_hertz", "performance_level"),
    slow=("processes",),
    inventory=_LINK,
    sensors=("edge", "junction", "memory", "core"),
    domains=("graphics", "memory"),
)
_MOORETHREADS = Maker(
    vendor="moorethreads",
    source="mthreads-gmi",
    form="json",
    tool_version="2.3.3",
    driver="3.3.8-server",
    card=Card("MTT S5000", 81920, 0, 96.0, 950.0, (600, 1900), (1600, 3200), 70.0, 95.0, 5),
    identity="{uuid}",
    fast=(
        *_BASIC,
        "power_cap_watts",
        "memory_free_bytes",
        "engine_utilization_ratio",
        "clock_hertz",
        "performance_state",
    ),
    slow=(*_LINK, "retired_pages", "retired_pages_pending"),
    inventory=(*_CAPS, "clock_max_hertz", *_LINK_MAX, "ecc_enabled"),
    domains=("graphics", "memory", "video"),
    engines=("encoder", "decoder"),
)
_ASCEND = Maker(
    vendor="ascend",
    source="npu-smi",
    form="text",
    tool_version="25.5.1",
    driver="25.5.1",
    card=Card("910B3", 65536, 0, 90.0, 400.0, (800, 1800), (1600, 1600), 62.0, 105.0, 4, links=7),
    identity="{vdie}",
    fast=(*_BASIC, "engine_utilization_ratio", "memory_bandwidth_ratio", "health"),
    slow=(*_ECC, "link_up", "processes"),
    inventory=("clock_max_hertz",),
    sensors=("core", "memory"),
    domains=("aicore",),
    engines=("aicore", "aicpu", "ctrlcpu", "vector"),
    ecc_locations=("hbm",),
)
_CAMBRICON = Maker(
    vendor="cambricon",
    source="cnmon",
    form="text",
    tool_version="5.10.22",
    driver="5.10.22",
    card=Card("MLU370-X8", 23374, 0, 40.0, 250.0, (300, 1300), (1200, 1600), 72.0, 90.0, 4),
    identity="{uuid}",
    fast=(*_BASIC, "power_cap_watts", "fan_ratio"),
    slow=("processes",),
)
_METAX = Maker(
    vendor="metax",
    source="mx-smi",
    form="text",
    tool_version="2.2.9",
    driver="3.0.11",
    card=Card("MetaX C550", 65536, 0, 53.0, 450.0, (400, 1600), (900, 1800), 70.0, 95.0, 5),
    identity="GPU-{uuid}",
    fast=(*_BASIC, "power_cap_watts", "performance_state"),
    slow=("ecc_corrected_total", "processes"),
    ecc_locations=("sram",),
)
_ILUVATAR = Maker(
    vendor="iluvatar",
    source="ixsmi",
    form="text",
    tool_version="4.4.0",
    driver="4.4.0",
    card=Card("Iluvatar BI-V100", 32768, 0, 56.0, 250.0, (500, 1500), (1200, 1200), 74.0, 95.0, 4),
    identity="GPU-{uuid}",
    fast=(*_BASIC, "power_cap_watts", "clock_hertz", "fan_ratio", "performance_state"),
    slow=("processes",),
    domains=("sm", "memory"),
)
_ENFLAME = Maker(
    vendor="enflame",
    source="efsmi",
    form="text",
    tool_version="1.7.2.14",
    driver="1.7.2.14",
    card=Card("Enflame S60", 42976, 1129, 96.0, 300.0, (500, 1500), (7000, 7000), 66.0, 95.0, 5),
    identity="TR{hex16}",
    fast=(*_BASIC, "power_cap_watts", "memory_free_bytes", "memory_reserved_bytes"),
    slow=("engine_utilization_ratio", *_LINK),
    inventory=(*_LINK_MAX, "ecc_enabled"),
    engines=("encoder", "decoder"),
)
_INTEL = Maker(
    vendor="intel",
    source="xpu-smi",
    form="json",
    tool_version="1.3.6",
    driver="1.25.18",
    card=Card("Intel(R) Data Center GPU Max 1550", 131072, 0, 150.0, 600.0, (900, 1600), (3200, 3200), 68.0, 105.0, 5),
    identity="{uuid}",
    fast=(*_BASIC, "energy_joules_total", "engine_utilization_ratio", "memory_bandwidth_ratio", "clock_hertz"),
    slow=("pcie_receive_bytes_total", "pcie_transmit_bytes_total", *_ECC),
    inventory=(*_LINK_MAX, "clock_max_hertz"),
    sensors=("core", "memory"),
    domains=("graphics",),
    engines=("decoder", "encoder", "copy"),
    ecc_locations=("all",),
)
_KUNLUNXIN = Maker(
    vendor="kunlunxin",
    source="xpu-smi-kunlun",
    form="text",
    tool_version="5.0.21",
    driver="5.0.21.26",
    card=Card("P800 OAM", 98304, 0, 85.0, 400.0, (600, 1450), (1450, 1450), 66.0, 95.0, 4),
    identity="GPU-{uuid}",
    fast=(*_BASIC, "power_cap_watts"),
    slow=(*_LINK, "processes"),
    inventory=(*_LINK_MAX, "ecc_enabled"),
    sensors=("core", "memory"),
)

MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        maker.vendor: maker
        for maker in (
            _NVIDIA,
            _AMD,
            _HYGON,
            _MOORETHREADS,
            _ASCEND,
            _CAMBRICON,
            _METAX,
            _ILUVATAR,
            _ENFLAME,
            _INTEL,
            _KUNLUNXIN,
        )
    }
)
