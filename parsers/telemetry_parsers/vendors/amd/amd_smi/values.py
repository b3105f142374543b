"""How amd-smi's texts are read: each with the unit that is printed, or the one that the other forms print."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Value


# A number without unit, as CSV and the JSON of 6.0 print it, is in the unit that the other forms print.
def ratio(text: str) -> Value:
    """A share in percent."""
    return units.quantity(text, units.RATIO, "%")


def celsius(text: str) -> Value:
    """A temperature."""
    return units.quantity(text, units.CELSIUS, "C")


def watts(text: str) -> Value:
    """A power."""
    return units.quantity(text, units.WATTS, "W")


def cap(text: str) -> Value:
    """A limit of 0 W is how a card or a guest without one is printed: none can be set."""
    return units.zero_is_none(watts(text))


def joules(text: str) -> Value:
    """An energy."""
    return units.quantity(text, units.JOULES, "J")


def hertz(text: str) -> Value:
    """A clock."""
    return units.quantity(text, units.HERTZ, "MHz")


def highest_hertz(text: str) -> Value:
    """A clock that ends at 0 MHz is one whose range the driver does not tell; a level of 0 MHz is not the highest."""
    return units.zero_is_none(hertz(text))


def mebibytes(text: str) -> Value:
    """A size in MB."""
    return units.quantity(text, units.BYTES, "MB")


def size(text: str) -> Value:
    """A size with its unit; monitor's CSV prints some in MB and some in GB, without saying so."""
    return units.quantity(text, units.BYTES)


def pcie_speed(text: str) -> Value:
    """The generation of a link at `32 GT/s`."""
    if not text.endswith("GT/s"):
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return units.pcie_generation(text.removesuffix("GT/s"))


def count(text: str) -> Value:
    """A bare number."""
    return units.number(text)


def volts(text: str) -> Value:
    """A voltage."""
    return units.quantity(text, units.VOLTS, "mV")


def rpm(text: str) -> Value:
    """The speed of a fan."""
    return units.quantity(text, units.RPM)


def megabits(text: str) -> Value:
    """A rate such as `18 Mb/s` in bytes; one of another unit is not understood."""
    value = units.number(text.removesuffix("Mb/s"))
    return value * 125_000 if text.endswith("Mb/s") and not isinstance(value, Absent) else _placeholder(text)


def _placeholder(text: str) -> Absent:
    return units.placeholder(text.removesuffix("Mb/s")) or Absent.NOT_UNDERSTOOD


def above_zero(text: str) -> Value:
    """A share of time in which the clocks were held down: the header calls more than 0 % a violation."""
    value = ratio(text)
    return value if isinstance(value, Absent) else float(value > 0.0)
