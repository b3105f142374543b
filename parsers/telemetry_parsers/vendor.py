"""Types that describe a vendor to the daemon, deployment files, documentation and simulator."""

from __future__ import annotations

from typing import Literal

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Form

# Metrics that many sources report together.
BASIC = ("temperature_celsius", "power_watts", "utilization_ratio", "memory_used_bytes", "memory_total_bytes")
PCIE_LINK = ("pcie_link_generation", "pcie_link_width")
PCIE_LINK_MAX = ("pcie_link_generation_max", "pcie_link_width_max")
POWER_CAPS = ("power_cap_default_watts", "power_cap_min_watts", "power_cap_max_watts")
ECC = ("ecc_corrected_total", "ecc_uncorrected_total")
LINKS = ("link_up", "link_receive_bytes_total", "link_transmit_bytes_total")
PCIE_RATES = ("pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second", "pcie_bandwidth_bytes_per_second")


@dataclass(frozen=True, slots=True)
class Card:
    """The properties of a simulated card."""

    model: str
    memory_mib: int
    memory_reserved_mib: int
    idle_watts: float
    cap_watts: float
    graphics_mhz: tuple[int, int]  # (lowest, highest) clock; `memory_mhz` has the same form
    memory_mhz: tuple[int, int]
    full_load_celsius: float  # the temperature of the die at full load
    slowdown_celsius: float  # the temperature of the die above which the card reduces its clock
    pcie_generation: int
    links: int = 0
    compute_units: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a divided card, with its profile and its share of the card's memory."""

    profile: str
    memory_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The simulated cards and their source, with the keys of the metrics in each poll."""

    source: str
    form: Form
    tool_version: str
    driver: str
    card: Card
    identity: str  # the format string of the cards' UUIDs
    fast: tuple[str, ...]
    slow: tuple[str, ...] = ()
    inventory: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ("core",)
    domains: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    ecc_locations: tuple[str, ...] = ()
    throttle: tuple[str, str] = ("", "")  # (throttling reason for the power limit, for the temperature)
    events: tuple[str, ...] = ()
    fatal_event: str = ""
    lost_event: str = ""
    power_kind: str = "average"
    not_supported: tuple[str, ...] = ()  # metric keys that the source knows, but this model does not support
    pcie_errors: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()  # the partitions of each card
    partition_keys: tuple[str, ...] = ()  # the metrics of partitions
    only_partitions: tuple[str, ...] = ()  # the metrics that a card with partitions reports only for its partitions


# PCI classes of accelerators: two base classes, and the subclass of coprocessors.
DISPLAY = 0x03
_COPROCESSOR = 0x0B40
ACCELERATOR = 0x12


@dataclass(frozen=True, slots=True)
class PciFunctions:
    """Selects the PCI functions that are a vendor's accelerators, by vendor id and class."""

    vendor_id: int
    classes: tuple[int, ...] = (DISPLAY, _COPROCESSOR, ACCELERATOR)
    excluded_ids: tuple[int, ...] = ()  # device ids that are not accelerators
    behind_bridge: bool = False  # exclude functions on the first bus, which are part of the CPU


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """The device nodes that the tools open, as paths and as drivers in /proc/devices."""

    paths: tuple[str, ...]
    drivers: tuple[str, ...]  # names for the systemd unit's allow-list, or a fixed major number such as "226"
    comment: str = ""


RENDER_NODES = DeviceNodes(("/dev/dri/renderD*",), ("226",), "/dev/dri/card*, renderD*")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that a pod needs, and the name of its volume."""

    name: str
    path: str
    type: Literal["Directory", "File"] = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """The vendor's nodes in the Helm chart: how they are found, and what their pods need."""

    comment: str
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    labels: tuple[str, ...] = ()  # node labels, in addition to those with the PCI vendor id and `classes`
    runtime_class: str = ""
    privileged: bool = False  # True if the pods must be privileged; then the pool is disabled by default
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor with its PCI functions, device nodes, node pool and simulated cards."""

    word: str  # the value of the label `vendor` in metrics
    name: str
    pci: PciFunctions
    nodes: tuple[DeviceNodes, ...]
    permissions: str  # the permissions that the daemon's user needs, shown in docs/install.md
    pool: NodePool
    demo: Demo  # simulated cards whose label `vendor` is `word`
    other_demos: tuple[tuple[str, Demo], ...] = ()  # (label value, simulated cards) for other values of `vendor`
    missing_metrics: tuple[tuple[str, str], ...] = ()  # (core metric that no known output contains, reason)
    other_tools: tuple[tuple[str, str], ...] = ()  # (other program of the vendor, source with the same readings)
