"""Maps each file of a card to a metric, and reads the texts of the files."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Output, Value
from telemetry_parsers.reports.targets import Target, metric, parsed, value_of

# The driver returns these errors for unsupported files.
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENODATA, errno.ENXIO, errno.ENOSYS})
# EPERM is not in this set, because amdgpu returns it to all users while a card sleeps or is reset
# (amdgpu_pm_get_access_if_active, and amdgpu_in_reset before Linux 6.14).
_FORBIDDEN = frozenset({errno.EACCES})
_CURRENT_LEVEL = re.compile(r"([0-9S]{1,3}): {0,2}(\S.{0,60}?) ?\*\Z")
_LEVEL = re.compile(r"([0-9]{1,3}): {0,2}([0-9]{1,6} ?[MGk]?[Hh]z)\b")
_LINK_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?\Z")
_ERROR_COUNT = re.compile(r"(ue|ce|de):(?: {0,4}([0-9]{1,20}))?\Z")
_FEATURE_MASK = re.compile(r"feature mask: 0x([0-9a-f]{1,16})(?: |\Z)")
_PAGE_LINE = re.compile(r"0x[0-9a-f]{8,16} : 0x[0-9a-f]{8,16} : ([RPF])\Z")


def absence_of(output: Output) -> Absent | None:
    """Return the `Absent` value for a file without text, or None for a file with text."""
    if output.status:
        if output.status in _FORBIDDEN:
            return Absent.NOT_PERMITTED
        return Absent.NOT_SUPPORTED if output.status in _UNSUPPORTED else Absent.NOT_REPORTED
    # The sensor files of a card that sleeps or is being removed are empty.
    return None if output.text.strip() else Absent.NOT_REPORTED


def value_in(output: Output, target: Target) -> Value:
    """Return the metric's value in a file, or an `Absent` value."""
    value = absence_of(output) or value_of(target, output.text)
    return Absent.NOT_UNDERSTOOD if value is None else value


def _parse_link_generation(text: str, _unit: str) -> Value:
    """Return the generation: 4 for `16.0 GT/s PCIe`, an `Absent` value for `Unknown`."""
    match = _LINK_SPEED.match(text)
    if match is not None:
        return units.pcie_generation(match[1])
    return units.placeholder(text.removesuffix(" speed")) or Absent.NOT_UNDERSTOOD


def current_clock(text: str) -> Value:
    """Return the clock in the line that ends with a star, or an `Absent` value."""
    for line in text.splitlines():
        match = _CURRENT_LEVEL.match(line.strip())
        if match is not None:
            return units.quantity(match[2].split()[0] if " " in match[2] else match[2], units.HERTZ)
    return Absent.NOT_REPORTED


def highest_clock(text: str) -> Value:
    """Return the clock of the highest level, or an `Absent` value, for example if there is only one level."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("S:")]
    levels = [match for line in lines if (match := _LEVEL.match(line))]
    if len(levels) < len(lines) and levels:
        return Absent.NOT_UNDERSTOOD
    values = [units.quantity(match[2], units.HERTZ) for match in levels]
    numbers = [value for value in values if not isinstance(value, Absent)]
    return max(numbers) if len(numbers) > 1 else Absent.NOT_SUPPORTED


def error_counts(text: str) -> Mapping[str, Value]:
    """Return the error counts of a RAS block by their printed keys, such as `ue`."""
    matches = (_ERROR_COUNT.match(line.strip()) for line in text.splitlines())
    return {match[1]: units.number(match[2] or "") for match in matches if match is not None}


def _parse_ecc_mode(text: str, _unit: str) -> Value:
    """Return whether RAS is active for the memory controllers (umc, the first bit)."""
    match = _FEATURE_MASK.match(text)
    return float(int(match[1], 16) & 1) if match else Absent.NOT_UNDERSTOOD


def parse_bad_pages(text: str) -> tuple[float, float] | None:
    """Return (number of retired pages, 1 if pages are pending else 0), or None for an invalid text."""
    matches = [_PAGE_LINE.match(line.strip()) for line in text.splitlines() if line.strip()]
    states = [match[1] for match in matches if match is not None]
    if not states or len(states) != len(matches):
        return None
    return float(states.count("R")), float("P" in states)


def _limit_target(metric_key: str, unit: str) -> Target:
    return metric(metric_key, unit=unit, if_zero=Absent.NOT_SUPPORTED)  # 0 means no limit


def _link_width_target(metric_key: str) -> Target:
    """Return the target for a link's width. 255 means unknown (PCIE_LNK_WIDTH_UNKNOWN in the kernel)."""
    return metric(metric_key, words={"255": Absent.NOT_SUPPORTED}, if_zero=Absent.NOT_SUPPORTED)


# Power limits come first, because each power reading is compared with the limit.
TARGETS_BY_FILE: Mapping[str, Target] = {
    "gpu_busy_percent": metric("utilization_ratio", unit="%"),
    "mem_busy_percent": metric("memory_activity_ratio", unit="%"),
    "mem_info_vram_total": metric("memory_total_bytes", unit="B"),
    "mem_info_vram_used": metric("memory_used_bytes", unit="B"),
    # GTT is host memory that the GPU can use.
    "mem_info_gtt_total": metric("memory_gtt_total_bytes", unit="B"),
    "mem_info_gtt_used": metric("memory_gtt_used_bytes", unit="B"),
    "power1_cap": _limit_target("power_cap_watts", "uW"),
    "power1_cap_default": _limit_target("power_cap_default_watts", "uW"),
    "power1_cap_max": _limit_target("power_cap_max_watts", "uW"),
    "power1_cap_min": metric("power_cap_min_watts", unit="uW"),
    "power1_average": metric("power_average_watts", unit="uW"),
    "power1_input": metric("power_instant_watts", unit="uW"),
    # Hygon's driver has this file instead of hwmon. The values on an 8-card host were clearly in watts.
    "chip_power_average": metric("power_average_watts", unit="W"),
    "ras/features": parsed("ecc_enabled", _parse_ecc_mode),
    "fan1_input": metric("fan_rpm"),
    "pcie_replay_count": metric("pcie_replays_total"),
    "current_link_speed": parsed("pcie_link_generation", _parse_link_generation),
    "max_link_speed": parsed("pcie_link_generation_max", _parse_link_generation),
    "current_link_width": _link_width_target("pcie_link_width"),
    "max_link_width": _link_width_target("pcie_link_width_max"),
}
TEMPERATURE = metric("temperature_celsius", unit="mC")
# Maps the suffix of each file with a temperature limit to the limit's metric.
LIMIT_TARGETS: Mapping[str, Target] = {
    "crit": _limit_target("temperature_critical_celsius", "mC"),
    "emergency": _limit_target("temperature_shutdown_celsius", "mC"),
}
VOLTAGE = metric("voltage_volts", unit="mV")
CLOCK_FILES: Mapping[str, str] = {
    "pp_dpm_sclk": "graphics",
    "pp_dpm_mclk": "memory",
    "pp_dpm_socclk": "soc",
    "pp_dpm_fclk": "fabric",
    "pp_dpm_vclk": "video",
}
# The graphics and memory clocks in hwmon, used if no level in the files above is marked by a star.
HWMON_CLOCK_TARGETS: Mapping[str, Target] = {
    "freq1_input": metric("clock_hertz", "graphics", unit="Hz"),
    "freq2_input": metric("clock_hertz", "memory", unit="Hz"),
}
# The kernel documents these labels. The north bridge of an APU is usually called SoC.
RAIL_LABELS: Mapping[str, str] = {"vddgfx": "graphics", "vddnb": "soc", "vddboard": "board"}
_SENSOR_NAMES: Mapping[str, str] = {"mem": "memory"}
_WORD = re.compile(r"[a-z0-9_]{1,40}\Z")


def label_word(text: str) -> str:
    """Return the text in lower case, or an empty string for an invalid label."""
    text = text.strip().lower()
    return text if _WORD.match(text) else ""


def sensor_label(label: str, sensor_number: int) -> str:
    """Return the sensor's label. Without a valid label, the first sensor is `edge`, the second `temp2`."""
    word = label_word(label)
    return _SENSOR_NAMES.get(word, word) or ("edge" if sensor_number == 1 else f"temp{sensor_number}")
