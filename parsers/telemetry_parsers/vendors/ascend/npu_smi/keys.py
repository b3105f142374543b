"""Maps the keys of npu-smi's `key : value` output to metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import HEALTH_STATES
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.reports.targets import Target, health, metric, switch

# The index space of physical chip ids, which are also the numbers of the /dev/davinci nodes.
PHYSICAL_SPACE = "ascend-physical"

_UNIT = re.compile(r"\(([^()]{1,8})\)\Z")
# The tool prints this word for a temperature that it could not read.
PLACEHOLDERS: Mapping[str, Value] = {"failed": Absent.NOT_REPORTED}


def split_key(key: str) -> tuple[str, str]:
    """Split a key such as `Temperature (C)` into its lower-case name and its unit."""
    normalized = " ".join(key.lower().split())
    match = _UNIT.search(normalized)
    return (normalized, "") if match is None else (normalized[: match.start()].strip(), match[1].strip())


# All keys are in lower case, with single blanks and without their units.
_MEMORIES = ("hbm", "ddr")
# For cards without HBM, the tool prints "memory" for DDR.
MEMORY_NAMES = (("hbm",), ("ddr", "memory"))
# Keys of `-t memory` of a 310, which do not name the kind of memory.
BARE_MEMORY_KEYS = ("capacity", "clock speed")
FLASH_KEY = "flash id"
# Only cards without HBM print these keys.
KEYS_WITHOUT_HBM = frozenset(
    {
        *BARE_MEMORY_KEYS, "memory capacity", "memory clock speed", "memory bandwidth usage rate", "total ddr capacity", "vectorcore usage rate",
        *(f"dvpp {engine} usage rate" for engine in ("vdec", "venc", "vpc", "jpege", "jpegd")),
    }
)  # fmt: skip
# Product names and headings that show whether a product has HBM.
NO_HBM_PATTERN = re.compile(r"\bascend ?310|\b310[pb][0-9]?\b|\bmemory-usage\(mb\)", re.IGNORECASE)
HBM_PATTERN = re.compile(r"\bhbm\b|\bascend ?9|\b9[15]0[a-z]", re.IGNORECASE)
# Cards with HBM print these keys. A virtual card prints them even if it omits the usage of its HBM.
KEYS_WITH_HBM = frozenset(
    {
        "aicore count", "aivector usage rate", "aicube usage rate", "npu utilization", "ddr usage rate", "ddr bandwidth usage rate",
        "ddr hugepages total", "ddr hugepages usage rate",
    }
)  # fmt: skip
BITS = ("single", "double")

# Sensors of the card, according to Huawei, even if they are printed below a chip's name.
CARD_SENSORS: Mapping[str, Target] = {
    **{f"lm75{letter}_te": metric("temperature_celsius", f"lm75_{letter}") for letter in "abc"},
    "tec_temp": metric("temperature_celsius", "board_tec"),
}
# Huawei uses the term "utilization of the chip" for the utilization of its AI cores.
FIELDS: Mapping[str, tuple[Target, ...]] = {
    "npu utilization": (metric("engine_utilization_ratio", "npu"),),
    "aicore usage rate": (metric("utilization_ratio"), metric("engine_utilization_ratio", "aicore")),
    "aivector usage rate": (metric("engine_utilization_ratio", "vector"),),
    "vectorcore usage rate": (metric("engine_utilization_ratio", "vector"),),
    "aicube usage rate": (metric("engine_utilization_ratio", "cube"),),
    "aicpu usage rate": (metric("engine_utilization_ratio", "aicpu"),),
    "ctrlcpu usage rate": (metric("engine_utilization_ratio", "ctrlcpu"),),
    "dvpp vdec usage rate": (metric("engine_utilization_ratio", "decoder"),),
    "dvpp venc usage rate": (metric("engine_utilization_ratio", "encoder"),),
    "dvpp vpc usage rate": (metric("engine_utilization_ratio", "vpc"),),
    "aicore curfreq": (metric("clock_hertz", "aicore"),),
    "aicore freq": (metric("clock_max_hertz", "aicore"),),
    "aicore count": (metric("compute_units"),),
    "temperature": (metric("temperature_celsius", "core"),),
    "npu temperature": (metric("temperature_celsius", "core"),),
    "hbm temperature": (metric("temperature_celsius", "memory"),),
    "soc max temperature": (metric("temperature_celsius", "soc"),),
    "ndie temperature": (metric("temperature_celsius", "ndie"),),
    "sfp temperature": (metric("temperature_celsius", "optical"),),
    "voltage": (metric("voltage_volts", "core"),),
    "npu real-time power": (metric("power_watts"),),
    "power dissipation": (metric("power_watts"),),
    "rated power dissipation": (metric("power_watts"),),
    "retry count": (metric("pcie_replays_total"),),
    "tx error count": (metric("pcie_errors_total", "transmit"),),
    "rx error count": (metric("pcie_errors_total", "receive"),),
    "lcrc error count": (metric("pcie_errors_total", "lcrc"),),
    "ecrc error count": (metric("pcie_errors_total", "ecrc"),),
    **{key: (target,) for key, target in CARD_SENSORS.items()},
}
# Values of the whole card. If the card has one chip, they may be printed below the chip's name.
CARD_FIELDS: Mapping[str, Target] = {**CARD_SENSORS, "power dissipation": metric("power_card_watts")}
# Keys below the name of the card's controller. Their values describe the whole card.
CONTROLLER_FIELDS: Mapping[str, Target] = {
    **CARD_FIELDS,
    "npu real-time power": metric("power_card_watts"),
    "voltage": metric("voltage_volts", "board"),
}
# `{}` stands for `hbm` or `ddr`. `docs/vendors/ascend.md` describes which memory is read.
MEMORY_FIELDS: Mapping[str, Target] = {
    "{} capacity": metric("memory_total_bytes"),
    "{} usage rate": metric("memory_used_ratio"),
    "{} bandwidth usage rate": metric("memory_bandwidth_ratio"),
    "{} clock speed": metric("clock_hertz", "memory"),
}
# Error counts are read for both HBM and DDR, with different labels.
ECC_FIELDS: Mapping[str, Target] = {
    "hbm single bit error count": metric("ecc_corrected_total", "hbm"),
    "hbm double bit error count": metric("ecc_uncorrected_total", "hbm"),
    "ddr single bit error count": metric("ecc_corrected_total", "ddr"),
    "ddr double bit error count": metric("ecc_uncorrected_total", "ddr"),
    "single-bit error count": metric("ecc_corrected_total", "ddr"),
    "double-bit error count": metric("ecc_uncorrected_total", "ddr"),
    "hbm single bit isolated pages count": metric("retired_pages", "single_bit_ecc"),
    "hbm double bit isolated pages count": metric("retired_pages", "double_bit_ecc"),
    "ddr single bit isolated pages count": metric("retired_pages", "ddr_single_bit_ecc"),
    "ddr double bit isolated pages count": metric("retired_pages", "ddr_double_bit_ecc"),
}
# The first of these keys that is printed is used. The state of HBM is preferred to that of DDR.
ECC_ENABLED_KEYS = ("hbm ecc-enable status", "ddr ecc-enable status", "ecc-enable status")
# The JPEG encoder and decoder share a label, so the higher utilization is used.
JPEG_KEYS = ("dvpp jpege usage rate", "dvpp jpegd usage rate")
# Counts of memory pages that will be retired at the next start.
PENDING_PAGE_KEYS = tuple(f"{memory} {bits} bit next-isolated pages count" for memory in _MEMORIES for bits in BITS)
HEALTH_KEYS = ("health status", "health")
ECC_ENABLED_TARGET = switch("ecc_enabled", {"true": 1.0, "false": 0.0})
HEALTH_TARGET = health({state: state for state in HEALTH_STATES})

# These tables contain the metrics that the parser declares.
TABLES = (FIELDS, MEMORY_FIELDS, ECC_FIELDS, CONTROLLER_FIELDS, ECC_ENABLED_TARGET, HEALTH_TARGET)

CARD_KEY, COUNT_KEY, CHIP_KEY, NAME_KEY = "npu id", "chip count", "chip id", "chip name"
# The names of parts of a card that are not chips.
OTHER_PARTS = frozenset({"mcu", "3559"})
MODEL_KEYS, UUID_KEYS = ("npu name", "chip name"), ("vdie id", "ddie id", "die id")
SERIAL_KEY, DRIVER_KEY = "serial number", "software version"
ADDRESS_KEY = "pcie bus info"
FACTS: Mapping[str, str] = {
    "firmware version": "firmware",
    "product type": "product",
    "product name": "product",
    "slot id": "slot",
    "compatibility": "compatibility",
    "error code": "error_codes",
}
TOTAL_KEYS = ("total count", "card count")
# Keys of active faults. The first two contain hexadecimal codes, the others the number of faulty chips.
ERROR_CODE_KEY, FAULT_EVENT_KEY = "error code", "fault event information"
FAULT_COUNT_KEYS = ("chip fault", "faulty chip count")
# The value of this key continues on lines with a blank key.
MULTILINE_KEY = "error information"
# Huawei does not document these keys about the link of a 950.
_LINK_ERROR_KEYS = ("pcs rx error count", "phy lane error count", "dl lcrc error count", "dl dcrc error count")
# Keys whose values identify or describe a part, and are not measured.
IDENTITY_KEYS = frozenset(
    {
        CARD_KEY, CHIP_KEY, *TOTAL_KEYS, *MODEL_KEYS, *UUID_KEYS, SERIAL_KEY, DRIVER_KEY, *FACTS, ADDRESS_KEY, COUNT_KEY, "chip type", "chip version", "model",
        "manufacturer", "board id", "main board id", "pcb id", "bom id", "class id", "pci vendor id", "pci device id",
        "subsystem vendor id", "subsystem device id", "ndie id", "chip position id", "error information", "fault event count",
        FAULT_EVENT_KEY, *FAULT_COUNT_KEYS, "flash count", FLASH_KEY, "manufacturer id", "ddie count", "module board id", "vendor id",
        "device id", "module vendor id", "module id", "hbm manufacturer id",
    }
)  # fmt: skip
# Measured values without a metric.
KEYS_WITHOUT_METRIC = frozenset(
    {
        "ddr hugepages total", "ddr hugepages usage rate", "memory hugepages total", "memory hugepages usage rate",
        "hugepages total", "hugepages usage rate", "total capacity", "total ddr capacity", "chip temperature",
        *(f"{memory} {bits} bit aggregate total err cnt" for memory in _MEMORIES for bits in BITS),
        *_LINK_ERROR_KEYS,
    }
)  # fmt: skip

# Other tools also print these keys.
COMMON_KEYS = frozenset(
    {
        "temperature", "retry count", "health", "model", "serial number", "product name", "firmware version", "manufacturer",
        "software version", "compatibility", "slot id", "board id", "class id", "pci vendor id", "pci device id", "chip id",
        "subsystem vendor id", "subsystem device id", "memory capacity", "memory usage rate", "memory clock speed",
        "memory bandwidth usage rate", "tx error count", "rx error count", "power dissipation", "error code",
        "single-bit error count", "double-bit error count", "total count", "card count", "chip name", "chip type",
        "chip version", "die id", "bom id", "pcb id", "temperature sensor", *BARE_MEMORY_KEYS, "total capacity", "voltage", FLASH_KEY,
        "flash count", "manufacturer id", "vendor id", "device id", "module id", "product type", "ecc-enable status",
    }
)  # fmt: skip
# Keys of chip links begin with these words. The values are not read, because no key names the link.
IGNORED_PREFIXES = ("hccs ", "xlink ")
RATED_POWER_KEY = "rated power dissipation"


@dataclass(frozen=True, slots=True)
class EndKey:
    """A key that may end an answer, if `requires` was printed and `excludes` was not."""

    key: str
    requires: str = ""
    excludes: str = ""


# An answer is complete if it ends with one of these keys, or with a chip's name below the chip's lines.
# The comments name the `-t` queries. Answers about a 950 name only the card, because the 950 has no chips.
END_KEYS_OF_CARDS: tuple[EndKey, ...] = (
    *map(EndKey, ("aicube usage rate", "npu real-time power", "error information", *ECC_ENABLED_KEYS)),
    *map(EndKey, ("hbm manufacturer id", "hbm double bit next-isolated pages count", "retry count", *_LINK_ERROR_KEYS)),
    EndKey("temperature", excludes="aicore usage rate"),  # `temp`
)
# Answers about one chip, which name the chip above its lines or not at all.
END_KEYS_OF_CHIPS: tuple[EndKey, ...] = (
    *map(EndKey, ("memory bandwidth usage rate", "dvpp jpegd usage rate", "npu utilization")),  # `usages`
    EndKey("hbm bandwidth usage rate", excludes="aivector usage rate"),  # `usages` of a 910A
    *map(EndKey, ("npu real-time power", RATED_POWER_KEY, "power dissipation")),  # `common`, `power`
    EndKey("temperature", requires="aicore freq", excludes="aicore count"),  # `common` of a 310P
    # Older versions of `common` print no clocks.
    EndKey("temperature", requires="memory usage rate", excludes="hbm usage rate"),
    EndKey("temperature", excludes="aicore usage rate"),  # `temp`
    *map(EndKey, ("npu temperature", "tec_temp", "hbm temperature", "voltage")),  # `temp`, `sensors`, `volt`
    *map(EndKey, ("hbm manufacturer id", "clock speed", "memory clock speed")),  # `memory`
    EndKey("ddr clock speed", requires="total ddr capacity"),  # `memory` of a 310P
    *map(EndKey, (f"{memory} double bit next-isolated pages count" for memory in _MEMORIES)),  # `ecc`
    EndKey("hbm double bit isolated pages count"),  # `ecc` of a 910A
    *map(EndKey, ("double-bit error count", "retry count", *ECC_ENABLED_KEYS)),  # `pcie-err`, `ecc-enable`, 310: `ecc`
    EndKey("health", requires=CHIP_KEY),
    EndKey("error information"),  # `health`
)
# Only `common` prints the controller's name above the controller's lines.
END_KEYS_OF_PARTS: tuple[EndKey, ...] = (
    *map(EndKey, ("npu real-time power", "power dissipation")),
    # In `common` (23.0), the controller of a 910B has a temperature, but no power.
    EndKey("temperature", requires="aicore count"),
)
