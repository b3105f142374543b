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
from telemetry_parsers.metrics import PERFORMANCE_LEVELS
from telemetry_parsers.model import Absent, Value

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


_UNIT = re.compile(r"(.{1,80}?) \(([^()]{1,12}|[0-9.]{1,8} ?[GgMmuUjJ/Ts]{1,4}[^()]{0,4}(?:\([^()]{0,12}\))?)\)\Z")
_PROCESSOR = re.compile(r"\A(?:dcu|hcu) ")
# What stands in brackets at the end of a key and is no unit.
_NO_UNITS = re.compile(r"sensor |vddgfx|level\Z")


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
    return units.quantity(text, units.JOULES, unit)


def _count(text: str, unit: str) -> Value:
    return Absent.NOT_UNDERSTOOD if unit else units.number(text)


def _lanes(text: str, unit: str) -> Value:
    return units.quantity(text, units.LANES) if unit in ("", "Lanes", "lanes") else Absent.NOT_UNDERSTOOD


_CLOCK = re.compile(r"(?:[0-9]{1,3}:? )?\(?([0-9]{1,6}(?:\.[0-9]{1,3})? ?[MGk]?[Hh]z)\)?\Z")
_LINK = re.compile(r"(?:[0-9]{1,3}:? )?\(?([0-9]{1,3}(?:\.[0-9])?) ?GT/s,? x([0-9]{1,2})(?: [0-9]{1,5}Mhz)?\)?\Z")
_LIST = re.compile(r"\[([^\[\]]{0,400})\]\Z")


def _hertz(text: str, unit: str) -> Value:
    """`(1725Mhz)`, `8 (1725Mhz)`, `1350Mhz`, or a bare number where the key has the unit."""
    if unit:
        return units.quantity(text, units.HERTZ, unit)
    match = _CLOCK.match(text)
    return units.quantity(match[1], units.HERTZ) if match else units.placeholder(text) or Absent.NOT_UNDERSTOOD


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


_SENSORS = MappingProxyType({"mem": "memory", "memory": "memory", "hotspot": "junction", "dieedge": "edge"})
_SENSOR = re.compile(r"temperature \(sensor ([a-z0-9_]{1,20}(?: [0-9]{1,2})?)\)\Z")
_METRICS_SENSOR = re.compile(r"temperature_([a-z0-9_]{1,20})\Z")
_CLOCK_KEY = re.compile(r"([a-z0-9]{2,10}) clock (?:speed|level)\Z")
DOMAINS = MappingProxyType(
    {
        "sclk": "graphics",
        "mclk": "memory",
        "socclk": "soc",
        "fclk": "fabric",
        "vclk": "video",
        "gfxclk": "graphics",
        "uclk": "memory",
    }
)


def sensor_word(text: str) -> str:
    """The sensor's word: `mem` is memory, `HBM 0` is hbm0."""
    word = text.lower().replace(" ", "")
    return _SENSORS.get(word, word)


FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "average graphics package power": (Field("power_average_watts", _watts, power_kind="average"),),
        "current socket graphics package power": (Field("power_instant_watts", _watts, power_kind="instant"),),
        # The concise table's Power without a sub-heading does not say which kind it is.
        "power": (Field("power_watts", _watts),),
        "max graphics package power": (Field("power_cap_watts", _cap),),
        "gpu use": (Field("utilization_ratio", _ratio),),
        "gpu memory use": (Field("memory_activity_ratio", _ratio),),
        "gpu memory read/write activity": (Field("memory_activity_ratio", _ratio),),
        "gpu memory allocated": (Field("memory_used_ratio", _ratio),),
        "vram": (Field("memory_used_ratio", _ratio),),
        "vram total memory": (Field("memory_total_bytes", _bytes),),
        "vram total used memory": (Field("memory_used_bytes", _bytes),),
        "available memory size": (Field("memory_free_bytes", _bytes),),
        "decoder use": (Field("engine_utilization_ratio", _ratio, "decoder"),),
        "encoder use": (Field("engine_utilization_ratio", _ratio, "encoder"),),
        "fan speed": (Field("fan_ratio", _ratio),),
        "pcie clock level": (Field("pcie_link_generation", _generation), Field("pcie_link_width", _width)),
        "pcie clock speed": (Field("pcie_link_generation", _generation), Field("pcie_link_width", _width)),
        "pcie replay count": (Field("pcie_replays_total", _count),),
        "accumulated energy": (Field("energy_joules_total", _joules),),
        # `--showmetrics`, from ROCm 6.3: the driver's own table with units.
        "average_gfx_activity": (Field("utilization_ratio", _ratio),),
        "average_umc_activity": (Field("memory_activity_ratio", _ratio),),
        "average_socket_power": (Field("power_average_watts", _watts, power_kind="average"),),
        "current_socket_power": (Field("power_instant_watts", _watts, power_kind="instant"),),
        "current_gfxclk": (Field("clock_hertz", _highest(_hertz), "graphics"),),
        "current_uclk": (Field("clock_hertz", _highest(_hertz), "memory"),),
        "current_socclk": (Field("clock_hertz", _highest(_hertz), "soc"),),
        "current_vclk0": (Field("clock_hertz", _highest(_hertz), "video"),),
        "pcie_link_width": (Field("pcie_link_width", _lanes),),
        "pcie_link_speed": (Field("pcie_link_generation", _speed_in_tenths),),
    }
)
LEVEL_KEY = "performance level"
_LEVELS = MappingProxyType({"perf_determinism": "determinism", "determinism": "determinism"})

# Facts and identity, by key: the first that is no placeholder counts.
SERIES = ("card series", "device name", "market name", "name")
MODEL = ("card model",)
VENDOR = ("card vendor",)
CHIP = ("device id", "gpu id", "chip id")
UUID = ("unique id",)
SERIAL = ("serial number",)
BUS = ("pci bus", "bus")
PARTITION = "partition id"
FACTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "firmware": ("vbios version", "vbios"),
        "gfx_version": ("gfx version", "gfx ver"),
        "numa_node": ("(topology) numa node",),
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
        PARTITION,
        *(key for keys in FACTS.values() for key in keys),
    }
)

# Keys that are known and give nothing: counters without a unit, settings, versions, other pools.
_QUIET = re.compile(
    r"(?:[0-9]{1,3}|index|fan rpm|fan level|fan speed \(level\)|gfx activity|memory activity|avg\. memory bandwidth|energy counter|voltage"
    r"|gpu memory vendor|card sku|subsystem id|device rev|node id|node|guid|gpu-id|did|sclk od|mclk od|pclk"
    r"|estimated maximum pcie bandwidth over the last second|gpu overdrive value|gpu memory overdrive value"
    r"|(?:vis_vram|gtt) total (?:used )?memory|\(topology\) .{1,60}|.{1,40} firmware version|(?:gfx|sdma|umc) ras"
    r"|average gfx core power|average memory power|oam id|metric version and size|throttle_status|indep_throttle_status"
    r"|system_clock_counter|energy_accumulator|current_fan_speed|average_mm_activity|firmware_timestamp|xgmi_.{1,40}"
    r"|average_[a-z0-9_]{1,40}|current_[a-z0-9_]{1,40}|voltage_[a-z0-9_]{1,20}|(?:gfx|mem)_activity_acc"
    r"|pcie_[a-z0-9_]{1,60}|[a-z0-9_]{1,60}_acc|num_partition|gfxclk_lock_status|xcp_stats.{0,60}|jpeg_activity.{0,40}"
    r"|vcn_activity.{0,40}|dcefclk clock (?:speed|level)|gpu reset type|voltage point [0-9]{1,2}|valid .{1,40}|)\Z"
)


def fields_of(key: Key) -> tuple[Field, ...]:
    """What a key gives: nothing for one that is unknown, or known to give nothing."""
    if key.name in FIELDS:
        return FIELDS[key.name]
    sensor = _SENSOR.match(key.name) or _METRICS_SENSOR.match(key.name)
    if sensor is not None:
        return (Field("temperature_celsius", _celsius, sensor_word(sensor[1])),)
    clock = _CLOCK_KEY.match(key.name)
    if clock is not None and clock[1] in DOMAINS:
        return (Field("clock_hertz", _hertz, DOMAINS[clock[1]]),)
    return ()


def is_known(key: Key) -> bool:
    """Whether a key that gives no reading is known all the same."""
    return key.name in _IDENTITY or key.name == LEVEL_KEY or _QUIET.match(key.name) is not None


def is_level_only(key: Key, text: str) -> bool:
    """Whether a clock's text is only the number of its level: `sclk clock level: 8`."""
    return key.name.endswith("clock level") and units.whole(text) is not None


def level_word(text: str) -> str | Absent:
    """The performance level's word in the catalogue."""
    word = text.strip().lower()
    absent = units.placeholder(word)
    if absent is not None and word != "unknown":
        return absent
    if word.startswith("profile"):
        return "profile"
    word = _LEVELS.get(word, word)
    return word if word in PERFORMANCE_LEVELS else Absent.NOT_UNDERSTOOD
