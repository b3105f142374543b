"""What the keys of rocm-smi and hy-smi mean, in every spelling since ROCm 3: vendor knowledge as tables.

A key is normalised first: lower case, single blanks, no colon at its end, `dcu`/`hcu` for `gpu`, its unit taken off:
`VRAM Total Memory (B)` is `vram total memory` in `B`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import PERFORMANCE_LEVELS
from telemetry_parsers.model import Absent
from telemetry_parsers.rocm import values
from telemetry_parsers.rocm.values import Read

# A card has some two hundred keys in the longest output; a text that has many more is none of the tools'.
MOST_KEYS = 2000


@dataclass(frozen=True, slots=True)
class Key:
    """A key as printed, brought into one form."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Field:
    """The metric that a key gives; `power_kind` is set for what may be the main power."""

    metric: str
    read: Read
    label: str = ""
    power_kind: str = ""


_UNIT = re.compile(r"(.{1,80}?) \(([^()]{1,16}|[0-9.]{1,8} ?[GgMmuUjJ/Ts]{1,4}[^()]{0,4}(?:\([^()]{0,12}\))?)\)\Z")
# Not of `HCU memory use`: that is the share of memory in use, where AMD's is the share of time that it is busy.
_PROCESSOR = re.compile(r"\A(?:dcu|hcu) (?!memory use)")
# What stands in brackets at the end of a key and is no unit.
_NO_UNITS = re.compile(r"sensor |vddgfx|(?:level|edge|junction|mem|memory|hotspot|hbm ?[0-9])\Z")


def key_of(text: str) -> Key:
    """The key in its one form."""
    name = " ".join(text.lower().split()).removesuffix(":").rstrip()
    name = _PROCESSOR.sub("gpu ", name)
    plain = " ".join(text.split()).removesuffix(":").rstrip()
    match = _UNIT.match(plain)
    if match is None or _NO_UNITS.match(match[2].lower()):
        return Key(name, "")
    return Key(_PROCESSOR.sub("gpu ", match[1].lower()), match[2])


# Kernels that name no sensor have one, which is the edge's.
_SENSORS = MappingProxyType(
    {
        "mem": "memory",
        "memory": "memory",
        "hotspot": "junction",
        "dieedge": "edge",
        "#1": "edge",
        "#2": "sensor2",
        "#3": "sensor3",
    }
)
_SENSOR = re.compile(r"temperature \((?:sensor )?(#[123]|[a-z0-9_]{1,20}(?: [0-9]{1,2})?)\)\Z")
_MOST_STACKS = 16
_METRICS_SENSOR = re.compile(r"temperature_([a-z0-9_]{1,20})\Z")
# A row of the table of --showrasinfo.
_BLOCK_COUNTS = re.compile(
    r"Block ([A-Za-z0-9_]{2,16}) is: {0,4}([A-Za-z]{2,16}) {0,4}\(ue: {0,4}([0-9]{1,20}), {0,4}ce: {0,4}([0-9]{1,20})\)\s{0,8}\Z"
)
_BLOCK_OF = re.compile(r"Block ([A-Za-z0-9_]{2,16}) is\Z")
_BLOCK = re.compile(r"([a-z0-9_]{2,16}) ras(?: (correctable|uncorrectable))?\Z")
_CLOCK_KEY = re.compile(r"(gpu memory|[a-z0-9]{2,10}) clock (?:speed|level)\Z")
DOMAINS = MappingProxyType(
    {
        "sclk": "graphics",
        "mclk": "memory",
        "socclk": "soc",
        "fclk": "fabric",
        "vclk": "video",
        "gpu": "graphics",
        "gpu memory": "memory",
    }
)


def sensor_word(text: str) -> str:
    """The sensor's word: `mem` is memory, `HBM 0` is hbm0."""
    word = text.lower().replace(" ", "")
    return _SENSORS.get(word, word)


def pieces_of(key: str, text: str) -> tuple[tuple[str, str], ...]:
    """The key and its text, or each of the several that it tells.

    One for each memory stack of `temperature_hbm (C): [48, N/A]`; three for hy-smi's `Block umc is: ENABLED (ue: 0, ce: 3)`.
    """
    counts = _BLOCK_COUNTS.match(f"{key}: {text}")
    if counts is not None:
        name = f"{counts[1]} RAS"
        return (name, counts[2]), (f"{name} uncorrectable", counts[3]), (f"{name} correctable", counts[4])
    block = _BLOCK_OF.match(key)
    if block is not None and "(" in text:
        # Counts that are not whole are none, and are told.
        return (f"{block[1]} RAS uncorrectable", text), (f"{block[1]} RAS correctable", text)
    match = values.LIST.match(text.strip())
    if match is None or not key.lower().startswith("temperature_hbm"):
        return ((key, text),)
    parts = enumerate(part.strip(" '\"") for part in match[1].split(",")[:_MOST_STACKS])
    return tuple((key.lower().replace("hbm", f"hbm{number}", 1), part) for number, part in parts)


FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "average graphics package power": (Field("power_average_watts", values.watts, power_kind="average"),),
        "current socket graphics package power": (Field("power_instant_watts", values.watts, power_kind="instant"),),
        # The concise table's Power without a sub-heading does not say which kind it is.
        "power": (Field("power_watts", values.watts),),
        "max graphics package power": (Field("power_cap_watts", values.cap),),
        "gpu use": (Field("utilization_ratio", values.ratio),),
        # Of hy-smi --showhcuutil, which measures for a second; never asked by us.
        "gpu util in last second": (Field("utilization_ratio", values.ratio),),
        "gpu memory use": (Field("memory_activity_ratio", values.ratio),),
        "gpu memory read/write activity": (Field("memory_activity_ratio", values.ratio),),
        "gpu memory allocated": (Field("memory_used_ratio", values.ratio),),
        "vram": (Field("memory_used_ratio", values.ratio),),
        # 98 beside 64,169 of 65,520 MiB and a use of 0.0 (BW); Hygon's exporter names it with VRAM%.
        "hcu memory use": (Field("memory_used_ratio", values.ratio),),
        "dcu memory use": (Field("memory_used_ratio", values.ratio),),
        "vram total memory": (Field("memory_total_bytes", values.size),),
        "vram total used memory": (Field("memory_used_bytes", values.size),),
        "gtt total memory": (Field("memory_gtt_total_bytes", values.size),),
        "gtt total used memory": (Field("memory_gtt_used_bytes", values.size),),
        "fan rpm": (Field("fan_rpm", values.rpm),),
        # Of the graphics' rail, as rocm_smi.py asks for it.
        "voltage": (Field("voltage_volts", values.volts, "graphics"),),
        "available memory size": (Field("memory_free_bytes", values.size),),
        "decoder use": (Field("engine_utilization_ratio", values.ratio, "decoder"),),
        "encoder use": (Field("engine_utilization_ratio", values.ratio, "encoder"),),
        "fan speed": (Field("fan_ratio", values.fan),),
        "fan level": (Field("fan_ratio", values.fan),),
        "pcie clock level": (Field("pcie_link_generation", values.generation), Field("pcie_link_width", values.width)),
        "pcie clock speed": (Field("pcie_link_generation", values.generation), Field("pcie_link_width", values.width)),
        "pcie replay count": (Field("pcie_replays_total", values.count),),
        "accumulated energy": (Field("energy_joules_total", values.joules),),
        # Of ROCm 1 and 2, in the words of the time.
        "temperature": (Field("temperature_celsius", values.celsius, "edge"),),
        "average gpu power": (Field("power_average_watts", values.watts, power_kind="average"),),
        "current gpu use": (Field("utilization_ratio", values.ratio),),
        "current gpu memory use": (Field("memory_activity_ratio", values.ratio),),
        # Of the tables of `--showpagesinfo`.
        "retired pages": (Field("retired_pages", values.count, "all"),),
        "pending pages": (Field("retired_pages_pending", values.any_bit),),
        "vram memory ecc status": (Field("ecc_enabled", values.enabled),),
        # `--showmetrics`, from ROCm 6.3: the driver's own table with units.
        "average_gfx_activity": (Field("utilization_ratio", values.ratio),),
        "average_umc_activity": (Field("memory_activity_ratio", values.ratio),),
        "average_socket_power": (Field("power_average_watts", values.watts, power_kind="average"),),
        "current_socket_power": (Field("power_instant_watts", values.watts, power_kind="instant"),),
        "current_gfxclk": (Field("clock_hertz", values.highest(values.hertz), "graphics"),),
        "current_uclk": (Field("clock_hertz", values.highest(values.hertz), "memory"),),
        "current_socclk": (Field("clock_hertz", values.highest(values.hertz), "soc"),),
        "current_vclk0": (Field("clock_hertz", values.highest(values.hertz), "video"),),
        # Where a chip has several dies: for those that leave the figure above out.
        "current_gfxclks": (Field("clock_hertz", values.highest(values.hertz), "graphics"),),
        "current_socclks": (Field("clock_hertz", values.highest(values.hertz), "soc"),),
        "current_vclk0s": (Field("clock_hertz", values.highest(values.hertz), "video"),),
        "vcn_activity": (Field("engine_utilization_ratio", values.highest(values.ratio), "vcn"),),
        "jpeg_activity": (Field("engine_utilization_ratio", values.highest(values.ratio), "jpeg"),),
        "average_mm_activity": (Field("engine_utilization_ratio", values.ratio, "multimedia"),),
        "energy_accumulator": (Field("energy_joules_total", values.joules),),
        "throttle_status": (Field("throttled", values.any_bit, "any"),),
        "indep_throttle_status": (Field("throttled", values.any_bit, "any"),),
        "pcie_replay_count_acc": (Field("pcie_replays_total", values.count),),
        "pcie_nak_sent_count_acc": (Field("pcie_errors_total", values.count, "nak_sent"),),
        "pcie_nak_rcvd_count_acc": (Field("pcie_errors_total", values.count, "nak_received"),),
        "pcie_l0_to_recov_count_acc": (Field("pcie_errors_total", values.count, "l0_to_recovery"),),
        "pcie_replay_rover_count_acc": (Field("pcie_errors_total", values.count, "replay_rollover"),),
        "pcie_bandwidth_inst": (Field("pcie_bandwidth_bytes_per_second", values.bandwidth),),
        "voltage_gfx": (Field("voltage_volts", values.volts, "graphics"),),
        "voltage_soc": (Field("voltage_volts", values.volts, "soc"),),
        "voltage_mem": (Field("voltage_volts", values.volts, "memory"),),
        "current_fan_speed": (Field("fan_rpm", values.rpm),),
        "pcie_link_width": (Field("pcie_link_width", values.lanes),),
        "pcie_link_speed": (Field("pcie_link_generation", values.speed_in_tenths),),
    }
)
LEVEL_KEYS = frozenset({"performance level", "current performance level", "current powerplay level"})
_LEVELS = MappingProxyType({"perf_determinism": "determinism", "determinism": "determinism"})
# `stable_peak` is what the driver calls profile_peak.
_PROFILES = ("profile", "stable_")

# Facts and identity, by key: the first that is no placeholder counts.
SERIES = ("card series", "device name", "market name", "name")
MODEL = ("card model",)
VENDOR = ("card vendor",)
CHIP = ("device id", "gpu id", "chip id")
UUID = ("unique id",)
SERIAL = ("serial number",)
BUS = ("pci bus", "bus")
# Of the node; some versions of hy-smi print it for each card.
DRIVER = "driver version"
PARTITION = "partition id"
NUMA_NODE = ("(topology) numa node", "numa node")
# -1, also as the unsigned number that older versions print: the machine has no NUMA nodes.
NO_NUMA_NODE = ("-1", "4294967295")
FACTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "firmware": ("vbios version", "vbios"),
        "gfx_version": ("gfx version", "gfx ver"),
        "kfd_node": ("node id",),
        "gpu_id": ("guid",),
        "compute_partition": ("compute partition",),
        "memory_partition": ("memory partition",),
        "mode": ("mode",),
    }
)
_IDENTITY = frozenset(
    {
        *SERIES,
        *MODEL,
        *VENDOR,
        *CHIP,
        *UUID,
        *SERIAL,
        *BUS,
        DRIVER,
        PARTITION,
        *NUMA_NODE,
        *(key for keys in FACTS.values() for key in keys),
    }
)

# Keys that are known and give nothing: counters without a unit, settings, versions, lists of clocks, other pools.
_QUIET = re.compile(
    r"(?:[0-9]{1,3}|s|index|fan speed \(level\)|gfx activity|memory activity|avg\. memory bandwidth"
    r"|energy counter|gpu memory vendor|card sku|subsystem id|device rev|node|gpu-id|did|sclk od|mclk od|pclk"
    r"|estimated maximum pcie bandwidth over the last second|current pcie bandwidth|xgmi error count"
    r"|(?:current )?(?:gpu )?(?:memory )?overdrive value|minimum [sm]clk|activity threshold|hysteresis (?:up|down)"
    r"|block [a-z0-9_]{2,16} is|retired page [0-9]{1,6} (?:address|size|type)|pids for kfd processes|vis_vram total (?:used )?memory|\(topology\) .{1,60}"
    r"|.{1,40} firmware version|[a-z0-9_]{2,16} ras|average gfx core power|average memory power|oam id|gpu reset type"
    r"|numa affinity|(?:cu|wave) util in last second|bandwidth|pasid|(?:expected|actual) vendor name|dcefclk clock (?:speed|level)|valid .{1,40}|region [0-9]{1,2}"
    r"|[0-9]\. available power profile|od_[a-z_]{1,20}|[sm]clk|vddc_curve_[a-z]{4}\[[0-9]\]"
    r"|voltage point [0-9]{1,2}|pid[0-9]{1,10}|power profiles"
    # Of --showmetrics.
    r"|metric version and size|system_clock_counter|firmware_timestamp|xgmi_.{1,40}|num_partition"
    r"|average_[a-z0-9_]{1,40}|current_[a-z0-9_]{1,40}|pcie_[a-z0-9_]{1,60}"
    r"|[a-z0-9_]{1,60}_acc|gfxclk_lock_status|xcp_stats.{0,60}|accumulation_counter|vram_max_bandwidth|)\Z"
)


def fields_of(key: Key) -> tuple[Field, ...]:
    """What a key gives: nothing for one that is unknown, or known to give nothing."""
    if key.name in FIELDS:
        return FIELDS[key.name]
    sensor = _SENSOR.match(key.name) or _METRICS_SENSOR.match(key.name)
    if sensor is not None:
        return (Field("temperature_celsius", values.celsius, sensor_word(sensor[1])),)
    block = _BLOCK.match(key.name)
    if block is not None:
        return _block_fields(block[1], block[2])
    clock = _CLOCK_KEY.match(key.name)
    if clock is not None and clock[1] in DOMAINS:
        return (Field("clock_hertz", values.hertz, DOMAINS[clock[1]]),)
    return ()


def _block_fields(block: str, kind: str | None) -> tuple[Field, ...]:
    """The errors of a block of the chip; whether the memory controller's are corrected is what ECC being on means."""
    if kind is not None:
        return (Field(f"ecc_{'corrected' if kind == 'correctable' else 'uncorrected'}_total", values.count, block),)
    return (Field("ecc_enabled", values.enabled),) if block == "umc" else ()


def is_known(key: Key) -> bool:
    """Whether a key that gives no reading is known all the same."""
    return key.name in _IDENTITY or key.name in LEVEL_KEYS or _QUIET.match(key.name) is not None


def is_level_only(key: Key, text: str) -> bool:
    """Whether the text of a clock or a fan is only the number of its level: `sclk clock level: 8`."""
    if key.name == "fan level":
        return units.whole(text) is not None
    return key.name.endswith("clock level") and (units.whole(text) is not None or text.strip() == "S")


def level_word(text: str) -> str | Absent:
    """The performance level's word in the catalogue."""
    word = text.strip().lower().removeprefix("amdsmi_dev_perf_level_")
    absent = units.placeholder(word)
    if absent is not None and word != "unknown":
        return absent
    if word.startswith(_PROFILES):
        return "profile"
    word = _LEVELS.get(word, word)
    return word if word in PERFORMANCE_LEVELS else Absent.NOT_UNDERSTOOD
