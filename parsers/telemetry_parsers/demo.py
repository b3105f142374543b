"""What a simulated source plays: a model of card, and the metrics that its polls give."""

from __future__ import annotations

from dataclasses import dataclass

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
