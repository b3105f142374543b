"""The keys of `mthreads-gmi -q` by section, and the meaning of the tool's words."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.reports.targets import Target, metric, switch

VENDOR = "moorethreads"
# HBM cards print "On-die, EDC" if both on-die ECC and error detection on the bus (EDC) are on.
ECC_WORDS: Mapping[str, float] = {"on-die, edc": 1.0, "on": 1.0, "enabled": 1.0, "off": 0.0, "disabled": 0.0}
_YES_NO: Mapping[str, float] = {"yes": 1.0, "no": 0.0}

# (section, key) in lower case with single blanks. The section is empty for keys outside of sections.
Key = tuple[str, str]

# The speeds of Fan0, Fan1 … are in a separate section below the section with the fan count.
FAN_TARGET = metric("fan_ratio")
FAN_SECTION = "speed"
FAN_COUNT_KEY: Key = ("fan", "channel")
FIELDS: Mapping[Key, Target] = {
    ("fb memory usage", "total"): metric("memory_total_bytes"),
    ("fb memory usage", "used"): metric("memory_used_bytes"),
    ("fb memory usage", "free"): metric("memory_free_bytes"),
    ("utilization", "gpu"): metric("utilization_ratio"),
    ("utilization", "encoder"): metric("engine_utilization_ratio", "encoder"),
    ("utilization", "decoder"): metric("engine_utilization_ratio", "decoder"),
    ("temperature", "gpu current temp"): metric("temperature_celsius", "core"),
    ("power readings", "power draw"): metric("power_watts"),
    ("power readings", "current power limit"): metric("power_cap_watts"),
    ("power readings", "power limit"): metric("power_cap_watts"),
    ("power readings", "default power limit"): metric("power_cap_default_watts"),
    ("power readings", "max power limit"): metric("power_cap_max_watts"),
    ("clocks", "graphics"): metric("clock_hertz", "graphics"),
    ("clocks", "memory"): metric("clock_hertz", "memory"),
    ("clocks", "video"): metric("clock_hertz", "video"),
    ("max clocks", "graphics"): metric("clock_max_hertz", "graphics"),
    ("max clocks", "memory"): metric("clock_max_hertz", "memory"),
    ("max clocks", "video"): metric("clock_max_hertz", "video"),
    ("pcie generation", "current"): metric("pcie_link_generation"),
    ("pcie generation", "max"): metric("pcie_link_generation_max"),
    ("link width", "current"): metric("pcie_link_width"),
    ("link width", "max"): metric("pcie_link_width_max"),
    ("ecc mode", "current"): switch("ecc_enabled", ECC_WORDS),
    ("retired pages", "single bit ecc"): metric("retired_pages", "single_bit_ecc"),
    ("retired pages", "double bit ecc"): metric("retired_pages", "double_bit_ecc"),
    ("retired pages", "pending page blacklist"): switch("retired_pages_pending", _YES_NO),
    ("", "performance state"): metric("performance_state"),
}
# Maps a key to another key. If both are printed, the first is ignored.
SUPERSEDED_BY: Mapping[Key, Key] = {("power readings", "power limit"): ("power readings", "current power limit")}
FACTS: tuple[tuple[str, Key], ...] = (
    ("device_type", ("", "devicetype")),
    ("mpc_capable", ("", "mpc capable")),
    ("firmware", ("", "mtbios version")),
    ("slot", ("pci", "slot id(name)")),
    ("ecc_mode", ("ecc mode", "current")),
)
# The keys of a card that are printed above its first or below its last section.
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
# Known keys without a metric. `Memory` under `Utilization` may be occupancy or traffic.
IGNORED_KEYS: frozenset[Key] = frozenset(
    {
        *(("", key) for key in CARD_KEYS),
        *(("pci", key) for key in ("bus", "device", "domain", "bus id", "pci/bus id", "vendor id", "device id")),
        *(("pci", key) for key in ("subsystem vendor id", "subsystem device id", "slot id(name)")),
        ("utilization", "memory"),
        ("power readings", "requested power limit"),
        FAN_COUNT_KEY,
        ("ecc mode", "pending"),
    }
)
IGNORED_SECTIONS = frozenset(
    {"fb memory spec", "display interface", "encoder stats", "decoder stats", "thermal slowdown stats"}
)
SECTIONS = frozenset({*(name for name, _ in FIELDS), *IGNORED_SECTIONS, "pci", "gpu link info", "fan", FAN_SECTION})
