"""What each file of a card gives: tables of names, and how their texts are read."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Output, Value

# The driver answers these for what a card does not have …
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENODATA, errno.ENXIO, errno.ENOSYS})
# … and this to whoever may not ask. EPERM says something else: amdgpu answers so while a card sleeps or is reset
# (amdgpu_pm_get_access_if_active, and amdgpu_in_reset before Linux 6.14), whoever asks.
_FORBIDDEN = frozenset({errno.EACCES})
_STAR = re.compile(r"([0-9S]{1,3}): {0,2}(\S.{0,60}?) ?\*\Z")
_LEVEL = re.compile(r"([0-9]{1,3}): {0,2}([0-9]{1,6} ?[MGk]?[Hh]z)\b")
_LINK = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?\Z")
_ERRORS = re.compile(r"(ue|ce|de):(?: {0,4}([0-9]{1,20}))?\Z")
_MASK = re.compile(r"feature mask: 0x([0-9a-f]{1,16})\Z")
_PAGE = re.compile(r"0x[0-9a-f]{8,16} : 0x[0-9a-f]{8,16} : ([RPF])\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """The metric that a file gives, and how its text is read."""

    metric: str
    read: Callable[[str], Value]
    is_power: bool = False


def value_of(output: Output, read: Callable[[str], Value]) -> Value:
    """What a file says, or why it says nothing."""
    if output.status:
        if output.status in _FORBIDDEN:
            return Absent.NOT_PERMITTED
        return Absent.NOT_SUPPORTED if output.status in _UNSUPPORTED else Absent.NOT_REPORTED
    text = output.text.strip()
    # Sensors of a card that sleeps, or is about to go, are empty.
    return read(text) if text else Absent.NOT_REPORTED


def _in(table: units.Units, unit: str) -> Callable[[str], Value]:
    return lambda text: units.quantity(text, table, unit)


def limit(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """A limit of 0 is none."""

    def read_limit(text: str) -> Value:
        return units.zero_is_none(read(text))

    return read_limit


def generation(text: str) -> Value:
    """`16.0 GT/s PCIe` is generation 4; `Unknown` and `Unknown speed` are none."""
    match = _LINK.match(text)
    return units.pcie_generation(match[1]) if match else _placeholder(text.removesuffix(" speed"))


def _placeholder(text: str) -> Absent:
    return units.placeholder(text) or Absent.NOT_UNDERSTOOD


def lanes(text: str) -> Value:
    """The lanes of a link; 0 is printed while there is none, and 255 is the kernel's PCIE_LNK_WIDTH_UNKNOWN."""
    value = units.number(text)
    return Absent.NOT_SUPPORTED if value in (0.0, 255.0) else value


def current_clock(text: str) -> Value:
    """The clock of the line with the star; none has it while the clock cannot be read."""
    for line in text.splitlines():
        match = _STAR.match(line.strip())
        if match is not None:
            return units.quantity(match[2].split()[0] if " " in match[2] else match[2], units.HERTZ)
    return Absent.NOT_REPORTED


def highest_clock(text: str) -> Value:
    """The clock of the highest level; the line `S:` of a sleeping card is no level."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("S:")]
    levels = [match for line in lines if (match := _LEVEL.match(line))]
    if len(levels) < len(lines) and levels:
        return Absent.NOT_UNDERSTOOD
    values = [units.quantity(match[2], units.HERTZ) for match in levels]
    numbers = [value for value in values if not isinstance(value, Absent)]
    return max(numbers) if len(numbers) > 1 else Absent.NOT_SUPPORTED


def error_counts(text: str) -> Mapping[str, Value]:
    """`ue: 0` and `ce: 3` of a RAS block."""
    found = (_ERRORS.match(line.strip()) for line in text.splitlines())
    return {match[1]: units.number(match[2] or "") for match in found if match is not None}


def ecc_enabled(text: str) -> Value:
    """Whether the RAS blocks that are on include the memory controllers (umc, the first bit)."""
    lines = text.splitlines()
    match = _MASK.match(lines[0].strip()) if lines else None
    return float(int(match[1], 16) & 1) if match else Absent.NOT_UNDERSTOOD


def bad_pages(text: str) -> tuple[float, float] | None:
    """How many pages are out of use, and 1 when some wait for it; None for a list that does not read as one.

    The driver prints an empty list also when it has none to print.
    """
    found = [_PAGE.match(line.strip()) for line in text.splitlines() if line.strip()]
    flags = [match[1] for match in found if match is not None]
    if not flags or len(flags) != len(found):
        return None
    return float(flags.count("R")), float("P" in flags)


_PERCENT = _in(units.RATIO, "%")
_BYTES = _in(units.BYTES, "B")
_MICROWATTS = _in(units.WATTS, "uW")
MILLICELSIUS = _in(units.CELSIUS, "mC")
HERTZ = _in(units.HERTZ, "Hz")
MILLIVOLTS = _in(units.VOLTS, "mV")

# The limits stand before the powers, which are judged by them.
FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "gpu_busy_percent": Field("utilization_ratio", _PERCENT),
        "mem_busy_percent": Field("memory_activity_ratio", _PERCENT),
        "mem_info_vram_total": Field("memory_total_bytes", _BYTES),
        "mem_info_vram_used": Field("memory_used_bytes", _BYTES),
        # Of an APU the memory that it shares with the processor, which is most of what it has.
        "mem_info_gtt_total": Field("memory_gtt_total_bytes", _BYTES),
        "mem_info_gtt_used": Field("memory_gtt_used_bytes", _BYTES),
        "power1_cap": Field("power_cap_watts", limit(_MICROWATTS)),
        "power1_cap_default": Field("power_cap_default_watts", limit(_MICROWATTS)),
        "power1_cap_max": Field("power_cap_max_watts", limit(_MICROWATTS)),
        "power1_cap_min": Field("power_cap_min_watts", _MICROWATTS),
        "power1_average": Field("power_average_watts", _MICROWATTS, is_power=True),
        "power1_input": Field("power_instant_watts", _MICROWATTS, is_power=True),
        # Hygon's driver without hwmon: a report from an 8-card host says mW, its value is plainly in W.
        "chip_power_average": Field("power_average_watts", _in(units.WATTS, "W"), is_power=True),
        "ras/features": Field("ecc_enabled", ecc_enabled),
        "fan1_input": Field("fan_rpm", units.number),
        "pcie_replay_count": Field("pcie_replays_total", units.number),
        "current_link_speed": Field("pcie_link_generation", generation),
        "max_link_speed": Field("pcie_link_generation_max", generation),
        "current_link_width": Field("pcie_link_width", lanes),
        "max_link_width": Field("pcie_link_width_max", lanes),
    }
)
CLOCKS: Mapping[str, str] = MappingProxyType(
    {
        "pp_dpm_sclk": "graphics",
        "pp_dpm_mclk": "memory",
        "pp_dpm_socclk": "soc",
        "pp_dpm_fclk": "fabric",
        "pp_dpm_vclk": "video",
    }
)
# The kernel documents the first two clocks of hwmon as sclk and mclk; they speak where no level has the star.
HWMON_CLOCKS: Mapping[str, str] = MappingProxyType({"freq1_input": "graphics", "freq2_input": "memory"})
# The labels of hwmon's voltages, as the kernel documents them; the north bridge of an APU is what others call its SoC.
RAILS: Mapping[str, str] = MappingProxyType({"vddgfx": "graphics", "vddnb": "soc", "vddboard": "board"})
SENSORS: Mapping[str, str] = MappingProxyType({"mem": "memory"})
_WORD = re.compile(r"[a-z0-9_]{1,40}\Z")


def word(text: str) -> str:
    """The text as a label's word, empty when it is none."""
    text = text.strip().lower()
    return text if _WORD.match(text) else ""


def sensor_word(label: str, number: int) -> str:
    """The sensor's word by its label; the first one without a label is what old kernels have: the edge."""
    named = word(label)
    return SENSORS.get(named, named) or ("edge" if number == 1 else f"temp{number}")


# What a sensor's other files are.
LIMITS: Mapping[str, str] = MappingProxyType(
    {"crit": "temperature_critical_celsius", "emergency": "temperature_shutdown_celsius"}
)
