"""What the keys of rocm-smi and hy-smi mean, in every spelling since ROCm 3: vendor knowledge as tables.

A key is normalised first: lower case, single blanks, no colon at its end, `dcu`/`hcu` for `gpu`, its unit taken off:
`VRAM Total Memory (B)` is `vram total memory` in `B`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY, PERFORMANCE_LEVELS, in_range
from telemetry_parsers.model import Absent, Value

# A card has some two hundred keys in the longest output; a text that has many more is none of the tools'.
MOST_KEYS = 2000
# What a reader of a text gets besides it: the unit that stood in the key, empty when there was none.
Read = Callable[[str, str], Value]


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


def _ratio(text: str, unit: str) -> Value:
    percent = "%" if unit in ("%", "VRAM%") else unit
    return units.quantity(text, units.RATIO, percent)


def _celsius(text: str, unit: str) -> Value:
    return units.quantity(text, units.CELSIUS, unit)


def _watts(text: str, unit: str) -> Value:
    # "N/A (Secondary die)": the other die of the package tells the power of both.
    if text.lower().startswith("n/a ("):
        return Absent.NOT_REPORTED
    return units.quantity(text, units.WATTS, unit)


def _cap(text: str, unit: str) -> Value:
    """A limit of 0 W is how the second die of a package prints that it has none."""
    value = _watts(text, unit)
    return Absent.NOT_REPORTED if value == 0.0 else value


def _bytes(text: str, unit: str) -> Value:
    return units.quantity(text, units.BYTES, unit)


def _joules(text: str, unit: str) -> Value:
    """An energy of 0 is how a card without a counter prints that it has none, as the second die of a package."""
    if unit.startswith("15.259uJ"):
        value = units.number(text)
        value = value if isinstance(value, Absent) else value / 65_536
    else:
        value = units.quantity(text, units.JOULES, unit)
    return Absent.NOT_REPORTED if value == 0.0 else value


def _count(text: str, unit: str) -> Value:
    return units.number(text) if unit in ("", "Count") else Absent.NOT_UNDERSTOOD


def _any_bit(text: str, unit: str) -> Value:
    """Whether a status of bits is other than 0."""
    value = _count(text, unit)
    return value if isinstance(value, Absent) else float(value != 0.0)


def _enabled(text: str, _unit: str) -> Value:
    known = {"enabled": 1.0, "on": 1.0, "disabled": 0.0, "off": 0.0}.get(text.strip().lower())
    return known if known is not None else units.placeholder(text) or Absent.NOT_UNDERSTOOD


_FAN_LEVEL = re.compile(r"[0-9]{1,5} \(([0-9]{1,3}(?:\.[0-9]{1,3})?)(?:%\)|\)%)\Z")


def _fan(text: str, unit: str) -> Value:
    """`33%`, or in the sections `84 (33%)` behind the level."""
    match = _FAN_LEVEL.match(text.strip())
    return _ratio(match[1], "%") if match else _ratio(text, unit)


def _lanes(text: str, unit: str) -> Value:
    return units.quantity(text, units.LANES) if unit in ("", "Lanes", "lanes") else Absent.NOT_UNDERSTOOD


# A level, which is `S` while the clock sleeps, may stand before.
_CLOCK = re.compile(r"(?:(?:[0-9]{1,3}|S):? )?\(?([0-9]{1,6}(?:\.[0-9]{1,3})? ?[MGk]?[Hh]z)\)?\Z")
_LINK = re.compile(r"(?:[0-9]{1,3}:? )?\(?([0-9]{1,3}(?:\.[0-9])?) ?GT/s,? x([0-9]{1,2})(?: [0-9]{1,5}Mhz)?\)?\Z")
_LIST = re.compile(r"\[([^\[\]]{0,400})\]\Z")


def _hertz(text: str, unit: str) -> Value:
    """`(1725Mhz)`, `8 (1725Mhz)`, `1350Mhz`, or a bare number where the key has the unit."""
    match = None if unit else _CLOCK.match(text)
    if not unit and match is None:
        return units.placeholder(text.removesuffix(" (None)")) or Absent.NOT_UNDERSTOOD
    value = units.quantity(match[1], units.HERTZ) if match else units.quantity(text, units.HERTZ, unit)
    # In a list of many, one with all bits set must not be the highest.
    return in_range(BY_KEY["clock_hertz"], value)


def _highest(read: Read) -> Read:
    """Of a list such as `[132, 133, N/A]` the highest, as of all that has one word for many."""

    def read_list(text: str, unit: str) -> Value:
        match = _LIST.match(text.strip())
        if match is None:
            return read(text, unit)
        values = [read(part.strip(" '\""), unit) for part in match[1].split(",")]
        numbers = [value for value in values if not isinstance(value, Absent)]
        return max(numbers) if numbers else next(iter(values), Absent.NOT_REPORTED)

    return read_list


def _generation(text: str, _unit: str) -> Value:
    match = _LINK.match(text)
    return units.pcie_generation(match[1]) if match else units.placeholder(text) or Absent.NOT_UNDERSTOOD


def _width(text: str, _unit: str) -> Value:
    match = _LINK.match(text)
    return units.number(match[2]) if match else units.placeholder(text) or Absent.NOT_UNDERSTOOD


def _speed_in_tenths(text: str, unit: str) -> Value:
    """160 tenths of a GT/s are generation 4."""
    if unit != "0.1 GT/s":
        return Absent.NOT_UNDERSTOOD
    value = units.number(text)
    return value if isinstance(value, Absent) else units.pcie_generation(f"{value / 10:g}")


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
    match = _LIST.match(text.strip())
    if match is None or not key.lower().startswith("temperature_hbm"):
        return ((key, text),)
    parts = enumerate(part.strip(" '\"") for part in match[1].split(",")[:_MOST_STACKS])
    return tuple((key.lower().replace("hbm", f"hbm{number}", 1), part) for number, part in parts)


FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "average graphics package power": (Field("power_average_watts", _watts, power_kind="average"),),
        "current socket graphics package power": (Field("power_instant_watts", _watts, power_kind="instant"),),
        # The concise table's Power without a sub-heading does not say which kind it is.
        "power": (Field("power_watts", _watts),),
        "max graphics package power": (Field("power_cap_watts", _cap),),
        "gpu use": (Field("utilization_ratio", _ratio),),
        # Of hy-smi --showhcuutil, which measures for a second; never asked by us.
        "gpu util in last second": (Field("utilization_ratio", _ratio),),
        "gpu memory use": (Field("memory_activity_ratio", _ratio),),
        "gpu memory read/write activity": (Field("memory_activity_ratio", _ratio),),
        "gpu memory allocated": (Field("memory_used_ratio", _ratio),),
        "vram": (Field("memory_used_ratio", _ratio),),
        # 98 beside 64,169 of 65,520 MiB and a use of 0.0 (BW); Hygon's exporter names it with VRAM%.
        "hcu memory use": (Field("memory_used_ratio", _ratio),),
        "dcu memory use": (Field("memory_used_ratio", _ratio),),
        "vram total memory": (Field("memory_total_bytes", _bytes),),
        "vram total used memory": (Field("memory_used_bytes", _bytes),),
        "available memory size": (Field("memory_free_bytes", _bytes),),
        "decoder use": (Field("engine_utilization_ratio", _ratio, "decoder"),),
        "encoder use": (Field("engine_utilization_ratio", _ratio, "encoder"),),
        "fan speed": (Field("fan_ratio", _fan),),
        "fan level": (Field("fan_ratio", _fan),),
        "pcie clock level": (Field("pcie_link_generation", _generation), Field("pcie_link_width", _width)),
        "pcie clock speed": (Field("pcie_link_generation", _generation), Field("pcie_link_width", _width)),
        "pcie replay count": (Field("pcie_replays_total", _count),),
        "accumulated energy": (Field("energy_joules_total", _joules),),
        # Of ROCm 1 and 2, in the words of the time.
        "temperature": (Field("temperature_celsius", _celsius, "edge"),),
        "average gpu power": (Field("power_average_watts", _watts, power_kind="average"),),
        "current gpu use": (Field("utilization_ratio", _ratio),),
        "current gpu memory use": (Field("memory_activity_ratio", _ratio),),
        # Of the tables of `--showpagesinfo`.
        "retired pages": (Field("retired_pages", _count, "all"),),
        "pending pages": (Field("retired_pages_pending", _any_bit),),
        "vram memory ecc status": (Field("ecc_enabled", _enabled),),
        # `--showmetrics`, from ROCm 6.3: the driver's own table with units.
        "average_gfx_activity": (Field("utilization_ratio", _ratio),),
        "average_umc_activity": (Field("memory_activity_ratio", _ratio),),
        "average_socket_power": (Field("power_average_watts", _watts, power_kind="average"),),
        "current_socket_power": (Field("power_instant_watts", _watts, power_kind="instant"),),
        "current_gfxclk": (Field("clock_hertz", _highest(_hertz), "graphics"),),
        "current_uclk": (Field("clock_hertz", _highest(_hertz), "memory"),),
        "current_socclk": (Field("clock_hertz", _highest(_hertz), "soc"),),
        "current_vclk0": (Field("clock_hertz", _highest(_hertz), "video"),),
        # Where a chip has several dies: for those that leave the figure above out.
        "current_gfxclks": (Field("clock_hertz", _highest(_hertz), "graphics"),),
        "current_socclks": (Field("clock_hertz", _highest(_hertz), "soc"),),
        "current_vclk0s": (Field("clock_hertz", _highest(_hertz), "video"),),
        "vcn_activity": (Field("engine_utilization_ratio", _highest(_ratio), "vcn"),),
        "jpeg_activity": (Field("engine_utilization_ratio", _highest(_ratio), "jpeg"),),
        "average_mm_activity": (Field("engine_utilization_ratio", _ratio, "multimedia"),),
        "energy_accumulator": (Field("energy_joules_total", _joules),),
        "throttle_status": (Field("throttled", _any_bit, "any"),),
        "indep_throttle_status": (Field("throttled", _any_bit, "any"),),
        "pcie_replay_count_acc": (Field("pcie_replays_total", _count),),
        "pcie_nak_sent_count_acc": (Field("pcie_errors_total", _count, "nak_sent"),),
        "pcie_nak_rcvd_count_acc": (Field("pcie_errors_total", _count, "nak_received"),),
        "pcie_link_width": (Field("pcie_link_width", _lanes),),
        "pcie_link_speed": (Field("pcie_link_generation", _speed_in_tenths),),
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
    r"(?:[0-9]{1,3}|s|index|fan rpm|fan speed \(level\)|gfx activity|memory activity|avg\. memory bandwidth"
    r"|energy counter|voltage|gpu memory vendor|card sku|subsystem id|device rev|node|gpu-id|did|sclk od|mclk od|pclk"
    r"|estimated maximum pcie bandwidth over the last second|current pcie bandwidth|xgmi error count"
    r"|(?:current )?(?:gpu )?(?:memory )?overdrive value|minimum [sm]clk|activity threshold|hysteresis (?:up|down)"
    r"|block [a-z0-9_]{2,16} is|retired page [0-9]{1,6} (?:address|size|type)|pids for kfd processes|(?:vis_vram|gtt) total (?:used )?memory|\(topology\) .{1,60}"
    r"|.{1,40} firmware version|[a-z0-9_]{2,16} ras|average gfx core power|average memory power|oam id|gpu reset type"
    r"|numa affinity|(?:cu|wave) util in last second|bandwidth|pasid|voltage \(mv\)|(?:expected|actual) vendor name|dcefclk clock (?:speed|level)|valid .{1,40}|region [0-9]{1,2}"
    r"|[0-9]\. available power profile|od_[a-z_]{1,20}|[sm]clk|vddc_curve_[a-z]{4}\[[0-9]\]"
    r"|voltage point [0-9]{1,2}|pid[0-9]{1,10}|power profiles"
    # Of --showmetrics.
    r"|metric version and size|system_clock_counter|current_fan_speed|firmware_timestamp|xgmi_.{1,40}|num_partition"
    r"|average_[a-z0-9_]{1,40}|current_[a-z0-9_]{1,40}|voltage_[a-z0-9_]{1,20}|pcie_[a-z0-9_]{1,60}"
    r"|[a-z0-9_]{1,60}_acc|gfxclk_lock_status|xcp_stats.{0,60}|accumulation_counter|vram_max_bandwidth|)\Z"
)


def fields_of(key: Key) -> tuple[Field, ...]:
    """What a key gives: nothing for one that is unknown, or known to give nothing."""
    if key.name in FIELDS:
        return FIELDS[key.name]
    sensor = _SENSOR.match(key.name) or _METRICS_SENSOR.match(key.name)
    if sensor is not None:
        return (Field("temperature_celsius", _celsius, sensor_word(sensor[1])),)
    block = _BLOCK.match(key.name)
    if block is not None:
        return _block_fields(block[1], block[2])
    clock = _CLOCK_KEY.match(key.name)
    if clock is not None and clock[1] in DOMAINS:
        return (Field("clock_hertz", _hertz, DOMAINS[clock[1]]),)
    return ()


def _block_fields(block: str, kind: str | None) -> tuple[Field, ...]:
    """The errors of a block of the chip; whether the memory controller's are corrected is what ECC being on means."""
    if kind is not None:
        return (Field(f"ecc_{'corrected' if kind == 'correctable' else 'uncorrected'}_total", _count, block),)
    return (Field("ecc_enabled", _enabled),) if block == "umc" else ()


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
