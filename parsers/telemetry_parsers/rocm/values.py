"""Parses values that are not plain numbers, such as clocks, links and lists."""

from __future__ import annotations

import re

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY, PERFORMANCE_LEVELS, in_range
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.reports.targets import Target, parsed, value_of

_LIBRARY_PREFIX = "amdsmi_dev_perf_level_"
# The driver prints `profile_peak`; the library prints `stable_peak` for the same level.
_PROFILE_PREFIXES = ("profile", "stable_")
_DETERMINISM = "perf_determinism"


def performance_level_of(text: str) -> str | Absent:
    """Return the `performance_level` word for a printed level such as `auto` or `AMDSMI_DEV_PERF_LEVEL_AUTO`."""
    word = text.strip().lower().removeprefix(_LIBRARY_PREFIX)
    if word in PERFORMANCE_LEVELS:
        return word
    if word.startswith(_PROFILE_PREFIXES):
        return "profile"
    return "determinism" if word == _DETERMINISM else units.placeholder(word) or Absent.NOT_UNDERSTOOD


_FAN_LEVEL = re.compile(r"[0-9]{1,5} \(([0-9]{1,3}(?:\.[0-9]{1,3})?)(?:%\)|\)%)\Z")
# A clock, possibly after its level, which is `S` while the clock sleeps.
_CLOCK = re.compile(r"(?:(?:[0-9]{1,3}|S):? )?\(?([0-9]{1,6}(?:\.[0-9]{1,3})? ?[MGk]?[Hh]z)\)?\Z")
_LINK = re.compile(r"(?:[0-9]{1,3}:? )?\(?([0-9]{1,3}(?:\.[0-9])?) ?GT/s,? x([0-9]{1,2})(?: [0-9]{1,5}Mhz)?\)?\Z")
_LIST = re.compile(r"\[([^\[\]]{0,400})\]\Z")


def fan_ratio(text: str, unit: str) -> Value:
    """Return the fan ratio in a text such as `33%`, or `84 (33%)` in sections."""
    match = _FAN_LEVEL.match(text)
    return units.quantity(match[1] if match else text, units.RATIO, "%" if match else unit)


def hertz(text: str, unit: str) -> Value:
    """Return the frequency in a text such as `8 (1725Mhz)`. `unit` is the unit of a plain number."""
    match = None if unit else _CLOCK.match(text)
    if not unit and match is None:
        return _absence_in(text.removesuffix(" (None)"))
    value = units.quantity(match[1], units.HERTZ) if match else units.quantity(text, units.HERTZ, unit)
    # A value with all bits set means "unknown" and must not become the highest value of a list.
    return in_range(BY_KEY["clock_hertz"], value)


def joules(text: str, unit: str) -> Value:
    """Return the energy, or `NOT_SUPPORTED` for 0, which is printed for cards without an energy counter."""
    if not unit.startswith("15.259uJ"):
        return units.zero_as_unsupported(units.quantity(text, units.JOULES, unit))
    value = units.number(text)
    # The counter has steps of 15.259 µJ, which is 1/65,536 J.
    return value if isinstance(value, Absent) else units.zero_as_unsupported(value / 65_536)


def nonzero_flag(text: str, unit: str) -> Value:
    """Return 1 if any bit of the status is set, else 0."""
    value = Absent.NOT_UNDERSTOOD if unit else units.number(text)
    return value if isinstance(value, Absent) else float(value != 0.0)


def link_generation(text: str, _unit: str) -> Value:
    """Return the PCIe generation of a link such as `1 (16.0GT/s x16)`."""
    match = _LINK.match(text)
    return units.pcie_generation(match[1]) if match else _absence_in(text)


def link_width(text: str, _unit: str) -> Value:
    """Return the number of lanes of a link such as `1 (16.0GT/s x16)`."""
    match = _LINK.match(text)
    return units.number(match[2]) if match else _absence_in(text)


def generation_from_tenths(text: str, unit: str) -> Value:
    """Return the PCIe generation of a speed in tenths of a GT/s: 160 is generation 4."""
    value = units.number(text) if unit == "0.1 GT/s" else Absent.NOT_UNDERSTOOD
    return value if isinstance(value, Absent) else units.pcie_generation(f"{value / 10:g}")


def bytes_per_second(text: str, unit: str) -> Value:
    """Convert a rate from GB/s to bytes per second. The driver uses no other unit."""
    value = units.number(text) if unit == "GB/s" else Absent.NOT_UNDERSTOOD
    return value if isinstance(value, Absent) else value * 1e9


def list_items(text: str) -> list[str] | None:
    """Return the items of a list such as `[48, 'N/A']`, or None if `text` is not a list."""
    match = _LIST.match(text.strip())
    return None if match is None else [item.strip(" '\"") for item in match[1].split(",")]


def highest_of(target: Target) -> Target:
    """Return a target that reads lists of values of `target`, and stores the highest: 133 for `[132, 133, N/A]`."""

    def read(text: str, unit: str) -> Value:
        items = list_items(text) or [text]
        if not all(items) and len(items) > 1:
            return Absent.NOT_UNDERSTOOD
        values = [value for item in items if (value := value_of(target, item, unit)) is not None]
        numbers = [value for value in values if not isinstance(value, Absent)]
        return max(numbers) if numbers else next(iter(values), Absent.NOT_REPORTED)

    return parsed(target.key, read, target.label)


def _absence_in(text: str) -> Absent:
    return units.placeholder(text) or Absent.NOT_UNDERSTOOD
