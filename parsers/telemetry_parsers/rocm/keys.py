"""Maps the keys that rocm-smi and hy-smi print to metrics and facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.targets import ON_OFF, Target, metric, only, parsed, switch
from telemetry_parsers.rocm import saved, values

# The longest known output has about 200 keys for a card.
MAX_KEYS = 2000


@dataclass(frozen=True, slots=True)
class Key:
    """A printed key, split into its unit and its name in lower case with single spaces."""

    name: str
    unit: str


_UNIT = re.compile(r"(.{1,80}?) \(([^()]{1,16}|[0-9.]{1,8} ?[GgMmuUjJ/Ts]{1,4}[^()]{0,4}(?:\([^()]{0,12}\))?)\)\Z")
# `HCU memory use` is not renamed: it is a share of memory, but `GPU memory use` is a share of time.
_PROCESSOR = re.compile(r"\A(?:dcu|hcu) (?!memory use)")
_UNIT_BY_WORD = MappingProxyType({"vram%": "%", "count": "", "lanes": ""})
# Words in brackets at the end of a key that are not a unit.
_NOT_A_UNIT = re.compile(r"sensor |vddgfx|(?:level|edge|junction|mem|memory|hotspot|hbm ?[0-9])\Z")


def parse_key(text: str) -> Key:
    """Normalize a printed key: `VRAM Total Memory (B)` becomes `vram total memory` with the unit `B`."""
    name = " ".join(text.lower().split()).removesuffix(":").rstrip()
    name = _PROCESSOR.sub("gpu ", name)
    cased_name = " ".join(text.split()).removesuffix(":").rstrip()
    match = _UNIT.match(cased_name)
    if match is None or _NOT_A_UNIT.match(match[2].lower()):
        return Key(name, "")
    return Key(_PROCESSOR.sub("gpu ", match[1].lower()), _UNIT_BY_WORD.get(match[2].lower(), match[2]))


# Kernels without sensor names have only the edge sensor, so `#1` is the edge sensor.
_LABEL_BY_SENSOR = MappingProxyType(
    {"mem": "memory", "hotspot": "junction", "dieedge": "edge", "#1": "edge", "#2": "sensor2", "#3": "sensor3"}
)
_SENSOR = re.compile(r"temperature \((?:sensor )?(#[123]|[a-z0-9_]{1,20}(?: [0-9]{1,2})?)\)\Z")
_RAS_KEY = re.compile(r"([a-z0-9_]{2,16}) ras(?: (correctable|uncorrectable))?\Z")
_CLOCK = re.compile(r"(gpu memory|[a-z0-9]{2,10}) clock (?:speed|level)\Z")
_DOMAIN_BY_CLOCK = MappingProxyType(
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
_FAN_TARGETS = (parsed("fan_ratio", values.fan_ratio),)
_LINK_TARGETS = (parsed("pcie_link_generation", values.link_generation), parsed("pcie_link_width", values.link_width))

_TARGETS_BY_NAME: Mapping[str, tuple[Target, ...]] = {
    "average graphics package power": only("power_average_watts"),
    "current socket graphics package power": only("power_instant_watts"),
    # In a concise table without a second heading line, the kind of power is unknown.
    "power": only("power_watts"),
    # The secondary die of a package has no limit, so the tool prints 0 W.
    "max graphics package power": (metric("power_cap_watts", if_zero=Absent.NOT_SUPPORTED),),
    "gpu use": only("utilization_ratio"),
    "gpu memory use": only("memory_activity_ratio"),
    "gpu memory read/write activity": only("memory_activity_ratio"),
    "gpu memory allocated": only("memory_used_ratio"),
    "vram": only("memory_used_ratio"),
    # Evidence that this is a share of memory: 98 for an idle BW card with 64,169 of 65,520 MiB in use.
    "hcu memory use": only("memory_used_ratio"),
    "dcu memory use": only("memory_used_ratio"),
    "vram total memory": only("memory_total_bytes"),
    "vram total used memory": only("memory_used_bytes"),
    "gtt total memory": only("memory_gtt_total_bytes"),
    "gtt total used memory": only("memory_gtt_used_bytes"),
    "available memory size": only("memory_free_bytes"),
    "fan rpm": only("fan_rpm"),
    "fan speed": _FAN_TARGETS,
    "fan level": _FAN_TARGETS,
    # rocm_smi.py requests the voltage of the graphics rail.
    "voltage": only("voltage_volts", "graphics"),
    "decoder use": only("engine_utilization_ratio", "decoder"),
    "encoder use": only("engine_utilization_ratio", "encoder"),
    "pcie clock level": _LINK_TARGETS,
    "pcie clock speed": _LINK_TARGETS,
    "pcie replay count": only("pcie_replays_total"),
    "accumulated energy": (parsed("energy_joules_total", values.joules),),
    # Keys from the tables of `--showpagesinfo`.
    "retired pages": only("retired_pages", "all"),
    "pending pages": (parsed("retired_pages_pending", values.nonzero_flag),),
    "vram memory ecc status": (switch("ecc_enabled", ON_OFF),),
    **saved.TARGETS,
}
PERFORMANCE_LEVEL_KEYS = frozenset({"performance level", "current performance level", "current powerplay level"})

# Maps each fact of a card to the keys that may print it.
FACTS: Mapping[str, tuple[str, ...]] = {
    "firmware": ("vbios version", "vbios"),
    "gfx_version": ("gfx version", "gfx ver"),
    "kfd_node": ("node id",),
    "gpu_id": ("guid",),
    "compute_partition": ("compute partition",),
    "memory_partition": ("memory partition",),
    "mode": ("mode",),
}
# Maps each identity field to the keys that may print it, in order of preference.
IDENTITY: Mapping[str, tuple[str, ...]] = {
    **FACTS,
    "series": ("card series", "device name", "market name", "name"),
    "model": ("card model",),
    "vendor": ("card vendor",),
    "chip": ("device id", "gpu id", "chip id"),
    "uuid": ("unique id",),
    "serial": ("serial number",),
    "bus": ("pci bus", "bus"),
    # Some versions of hy-smi print the node's driver version for each card.
    "driver": ("driver version",),
    "partition": ("partition id",),
    "numa_node": ("(topology) numa node", "numa node"),
}
_IDENTITY_NAMES = frozenset(name for names in IDENTITY.values() for name in names)

# Known keys without a metric.
_IGNORED_KEY = re.compile(
    r"(?:[0-9]{1,3}|s|index|fan speed \(level\)|gfx activity|memory activity|avg\. memory bandwidth"
    r"|energy counter|gpu memory vendor|card sku|subsystem id|device rev|node|gpu-id|did|sclk od|mclk od|pclk"
    r"|estimated maximum pcie bandwidth over the last second|current pcie bandwidth|xgmi error count"
    r"|(?:current )?(?:gpu )?(?:memory )?overdrive value|minimum [sm]clk|activity threshold|hysteresis (?:up|down)"
    r"|block [a-z0-9_]{2,16} is|retired page [0-9]{1,6} (?:address|size|type)|pids for kfd processes|vis_vram total (?:used )?memory|\(topology\) .{1,60}"
    r"|.{1,40} firmware version|[a-z0-9_]{2,16} ras|average gfx core power|average memory power|oam id|gpu reset type"
    r"|numa affinity|(?:cu|wave) util in last second|bandwidth|pasid|(?:expected|actual) vendor name|dcefclk clock (?:speed|level)|valid .{1,40}|region [0-9]{1,2}"
    r"|[0-9]\. available power profile|od_[a-z_]{1,20}|[sm]clk|vddc_curve_[a-z]{4}\[[0-9]\]"
    r"|voltage point [0-9]{1,2}|pid[0-9]{1,10}|power profiles"
    rf"|{saved.IGNORED_KEYS}|)\Z"
)


def targets_of(key: Key) -> tuple[Target, ...]:
    """Return the targets that read the text of a key, or () if the key has no metric."""
    if key.name in _TARGETS_BY_NAME:
        return _TARGETS_BY_NAME[key.name]
    sensor = _SENSOR.match(key.name) or saved.TEMPERATURE_KEY.match(key.name)
    if sensor is not None:
        word = sensor[1].replace(" ", "")
        return only("temperature_celsius", _LABEL_BY_SENSOR.get(word, word))
    block = _RAS_KEY.match(key.name)
    if block is not None:
        return _ras_targets(block[1], block[2])
    clock = _CLOCK.match(key.name)
    if clock is not None and clock[1] in _DOMAIN_BY_CLOCK:
        return (parsed("clock_hertz", values.hertz, _DOMAIN_BY_CLOCK[clock[1]]),)
    return ()


def _ras_targets(block: str, error_kind: str | None) -> tuple[Target, ...]:
    """Return the targets of a RAS block's error count, or of its ECC state if `error_kind` is None."""
    if error_kind is not None:
        return only(f"ecc_{'corrected' if error_kind == 'correctable' else 'uncorrected'}_total", block)
    return (switch("ecc_enabled", ON_OFF),) if block == "umc" else ()


def is_ignored(key: Key, text: str) -> bool:
    """Return whether a key is known to have no metric."""
    if not key.name:
        return not text.strip()
    return key.name in _IDENTITY_NAMES or _IGNORED_KEY.match(key.name) is not None


def is_level_only(key: Key, text: str) -> bool:
    """Return whether the text of a clock or fan is just a level number."""
    if key.name == "fan level":
        return units.integer(text) is not None
    return key.name.endswith("clock level") and (units.integer(text) is not None or text.strip() == "S")
