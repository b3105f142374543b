"""The keys that `mthreads-gmi -q` prints, by section: what each gives, and which are known to give nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.model import Value
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import ecc_enabled, performance_state, yes

# Section and key, in lower case with single blanks; the section of a card's own keys is empty.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """The metric that a key gives."""

    key: str
    read: Callable[[str], Value]
    label: str = ""


def _bytes(text: str) -> Value:
    return units.quantity(text, units.BYTES)


def _ratio(text: str) -> Value:
    return units.quantity(text, units.RATIO)


def _celsius(text: str) -> Value:
    return units.quantity(text, units.CELSIUS)


def _watts(text: str) -> Value:
    return units.quantity(text, units.WATTS)


def _hertz(text: str) -> Value:
    return units.quantity(text, units.HERTZ)


def _lanes(text: str) -> Value:
    return units.quantity(text, units.LANES)


# Fan0, Fan1 … stand in a section of their own below the count of them.
FANS = Field("fan_ratio", _ratio)
FAN_SECTION = "speed"
FAN_COUNT: Key = ("fan", "channel")
FIELDS: Mapping[Key, Field] = MappingProxyType(
    {
        ("fb memory usage", "total"): Field("memory_total_bytes", _bytes),
        ("fb memory usage", "used"): Field("memory_used_bytes", _bytes),
        ("fb memory usage", "free"): Field("memory_free_bytes", _bytes),
        ("utilization", "gpu"): Field("utilization_ratio", _ratio),
        ("utilization", "encoder"): Field("engine_utilization_ratio", _ratio, "encoder"),
        ("utilization", "decoder"): Field("engine_utilization_ratio", _ratio, "decoder"),
        ("temperature", "gpu current temp"): Field("temperature_celsius", _celsius, "core"),
        ("power readings", "power draw"): Field("power_watts", _watts),
        ("power readings", "current power limit"): Field("power_cap_watts", _watts),
        ("power readings", "power limit"): Field("power_cap_watts", _watts),
        ("power readings", "default power limit"): Field("power_cap_default_watts", _watts),
        ("power readings", "max power limit"): Field("power_cap_max_watts", _watts),
        ("clocks", "graphics"): Field("clock_hertz", _hertz, "graphics"),
        ("clocks", "memory"): Field("clock_hertz", _hertz, "memory"),
        ("clocks", "video"): Field("clock_hertz", _hertz, "video"),
        ("max clocks", "graphics"): Field("clock_max_hertz", _hertz, "graphics"),
        ("max clocks", "memory"): Field("clock_max_hertz", _hertz, "memory"),
        ("max clocks", "video"): Field("clock_max_hertz", _hertz, "video"),
        ("pcie generation", "current"): Field("pcie_link_generation", units.number),
        ("pcie generation", "max"): Field("pcie_link_generation_max", units.number),
        ("link width", "current"): Field("pcie_link_width", _lanes),
        ("link width", "max"): Field("pcie_link_width_max", _lanes),
        ("ecc mode", "current"): Field("ecc_enabled", ecc_enabled),
        ("retired pages", "single bit ecc"): Field("retired_pages", units.number, "single_bit_ecc"),
        ("retired pages", "double bit ecc"): Field("retired_pages", units.number, "double_bit_ecc"),
        ("retired pages", "pending page blacklist"): Field("retired_pages_pending", yes),
        ("", "performance state"): Field("performance_state", performance_state),
    }
)
# Keys that say nothing where another one is printed, which says it better.
INSTEAD: Mapping[Key, Key] = MappingProxyType(
    {("power readings", "power limit"): ("power readings", "current power limit")}
)
GIVES = (FANS.key, *(wanted.key for wanted in FIELDS.values()))
FACTS: tuple[tuple[str, Key], ...] = (
    ("device_type", ("", "devicetype")),
    ("mpc_capable", ("", "mpc capable")),
    ("firmware", ("", "mtbios version")),
    ("slot", ("pci", "slot id(name)")),
    ("ecc_mode", ("ecc mode", "current")),
)
# A card's own keys, which the text prints after its sections too.
CARD_KEYS = frozenset(
    {
        "index",
        "product name",
        "product brand",
        "gpu uuid",
        "serial number",
        "devicetype",
        "mpc capable",
        "mtbios version",
        "performance state",
    }
)
# Known, and no reading of ours: identities, and `Memory` under `Utilization`, of which no document says whether it is
# occupancy or traffic.
QUIET: frozenset[Key] = frozenset(
    {
        *(("", key) for key in CARD_KEYS),
        *(("pci", key) for key in ("bus", "device", "domain", "bus id", "pci/bus id", "vendor id", "device id")),
        *(("pci", key) for key in ("subsystem vendor id", "subsystem device id", "slot id(name)")),
        ("utilization", "memory"),
        ("power readings", "requested power limit"),
        FAN_COUNT,
        ("ecc mode", "pending"),
    }
)
QUIET_SECTIONS = frozenset(
    {"fb memory spec", "display interface", "encoder stats", "decoder stats", "thermal slowdown stats"}
)
SECTIONS = frozenset({*(section for section, _ in FIELDS), *QUIET_SECTIONS, "pci", "gpu link info", "fan", FAN_SECTION})
