"""The keys of npu-smi's `key : value` answers: what each gives, which give nothing, and what Huawei's words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import HEALTH_STATES
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.reports.targets import Target, health, metric, switch

# The physical id of a chip, which is also the number of its /dev/davinci node and what hccn_tool takes.
PHYSICAL = "ascend-physical"

_UNIT = re.compile(r"\(([^()]{1,8})\)\Z")
# A temperature that could not be read prints as this word.
NO_NUMBERS: Mapping[str, Value] = {"failed": Absent.NOT_REPORTED}


def split_key(key: str) -> tuple[str, str]:
    """A key in lower case with single blanks, and the unit in brackets at its end: `Temperature (C)`."""
    bare = " ".join(key.lower().split())
    match = _UNIT.search(bare)
    return (bare, "") if match is None else (bare[: match.start()].strip(), match[1].strip())


# Keys are in lower case with single blanks, without the unit in brackets at their end.
_MEMORIES = ("hbm", "ddr")
# What each kind is called: cards without HBM call their DDR just memory.
MEMORY_NAMES = (("hbm",), ("ddr", "memory"))
# `-t memory` of a 310 leaves the kind out; `-t flash` calls the size of a flash chip the same.
BARE_MEMORY = ("capacity", "clock speed")
FLASH_KEY = "flash id"
# Only cards without HBM print these.
WITHOUT_HBM = frozenset(
    {
        *BARE_MEMORY, "memory capacity", "memory clock speed", "memory bandwidth usage rate", "total ddr capacity", "vectorcore usage rate",
        *(f"dvpp {engine} usage rate" for engine in ("vdec", "venc", "vpc", "jpege", "jpegd")),
    }
)  # fmt: skip
# How the other answers in a log show a product without HBM: its name, or the heading of its table. HBM and other names refute it.
SHOWS_NO_HBM = re.compile(r"\bascend ?310|\b310[pb][0-9]?\b|\bmemory-usage\(mb\)", re.IGNORECASE)
SHOWS_HBM = re.compile(r"\bhbm\b|\bascend ?9|\b9[15]0[a-z]", re.IGNORECASE)
# Cards with HBM print these; a virtual one may leave its HBM's usage out, and the lines of HBM may be lost.
MAY_HAVE_HBM = frozenset(
    {
        "aicore count", "aivector usage rate", "aicube usage rate", "npu utilization", "ddr usage rate", "ddr bandwidth usage rate",
        "ddr hugepages total", "ddr hugepages usage rate",
    }
)  # fmt: skip
BITS = ("single", "double")


# Of the whole card, even if a chip is named beside them: its air, its module, its USB hub, its disk, as Huawei explains them.
CARD_SENSORS: Mapping[str, Target] = {
    **{f"lm75{one}_te": metric("temperature_celsius", f"lm75_{one}") for one in "abc"},
    "tec_temp": metric("temperature_celsius", "board_tec"),
}
# The AI cores' share is what Huawei calls the utilization.
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
# Of the whole card where they stand below no chip; of several chips on one card none prints its own.
CARD_FIELDS: Mapping[str, Target] = {**CARD_SENSORS, "power dissipation": metric("power_card_watts")}
# Of the whole card where its controller is named.
PART_FIELDS: Mapping[str, Target] = {
    **CARD_FIELDS,
    "npu real-time power": metric("power_card_watts"),
    "voltage": metric("voltage_volts", "board"),
}
# The same of HBM and of DDR: HBM is the device's memory where the chip has any, see `docs/vendors/ascend.md`.
MEMORY_FIELDS: Mapping[str, Target] = {
    "{} capacity": metric("memory_total_bytes"),
    "{} usage rate": metric("memory_used_ratio"),
    "{} bandwidth usage rate": metric("memory_bandwidth_ratio"),
    "{} clock speed": metric("clock_hertz", "memory"),
}
# Of each kind of memory apart; DDR's have words of their own.
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
# Of the device's memory: HBM's where there is any.
ECC_ENABLED = ("hbm ecc-enable status", "ddr ecc-enable status", "ecc-enable status")
# Encoders and decoders of JPEG are one word: the busier of the two.
JPEG = ("dvpp jpege usage rate", "dvpp jpegd usage rate")
# Pages that the next start takes out of use.
PENDING_PAGES = tuple(f"{memory} {bits} bit next-isolated pages count" for memory in _MEMORIES for bits in BITS)
HEALTH = ("health status", "health")
TO_ECC_ENABLED = switch("ecc_enabled", {"true": 1.0, "false": 0.0})
TO_HEALTH = health({state: state for state in HEALTH_STATES})

# All that an answer gives.
TABLES = (FIELDS, MEMORY_FIELDS, ECC_FIELDS, PART_FIELDS, TO_ECC_ENABLED, TO_HEALTH)

CARD_KEY, COUNT_KEY, CHIP_KEY, NAME_KEY = "npu id", "chip count", "chip id", "chip name"
# Parts of a card that are none of its chips open a block with their name.
OTHER_PARTS = frozenset({"mcu", "3559"})
MODELS, UUIDS = ("npu name", "chip name"), ("vdie id", "ddie id", "die id")
SERIAL, DRIVER = "serial number", "software version"
ADDRESS = "pcie bus info"
FACTS: Mapping[str, str] = {
    "firmware version": "firmware",
    "product type": "product",
    "product name": "product",
    "slot id": "slot",
    "compatibility": "compatibility",
    "error code": "error_codes",
}
TOTALS = ("total count", "card count")
# Faults that stand: codes behind the first, hexadecimal; how many chips of the card have one behind the others.
ERROR_CODES, FAULT_EVENTS, FAULT_COUNTS = "error code", "fault event information", ("chip fault", "faulty chip count")
# Goes on in lines whose key is blank.
LONG_KEY = "error information"
# Of 950's link, which no document explains.
_LINK_ERRORS = ("pcs rx error count", "phy lane error count", "dl lcrc error count", "dl dcrc error count")
# What a board is and what it is called: not measured.
ABOUT = frozenset(
    {
        CARD_KEY, CHIP_KEY, *TOTALS, *MODELS, *UUIDS, SERIAL, DRIVER, *FACTS, ADDRESS, COUNT_KEY, "chip type", "chip version", "model",
        "manufacturer", "board id", "main board id", "pcb id", "bom id", "class id", "pci vendor id", "pci device id",
        "subsystem vendor id", "subsystem device id", "ndie id", "chip position id", "error information", "fault event count",
        FAULT_EVENTS, *FAULT_COUNTS, "flash count", FLASH_KEY, "manufacturer id", "ddie count", "module board id", "vendor id",
        "device id", "module vendor id", "module id", "hbm manufacturer id",
    }
)  # fmt: skip
# Measured, and nothing of ours: DDR's and huge pages' bookkeeping, counts over all starts.
UNREAD = frozenset(
    {
        "ddr hugepages total", "ddr hugepages usage rate", "memory hugepages total", "memory hugepages usage rate",
        "hugepages total", "hugepages usage rate", "total capacity", "total ddr capacity", "chip temperature",
        *(f"{memory} {bits} bit aggregate total err cnt" for memory in _MEMORIES for bits in BITS),
        *_LINK_ERRORS,
    }
)  # fmt: skip

# Other tools print these words, too: alone they do not make a text this tool's.
COMMON_WORDS = frozenset(
    {
        "temperature", "retry count", "health", "model", "serial number", "product name", "firmware version", "manufacturer",
        "software version", "compatibility", "slot id", "board id", "class id", "pci vendor id", "pci device id", "chip id",
        "subsystem vendor id", "subsystem device id", "memory capacity", "memory usage rate", "memory clock speed",
        "memory bandwidth usage rate", "tx error count", "rx error count", "power dissipation", "error code",
        "single-bit error count", "double-bit error count", "total count", "card count", "chip name", "chip type",
        "chip version", "die id", "bom id", "pcb id", "temperature sensor", *BARE_MEMORY, "total capacity", "voltage", FLASH_KEY,
        "flash count", "manufacturer id", "vendor id", "device id", "module id", "product type", "ecc-enable status",
    }
)  # fmt: skip
# Links between chips have a whole set of keys, none of which names its link.
QUIET_BEGINNINGS = ("hccs ", "xlink ")
RATED_POWER = "rated power dissipation"


@dataclass(frozen=True, slots=True)
class End:
    """The key of the last line of an answer; only where `beside` is printed too, and `instead` is not."""

    key: str
    beside: str = ""
    instead: str = ""


# Which line proves that an answer is whole. One about the chips of a card names each of them, above its lines or below
# them; where the name stands below, it is the proof. Other answers end with one of these keys and with no other known one.
# Those of 950, which has no chips, begin with the card:
ENDS_OF_CARDS: tuple[End, ...] = (
    *map(End, ("aicube usage rate", "npu real-time power", "error information", "hbm manufacturer id", *ECC_ENABLED)),
    *map(End, ("hbm double bit next-isolated pages count", "retry count", *_LINK_ERRORS)),
    End("temperature", instead="aicore usage rate"),  # temp; common prints the power below it
)
# Those that were asked of one chip name no chip; in common, temp and volt the chip stands above its lines.
ENDS_OF_CHIPS: tuple[End, ...] = (
    *map(End, ("memory bandwidth usage rate", "dvpp jpegd usage rate", "npu utilization")),  # usages
    End("hbm bandwidth usage rate", instead="aivector usage rate"),  # usages of 910A
    *map(End, ("npu real-time power", RATED_POWER, "power dissipation")),  # common, power
    End("temperature", beside="aicore freq", instead="aicore count"),  # common of 310P
    # Older ones print no clocks; where there is HBM, its rate stands above the temperature.
    End("temperature", beside="memory usage rate", instead="hbm usage rate"),
    End("temperature", instead="aicore usage rate"),  # temp
    *map(End, ("npu temperature", "tec_temp", "hbm temperature", "voltage")),  # temp, sensors, volt
    *map(End, ("hbm manufacturer id", "clock speed", "memory clock speed")),  # memory
    End("ddr clock speed", beside="total ddr capacity"),  # memory of 310P
    *map(End, (f"{memory} double bit next-isolated pages count" for memory in _MEMORIES)),  # ecc
    End("hbm double bit isolated pages count"),  # ecc of 910A
    *map(End, ("double-bit error count", "retry count", *ECC_ENABLED)),  # ecc of 310, pcie-err, ecc-enable
    End("health", beside=CHIP_KEY),
    End("error information"),  # health
)
# The card's controller is named above its lines in common, and below them in the others.
ENDS_OF_PARTS: tuple[End, ...] = (
    *map(End, ("npu real-time power", "power dissipation")),
    # Beside a 910's chips, of which common counts the cores, it has a temperature and no power (910B, 23.0; 910A's had one).
    End("temperature", beside="aicore count"),
)
