"""The declaration of a vendor: the daemon, the unit, the chart, the docs and the simulator read it."""

from __future__ import annotations

from typing import Literal

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Form

# Metrics that most sources report together.
BASIC = ("temperature_celsius", "power_watts", "utilization_ratio", "memory_used_bytes", "memory_total_bytes")
PCIE_LINK = ("pcie_link_generation", "pcie_link_width")
PCIE_LINK_MAX = ("pcie_link_generation_max", "pcie_link_width_max")
POWER_CAPS = ("power_cap_default_watts", "power_cap_min_watts", "power_cap_max_watts")
ECC = ("ecc_corrected_total", "ecc_uncorrected_total")
LINKS = ("link_up", "link_receive_bytes_total", "link_transmit_bytes_total")
PCIE_RATES = ("pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second", "pcie_bandwidth_bytes_per_second")


@dataclass(frozen=True, slots=True)
class Card:
    """The properties of one model of card."""

    model: str
    memory_mib: int
    memory_reserved_mib: int
    idle_watts: float
    cap_watts: float
    graphics_mhz: tuple[int, int]
    memory_mhz: tuple[int, int]
    full_load_celsius: float  # at the die, as the next one
    slowdown_celsius: float
    pcie_generation: int
    links: int = 0
    compute_units: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a divided card: its profile, and its share of the card's memory."""

    profile: str
    memory_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The source that reads the simulated cards, and the keys of the metrics in each of its polls."""

    source: str
    form: Form
    tool_version: str
    driver: str
    card: Card
    identity: str  # the form of the cards' uuids
    fast: tuple[str, ...]
    slow: tuple[str, ...] = ()
    inventory: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ("core",)
    domains: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    ecc_locations: tuple[str, ...] = ()
    throttle: tuple[str, str] = ("", "")  # the reasons of the power cap and of the temperature
    events: tuple[str, ...] = ()
    fatal_event: str = ""
    lost_event: str = ""
    power_kind: str = "average"
    not_supported: tuple[str, ...] = ()  # keys of the source that this model does not support
    pcie_errors: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()  # of each card
    partition_keys: tuple[str, ...] = ()  # the metrics of partitions
    only_partitions: tuple[str, ...] = ()  # those of them that a divided card does not have


# PCI classes of accelerators: base classes, and the coprocessors among the processors.
DISPLAY = 0x03
_COPROCESSOR = 0x0B40
ACCELERATOR = 0x12


@dataclass(frozen=True, slots=True)
class Pci:
    """The PCI functions that are accelerators: those of a vendor id with one of these classes."""

    vendor_id: int
    classes: tuple[int, ...] = (DISPLAY, _COPROCESSOR, ACCELERATOR)
    but_not: tuple[int, ...] = ()  # device ids to leave out
    behind_bridge: bool = False  # leave out functions on the first bus, which are parts of the CPU


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Device nodes that the tools open: patterns of their paths, and their drivers' names in /proc/devices."""

    paths: tuple[str, ...]
    drivers: tuple[str, ...]  # for the service manager's allow-list; the major number if it never changes
    comment: str = ""


RENDER_NODES = DeviceNodes(("/dev/dri/renderD*",), ("226",), "/dev/dri/card*, renderD*")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that a pod needs; its name is the name of the pod's volume."""

    name: str
    path: str
    type: Literal["Directory", "File"] = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How the Helm chart finds the vendor's nodes, and what their pods need."""

    comment: str
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    labels: tuple[str, ...] = ()  # besides those that follow from PCI vendor id and `classes` (class and subclass)
    runtime_class: str = ""
    privileged: bool = False  # such a pool is off by default
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor with its cards, device nodes, pool of nodes and simulated cards."""

    word: str  # the value of the label `vendor`
    name: str
    pci: Pci
    nodes: tuple[DeviceNodes, ...]
    permissions: str  # of the daemon's user, for docs/install.md
    pool: Pool
    demo: Demo  # simulated for the vendor's word
    other_demos: tuple[tuple[str, Demo], ...] = ()  # simulated for their own words
    lacks: tuple[tuple[str, str], ...] = ()  # core metrics that no capture has, with the reason
    other_tools: tuple[tuple[str, str], ...] = ()  # well-known programs, with the source that has their readings
