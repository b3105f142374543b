"""How the texts of rocm-smi and hy-smi are read: by the unit that stood in the key, or the one that is printed."""

from __future__ import annotations

import re
from collections.abc import Callable

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Value

# What a reader of a text gets besides it: the unit that stood in the key, empty when there was none.
Read = Callable[[str, str], Value]


def ratio(text: str, unit: str) -> Value:
    """A share in percent."""
    percent = "%" if unit in ("%", "VRAM%") else unit
    return units.quantity(text, units.RATIO, percent)


def celsius(text: str, unit: str) -> Value:
    """A temperature."""
    return units.quantity(text, units.CELSIUS, unit)


def watts(text: str, unit: str) -> Value:
    """A power; none of a second die."""
    # "N/A (Secondary die)": the other die of the package tells the power of both.
    if text.lower().startswith("n/a ("):
        return Absent.NOT_REPORTED
    return units.quantity(text, units.WATTS, unit)


def cap(text: str, unit: str) -> Value:
    """A limit of 0 W is how the second die of a package prints that it has none."""
    return units.zero_is_none(watts(text, unit))


def size(text: str, unit: str) -> Value:
    """A size in the unit of its key."""
    return units.quantity(text, units.BYTES, unit)


def joules(text: str, unit: str) -> Value:
    """An energy of 0 is how a card without a counter prints that it has none, as the second die of a package."""
    if unit.startswith("15.259uJ"):
        value = units.number(text)
        value = value if isinstance(value, Absent) else value / 65_536
    else:
        value = units.quantity(text, units.JOULES, unit)
    return units.zero_is_none(value)


def count(text: str, unit: str) -> Value:
    """A bare number."""
    return units.number(text) if unit in ("", "Count") else Absent.NOT_UNDERSTOOD


def any_bit(text: str, unit: str) -> Value:
    """Whether a status of bits is other than 0."""
    value = count(text, unit)
    return value if isinstance(value, Absent) else float(value != 0.0)


def enabled(text: str, _unit: str) -> Value:
    """1 for ENABLED or ON, 0 for DISABLED or OFF."""
    known = {"enabled": 1.0, "on": 1.0, "disabled": 0.0, "off": 0.0}.get(text.strip().lower())
    return known if known is not None else units.placeholder(text) or Absent.NOT_UNDERSTOOD


_FAN_LEVEL = re.compile(r"[0-9]{1,5} \(([0-9]{1,3}(?:\.[0-9]{1,3})?)(?:%\)|\)%)\Z")


def fan(text: str, unit: str) -> Value:
    """`33%`, or in the sections `84 (33%)` behind the level."""
    match = _FAN_LEVEL.match(text.strip())
    return ratio(match[1], "%") if match else ratio(text, unit)


def lanes(text: str, unit: str) -> Value:
    """The lanes of a link."""
    return units.quantity(text, units.LANES) if unit in ("", "Lanes", "lanes") else Absent.NOT_UNDERSTOOD


# A level, which is `S` while the clock sleeps, may stand before.
_CLOCK = re.compile(r"(?:(?:[0-9]{1,3}|S):? )?\(?([0-9]{1,6}(?:\.[0-9]{1,3})? ?[MGk]?[Hh]z)\)?\Z")
_LINK = re.compile(r"(?:[0-9]{1,3}:? )?\(?([0-9]{1,3}(?:\.[0-9])?) ?GT/s,? x([0-9]{1,2})(?: [0-9]{1,5}Mhz)?\)?\Z")
LIST = re.compile(r"\[([^\[\]]{0,400})\]\Z")


def hertz(text: str, unit: str) -> Value:
    """`(1725Mhz)`, `8 (1725Mhz)`, `1350Mhz`, or a bare number where the key has the unit."""
    match = None if unit else _CLOCK.match(text)
    if not unit and match is None:
        return units.placeholder(text.removesuffix(" (None)")) or Absent.NOT_UNDERSTOOD
    value = units.quantity(match[1], units.HERTZ) if match else units.quantity(text, units.HERTZ, unit)
    # In a list of many, one with all bits set must not be the highest.
    return in_range(BY_KEY["clock_hertz"], value)


def highest(read: Read) -> Read:
    """Of a list such as `[132, 133, N/A]` the highest, as of all that has one word for many."""

    def read_list(text: str, unit: str) -> Value:
        match = LIST.match(text.strip())
        if match is None:
            return read(text, unit)
        parts = [part.strip(" '\"") for part in match[1].split(",")]
        if not all(parts) and len(parts) > 1:
            return Absent.NOT_UNDERSTOOD
        values = [read(part, unit) for part in parts]
        numbers = [value for value in values if not isinstance(value, Absent)]
        return max(numbers) if numbers else next(iter(values), Absent.NOT_REPORTED)

    return read_list


def generation(text: str, _unit: str) -> Value:
    """The generation of a link such as `1 (16.0GT/s x16)`."""
    match = _LINK.match(text)
    return units.pcie_generation(match[1]) if match else units.placeholder(text) or Absent.NOT_UNDERSTOOD


def width(text: str, _unit: str) -> Value:
    """The lanes of such a link."""
    match = _LINK.match(text)
    return units.number(match[2]) if match else units.placeholder(text) or Absent.NOT_UNDERSTOOD


def speed_in_tenths(text: str, unit: str) -> Value:
    """160 tenths of a GT/s are generation 4."""
    if unit != "0.1 GT/s":
        return Absent.NOT_UNDERSTOOD
    value = units.number(text)
    return value if isinstance(value, Absent) else units.pcie_generation(f"{value / 10:g}")


def volts(text: str, unit: str) -> Value:
    """A voltage."""
    return units.quantity(text, units.VOLTS, unit)


def rpm(text: str, unit: str) -> Value:
    """The speed of a fan; some versions print the unit in the key, some none."""
    return units.quantity(text, units.RPM, unit)


def bandwidth(text: str, unit: str) -> Value:
    """A rate in the driver's own table, which counts in GB/s."""
    value = units.number(text) if unit == "GB/s" else Absent.NOT_UNDERSTOOD
    return value if isinstance(value, Absent) else value * 1e9
