"""The keys of npu-smi's `key : value` answers: what each gives, and which are known to give nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# Keys are in lower case with single blanks, without the unit in brackets at their end.
MEMORIES = ("hbm", "ddr")
# What each kind is called: cards without HBM call their DDR just memory.
MEMORY_NAMES = (("hbm",), ("ddr", "memory"))
# `-t memory` of a 310 leaves the kind out; `-t flash` calls the size of a flash chip the same.
BARE_MEMORY = ("capacity", "clock speed")
FLASH_KEY = "flash id"
# Only cards without HBM print these.
WITHOUT_HBM = frozenset({"memory capacity", "memory clock speed", "memory bandwidth usage rate", *BARE_MEMORY})
# Only cards with HBM print these; a virtual one may leave its HBM's usage out.
WITH_HBM = frozenset({"aicore count", "aivector usage rate", "aicube usage rate", "npu utilization"})
BITS = ("single", "double")


@dataclass(frozen=True, slots=True)
class Field:
    """The metric that a key gives. Of two keys for one metric the lower `turn` counts; of the same, the first."""

    key: str
    label: str = ""
    turn: int = 0


# The AI cores' share is what Huawei calls the utilization; the whole chip's stands in where only that is told.
FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "npu utilization": (Field("utilization_ratio", turn=1),),
        "aicore usage rate": (Field("utilization_ratio"), Field("engine_utilization_ratio", "aicore")),
        "aivector usage rate": (Field("engine_utilization_ratio", "vector"),),
        "vectorcore usage rate": (Field("engine_utilization_ratio", "vector"),),
        "aicube usage rate": (Field("engine_utilization_ratio", "cube"),),
        "aicpu usage rate": (Field("engine_utilization_ratio", "aicpu"),),
        "ctrlcpu usage rate": (Field("engine_utilization_ratio", "ctrlcpu"),),
        "dvpp vdec usage rate": (Field("engine_utilization_ratio", "decoder"),),
        "dvpp venc usage rate": (Field("engine_utilization_ratio", "encoder"),),
        "dvpp vpc usage rate": (Field("engine_utilization_ratio", "vpc"),),
        "aicore curfreq": (Field("clock_hertz", "aicore"),),
        "aicore freq": (Field("clock_max_hertz", "aicore"),),
        "aicore count": (Field("compute_units"),),
        "temperature": (Field("temperature_celsius", "core"),),
        "npu temperature": (Field("temperature_celsius", "core"),),
        "hbm temperature": (Field("temperature_celsius", "memory"),),
        "soc max temperature": (Field("temperature_celsius", "soc"),),
        "ndie temperature": (Field("temperature_celsius", "ndie"),),
        "npu real-time power": (Field("power_watts"),),
        "power dissipation": (Field("power_watts"),),
        "rated power dissipation": (Field("power_watts"),),
        "retry count": (Field("pcie_replays_total"),),
    }
)
# The same of HBM and of DDR: HBM is the device's memory where the chip has any, see `docs/vendors/ascend.md`.
MEMORY_FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "{} capacity": Field("memory_total_bytes"),
        "{} usage rate": Field("memory_used_ratio"),
        "{} bandwidth usage rate": Field("memory_bandwidth_ratio"),
        "{} clock speed": Field("clock_hertz", "memory"),
    }
)
# Of each kind of memory apart; DDR's have words of their own.
ECC_FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "hbm single bit error count": Field("ecc_corrected_total", "hbm"),
        "hbm double bit error count": Field("ecc_uncorrected_total", "hbm"),
        "ddr single bit error count": Field("ecc_corrected_total", "ddr"),
        "ddr double bit error count": Field("ecc_uncorrected_total", "ddr"),
        "single-bit error count": Field("ecc_corrected_total", "ddr"),
        "double-bit error count": Field("ecc_uncorrected_total", "ddr"),
        "hbm single bit isolated pages count": Field("retired_pages", "single_bit_ecc"),
        "hbm double bit isolated pages count": Field("retired_pages", "double_bit_ecc"),
        "ddr single bit isolated pages count": Field("retired_pages", "ddr_single_bit_ecc"),
        "ddr double bit isolated pages count": Field("retired_pages", "ddr_double_bit_ecc"),
    }
)
# Of the device's memory: HBM's where there is any.
ECC_ENABLED = ("hbm ecc-enable status", "ddr ecc-enable status", "ecc-enable status")
# Encoders and decoders of JPEG are one word: the busier of the two.
JPEG = ("dvpp jpege usage rate", "dvpp jpegd usage rate")
# Pages that the next start takes out of use.
PENDING_PAGES = tuple(f"{memory} {bits} bit next-isolated pages count" for memory in MEMORIES for bits in BITS)
HEALTH = ("health status", "health")

CARD_KEY, CHIP_KEY, NAME_KEY = "npu id", "chip id", "chip name"
# Parts of a card that are none of its chips open a block with their name.
OTHER_PARTS = frozenset({"mcu", "3559"})
MODELS, UUIDS = ("npu name", "chip name"), ("vdie id", "ddie id", "die id")
SERIAL, DRIVER = "serial number", "software version"
ADDRESS = "pcie bus info"
FACTS: Mapping[str, str] = MappingProxyType(
    {
        "firmware version": "firmware",
        "product type": "product",
        "product name": "product",
        "slot id": "slot",
        "compatibility": "compatibility",
        "error code": "error_codes",
    }
)
TOTALS = ("total count", "card count")
# Known, and nothing of ours: DDR's and huge pages' bookkeeping, counts over all starts, numbers of parts.
QUIET = frozenset(
    {
        CARD_KEY, CHIP_KEY, *TOTALS, *MODELS, *UUIDS, SERIAL, DRIVER, *FACTS, ADDRESS, "chip count", "chip type", "chip version", "model",
        "manufacturer", "board id", "main board id", "pcb id", "bom id", "class id", "pci vendor id", "pci device id",
        "subsystem vendor id", "subsystem device id", "ndie id", "chip position id", "error information",
        "ddr hugepages total", "ddr hugepages usage rate", "memory hugepages total", "memory hugepages usage rate",
        "hugepages total", "hugepages usage rate", "total capacity", "total ddr capacity", "voltage",
        "flash count", FLASH_KEY, "manufacturer id", "ddie count", "module board id", "vendor id", "device id", "module vendor id", "module id",
        "hbm manufacturer id", "sfp temperature", "fault event count", "fault event information", "faulty chip count", "chip fault", "chip temperature",
        *(f"{memory} {bits} bit aggregate total err cnt" for memory in MEMORIES for bits in BITS),
        "tx error count", "rx error count", "lcrc error count", "ecrc error count",
        "pcs rx error count", "phy lane error count", "dl lcrc error count", "dl dcrc error count",
    }
)  # fmt: skip  # kept in rows: one item on each line would be a page

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
)  # fmt: skip  # kept in rows: one item on each line would be a page
# Links between chips have a whole set of keys, none of which says of which link it is.
QUIET_BEGINNINGS = ("hccs ", "xlink ")
FAULT_EVENTS = "fault event information"
RATED_POWER = "rated power dissipation"

GIVES = tuple(
    dict.fromkeys(
        (
            *(wanted.key for fields in FIELDS.values() for wanted in fields),
            *(wanted.key for wanted in MEMORY_FIELDS.values()),
            *(wanted.key for wanted in ECC_FIELDS.values()),
            "ecc_enabled",
            "retired_pages_pending",
            "health",
        )
    )
)
