"""What is declared of a vendor, once: the daemon, the unit, the chart and the pages read it here, and what the simulator plays."""

from __future__ import annotations

from typing import Literal

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Form

# The metrics that most sources give together.
BASIC = ("temperature_celsius", "power_watts", "utilization_ratio", "memory_used_bytes", "memory_total_bytes")
PCIE_LINK = ("pcie_link_generation", "pcie_link_width")
PCIE_LINK_MAX = ("pcie_link_generation_max", "pcie_link_width_max")
POWER_CAPS = ("power_cap_default_watts", "power_cap_min_watts", "power_cap_max_watts")
ECC = ("ecc_corrected_total", "ecc_uncorrected_total")
LINKS = ("link_up", "link_receive_bytes_total", "link_transmit_bytes_total")
PCIE_RATES = ("pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second", "pcie_bandwidth_bytes_per_second")


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
class Partition:
    """A part that a card is divided into: its profile, and its share of the card's memory."""

    profile: str
    memory_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The source that reads the cards, and the keys of the metrics in each of its polls.

    `throttle` names the reason of the power cap and of the temperature; `not_supported` are the keys that the
    source knows and this model has nothing for; `identity` is the shape of its uuids. Where each card is divided into
    `partitions`, `partition_keys` are the metrics that they have, and `only_partitions` those that the card then has not.
    """

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
    fatal_event: str = ""
    lost_event: str = ""
    power_kind: str = "average"
    not_supported: tuple[str, ...] = ()
    pcie_errors: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    partition_keys: tuple[str, ...] = ()
    only_partitions: tuple[str, ...] = ()


# PCI classes of accelerators: base classes, and the coprocessors among the processors.
DISPLAY = 0x03
_COPROCESSOR = 0x0B40
ACCELERATOR = 0x12


@dataclass(frozen=True, slots=True)
class Pci:
    """Which PCI functions are accelerators: those of a vendor id with one of these classes.

    `but_not` are device ids to leave out; `behind_bridge` leaves out what sits on the first bus: a part of the CPU.
    """

    vendor_id: int
    classes: tuple[int, ...] = (DISPLAY, _COPROCESSOR, ACCELERATOR)
    but_not: tuple[int, ...] = ()
    behind_bridge: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Device nodes that the tools open: patterns of their paths, and their drivers' names in /proc/devices.

    The service manager's allow-list takes the drivers' names, or their major numbers where these never change.
    """

    paths: tuple[str, ...]
    drivers: tuple[str, ...]
    comment: str = ""


RENDER_NODES = DeviceNodes(("/dev/dri/renderD*",), ("226",), "/dev/dri/card*, renderD*")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that a pod needs; its name is that of the pod's volume."""

    name: str
    path: str
    type: Literal["Directory", "File"] = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How the Helm chart finds the vendor's nodes, and what their pods need.

    `labels` mark the nodes besides the labels that follow from PCI vendor id and `classes` (class and subclass).
    A pool that is `privileged` is off until somebody enables it.
    """

    comment: str
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    labels: tuple[str, ...] = ()
    runtime_class: str = ""
    privileged: bool = False
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor: `word` is the value of the label `vendor`, `name` is for people.

    `permissions` says what the daemon's user needs (docs/install.md). `lacks` are the core metrics that no capture gives,
    each with the reason. The simulator plays `demo` for the vendor's word, and each of `other_demos` for its own.
    `other_tools` are programs that people know and we do not run, each with the source that tells what it prints.
    """

    word: str
    name: str
    pci: Pci
    nodes: tuple[DeviceNodes, ...]
    permissions: str
    pool: Pool
    demo: Demo
    other_demos: tuple[tuple[str, Demo], ...] = ()
    lacks: tuple[tuple[str, str], ...] = ()
    other_tools: tuple[tuple[str, str], ...] = ()
