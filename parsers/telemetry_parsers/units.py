"""Parses printed values, such as "57.0 W" or "98%", into numbers in base units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers.model import Absent, Value
from telemetry_parsers.sentinels import ALL_BITS

# Maps each unit to its factor (numerator, denominator), because 57 / 100 is more exact than 57 * 0.01.
Units = Mapping[str, tuple[int, int]]


def _units(**factors: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return factors


RATIO: Units = {"%": (1, 100)}
CELSIUS: Units = {"C": (1, 1), "c": (1, 1), "°C": (1, 1), "℃": (1, 1), "mC": (1, 1000)}
WATTS: Units = MappingProxyType(_units(W=(1, 1), w=(1, 1), mW=(1, 1000), uW=(1, 1_000_000), kW=(1000, 1)))
VOLTS: Units = {"V": (1, 1), "mV": (1, 1000)}
RPM: Units = {"RPM": (1, 1), "rpm": (1, 1), "": (1, 1)}
JOULES: Units = MappingProxyType(_units(J=(1, 1), mJ=(1, 1000), uJ=(1, 1_000_000), kJ=(1000, 1)))
HERTZ: Units = MappingProxyType(
    _units(
        Hz=(1, 1), kHz=(1000, 1), KHz=(1000, 1), MHz=(10**6, 1), Mhz=(10**6, 1), MHZ=(10**6, 1), mhz=(10**6, 1),
        GHz=(10**9, 1), Ghz=(10**9, 1),
    )
)  # fmt: skip
# Accelerator tools print MB and GB, but mean MiB and GiB.
BYTES: Units = MappingProxyType(
    _units(
        B=(1, 1), KiB=(1 << 10, 1), KB=(1 << 10, 1), kB=(1 << 10, 1), MiB=(1 << 20, 1), MB=(1 << 20, 1),
        GiB=(1 << 30, 1), GB=(1 << 30, 1), TiB=(1 << 40, 1), TB=(1 << 40, 1),
    )
)  # fmt: skip
SECONDS: Units = MappingProxyType(_units(s=(1, 1), ms=(1, 1000), us=(1, 1_000_000), ns=(1, 1_000_000_000)))
COUNT: Units = {"": (1, 1)}

# Maps the speed of a PCIe link in GT/s to its generation.
PCIE_GENERATIONS: Mapping[str, float] = {"2.5": 1.0, "5": 2.0, "5.0": 2.0, "8": 3.0, "8.0": 3.0, "16": 4.0, "16.0": 4.0, "32": 5.0, "32.0": 5.0,
 "64": 6.0, "64.0": 6.0}  # fmt: skip

# Words that tools print instead of a number, in lower case without brackets.
_PLACEHOLDERS: Mapping[str, Absent] = {
    **dict.fromkeys(("", "-", "--", "n/a", "na", "none", "null", "unknown", "not available"), Absent.NOT_REPORTED),
    **dict.fromkeys(("not supported", "unsupported", "not applicable"), Absent.NOT_SUPPORTED),
    **dict.fromkeys(("no permission", "permission denied", "insufficient permissions"), Absent.NOT_PERMITTED),
}

_NUMBER = re.compile(r"([+-]?)([0-9]{1,24})(\.[0-9]{1,18})?\Z")
_QUANTITY = re.compile(r"([+-]?[0-9]{1,24}(?:\.[0-9]{1,18})?)[ \t]{0,4}([A-Za-z°℃%]{0,4})\Z")
_WRAPPED = re.compile(r"1[67](?:\.[0-9]{1,3})?[ \t]?E(?:i?B)\Z")
_MAX_PLACEHOLDER_LENGTH = 64


def placeholder(text: str) -> Absent | None:
    """Return the `Absent` value for a placeholder such as `N/A`, or None for any other text."""
    text = text.strip()
    if len(text) > _MAX_PLACEHOLDER_LENGTH:
        return None
    normalized = text.strip("[]<>()").strip().lower()
    return _PLACEHOLDERS.get(normalized)


def text_or_none(text: str | None) -> str | None:
    """Return the stripped text, or None if it is blank or a placeholder."""
    return None if text is None or placeholder(text) is not None else text.strip()


def number(text: str) -> Value:
    """Parse a decimal number, or return an `Absent` value for other texts and sentinels."""
    text = text.strip()
    match = _NUMBER.match(text)
    if match is None:
        return placeholder(text) or Absent.NOT_UNDERSTOOD
    if int(match[2]) in ALL_BITS and not (match[3] or "").strip(".0"):
        return Absent.IMPLAUSIBLE
    return float(text)


def quantity(text: str, units: Units, unit: str | None = None) -> Value:
    """Parse a number into base units. `unit` is the unit of a bare number."""
    text = text.strip()
    match = _QUANTITY.match(text)
    if match is None:
        return placeholder(text) or _placeholder_with_unit(text, units) or Absent.NOT_UNDERSTOOD
    if _WRAPPED.match(text) is not None:
        return Absent.IMPLAUSIBLE  # a 64-bit byte count that wrapped around is printed as "16.0 EB"
    factor = units.get(match[2]) if match[2] else units.get(unit if unit is not None else "")
    value = number(match[1])
    if factor is None:
        return Absent.NOT_UNDERSTOOD
    return value if isinstance(value, Absent) else value * factor[0] / factor[1]


def find_unit(unit: str, units: Units) -> str | None:
    """Return the key of `units` that equals `unit`, if necessary ignoring case, or None if there is none."""
    if unit in units:
        return unit
    return next((name for name in units if name.lower() == unit.lower()), None)


def _placeholder_with_unit(text: str, units: Units) -> Absent | None:
    """Return the `Absent` value for a placeholder with a unit, such as `N/A mV`, or None for other texts."""
    bare_texts = (text.removesuffix(unit).rstrip() for unit in (*units, "N/A") if unit and text.endswith(unit))
    # A unit alone or after a dash is a damaged value, not a placeholder.
    return next((absent for word in bare_texts if word[-1:].isalpha() and (absent := placeholder(word))), None)


def pcie_generation(speed: str) -> Value:
    """Return the PCIe generation of a speed in GT/s, such as 4 for `16.0`."""
    speed = speed.strip()
    return PCIE_GENERATIONS.get(speed) or placeholder(speed) or Absent.NOT_UNDERSTOOD


def integer(text: str) -> int | None:
    """Parse a non-negative integer, such as an index or a PID."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def zero_as_unsupported(value: Value) -> Value:
    """Return the value, or `Absent.NOT_SUPPORTED` for 0."""
    return Absent.NOT_SUPPORTED if value == 0.0 else value
