"""Printed values become numbers in base units, or a defined absence; nothing is a guess."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers import units
from telemetry_parsers.model import Absent

NOT_REPORTED, NOT_SUPPORTED = Absent.NOT_REPORTED, Absent.NOT_SUPPORTED
NOT_UNDERSTOOD, IMPLAUSIBLE = Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE
ALL_UNITS = (
    units.RATIO, units.CELSIUS, units.WATTS, units.JOULES, units.HERTZ, units.BYTES, units.SECONDS, units.COUNT,
)  # fmt: skip


def test_number() -> None:
    """A plain decimal number, or what stands in its place."""
    for text, value in [
            ("0", 0.0), ("57", 57.0), ("57.0", 57.0), (" 57 ", 57.0), ("-5", -5.0), ("+5", 5.0), ("007", 7.0),
            ("18446744073709551614000", 1.8446744073709552e22),
            # Exponents, hexadecimal and separators are not numbers: each has been read as another one by somebody.
            ("1e3", NOT_UNDERSTOOD), ("1E3", NOT_UNDERSTOOD), ("0x10", NOT_UNDERSTOOD), ("-0x7fe3", NOT_UNDERSTOOD),
            ("1,234", NOT_UNDERSTOOD), ("1.234.567", NOT_UNDERSTOOD), ("1 234", NOT_UNDERSTOOD), ("1_000", NOT_UNDERSTOOD),
            ("1'234", NOT_UNDERSTOOD), ("12abc34", NOT_UNDERSTOOD), ("5.", NOT_UNDERSTOOD), (".5", NOT_UNDERSTOOD),
            ("--5", NOT_UNDERSTOOD), ("nan", NOT_UNDERSTOOD), ("inf", NOT_UNDERSTOOD), ("-inf", NOT_UNDERSTOOD),
            ("٣", NOT_UNDERSTOOD), ("５７", NOT_UNDERSTOOD), ("1" * 400, NOT_UNDERSTOOD), ("ERR!", NOT_UNDERSTOOD),
            # All bits set, and the values that drivers fill in where they know nothing.
            ("4294967295", IMPLAUSIBLE), ("18446744073709551615", IMPLAUSIBLE), ("9223372036854775807", IMPLAUSIBLE),
            ("9223372036854775794", IMPLAUSIBLE), ("2147483647", IMPLAUSIBLE), ("2147483632", IMPLAUSIBLE),
            ("-4294967295", IMPLAUSIBLE), ("4294967294", 4294967294.0),
            # Placeholders, with and without brackets.
            ("", NOT_REPORTED), ("   ", NOT_REPORTED), ("-", NOT_REPORTED), ("N/A", NOT_REPORTED), ("n/a", NOT_REPORTED),
            ("[N/A]", NOT_REPORTED), ("None", NOT_REPORTED), ("null", NOT_REPORTED), ("Unknown", NOT_REPORTED),
            ("[Not Supported]", NOT_SUPPORTED), ("Not Supported", NOT_SUPPORTED), ("[Not Applicable]", NOT_SUPPORTED),
            ("Permission denied", Absent.NOT_PERMITTED), ("[Insufficient Permissions]", Absent.NOT_PERMITTED),
        ]:  # fmt: skip
        assert units.number(text) == value


def test_quantity() -> None:
    """A number with a unit of its kind, in base units; a bare number only where something else told the unit."""
    for text, kind, bare, value in [
            ("57%", units.RATIO, None, 0.57), ("57 %", units.RATIO, None, 0.57), ("0%", units.RATIO, None, 0.0),
            ("12.5%", units.RATIO, "%", 0.125), ("57", units.RATIO, "%", 0.57), ("57", units.RATIO, None, NOT_UNDERSTOOD),
            ("61C", units.CELSIUS, None, 61.0), ("50.0c", units.CELSIUS, None, 50.0), ("-3°C", units.CELSIUS, None, -3.0),
            ("45000 mC", units.CELSIUS, None, 45.0), ("61F", units.CELSIUS, None, NOT_UNDERSTOOD),
            ("57.0 W", units.WATTS, None, 57.0), ("153.59W", units.WATTS, None, 153.59), ("57000mW", units.WATTS, None, 57.0),
            ("57.0", units.WATTS, "W", 57.0), ("57.0", units.WATTS, None, NOT_UNDERSTOOD), ("57 V", units.WATTS, None, NOT_UNDERSTOOD),
            ("1600MHz", units.HERTZ, None, 1.6e9), ("1600Mhz", units.HERTZ, None, 1.6e9), ("1.6 GHz", units.HERTZ, None, 1.6e9),
            ("16384MiB", units.BYTES, None, 16384.0 * 2**20), ("16384MB", units.BYTES, None, 16384.0 * 2**20),
            ("80 GB", units.BYTES, None, 80.0 * 2**30), ("0MiB", units.BYTES, None, 0.0), ("1024", units.BYTES, "B", 1024.0),
            ("16.0 EB", units.BYTES, None, IMPLAUSIBLE), ("17 EiB", units.BYTES, None, IMPLAUSIBLE),
            ("1.5 EB", units.BYTES, None, NOT_UNDERSTOOD), ("4294967295MiB", units.BYTES, None, IMPLAUSIBLE),
            ("3 ms", units.SECONDS, None, 0.003),
            ("7", units.COUNT, None, 7.0), ("7 errors", units.COUNT, None, NOT_UNDERSTOOD),
            ("N/A", units.WATTS, "W", NOT_REPORTED), ("[Not Supported]", units.WATTS, "W", NOT_SUPPORTED),
            ("1e3W", units.WATTS, None, NOT_UNDERSTOOD), ("1,5 W", units.WATTS, None, NOT_UNDERSTOOD),
            ("57.0 W / 700 W", units.WATTS, None, NOT_UNDERSTOOD), ("57.0 W extra", units.WATTS, None, NOT_UNDERSTOOD),
            ("mW", units.WATTS, None, NOT_UNDERSTOOD), ("57 ww", units.WATTS, None, NOT_UNDERSTOOD),
            # amd-smi 24.6, rocm-smi 5.4 with an APU, amd-smi of a hypervisor.
            ("N/A mV", units.VOLTS, "mV", NOT_REPORTED), ("None%", units.RATIO, "%", NOT_REPORTED),
            ("N/A N/A", units.CELSIUS, None, NOT_REPORTED), ("N/A °C", units.CELSIUS, None, NOT_REPORTED),
            ("- W", units.WATTS, None, NOT_UNDERSTOOD), ("%", units.RATIO, None, NOT_UNDERSTOOD), (" W", units.WATTS, "W", NOT_UNDERSTOOD),
            ("N/A W", units.VOLTS, None, NOT_UNDERSTOOD), ("5 N/A", units.WATTS, "W", NOT_UNDERSTOOD),
        ]:  # fmt: skip
        assert units.quantity(text, kind, bare) == value


def test_blanks_and_placeholders_are_no_text() -> None:
    for text, value in [(None, None), (" S60 ", "S60"), ("", None), (" " * 400, None), (" " * 400 + "N/A", None)]:
        assert units.text_or_none(text) == value


def test_whole() -> None:
    """An index or a pid, nothing else."""
    for text, value in [("0", 0), ("12", 12), (" 7 ", 7), ("-1", None), ("1.0", None), ("", None), ("0x1", None), ("³", None), ("9" * 30, None)]:  # fmt: skip
        assert units.whole(text) == value


@given(st.text(max_size=80), st.sampled_from(ALL_UNITS), st.sampled_from((None, "%", "W", "MiB", "")))
def test_no_text_makes_it_raise_or_give_a_number_that_is_not_there(text, kind, bare):
    """Whatever the text: a finite number whose digits are in it, or an absence."""
    value = units.quantity(text, kind, bare)
    if not isinstance(value, Absent):
        assert math.isfinite(value)
        assert any(character in "0123456789" for character in text)


@given(st.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_read_as_it_was_meant(number):
    """Decimal digits with a unit come back as that number."""
    assert units.quantity(f"{number} W", units.WATTS) == float(number)


def test_a_pcie_generation_from_its_speed() -> None:
    for speed, generation in [
        ("2.5", 1.0),
        ("5.0", 2.0),
        ("16", 4.0),
        (" 32.0 ", 5.0),
        ("64.0", 6.0),
        ("N/A", Absent.NOT_REPORTED),
        ("12", Absent.NOT_UNDERSTOOD),
        ("16.0 GT/s", Absent.NOT_UNDERSTOOD),
    ]:
        assert units.pcie_generation(speed) == generation
