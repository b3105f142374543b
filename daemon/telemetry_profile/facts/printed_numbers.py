"""Converts printed numbers without floating-point errors."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

NS, US, MS, S = 1, 1_000, 1_000_000, 1_000_000_000
_MAX_NS = 10**19  # as Unix time, this is in the year 2286; later times are invalid
_MAX_DIGITS = 20
_WHOLE_NUMBER = re.compile(r"\s*-?\d{1,19}\s*$", re.ASCII)


def nanoseconds(printed: str, unit: int) -> int | None:
    """Convert a printed time to nanoseconds. Return None if the text is not a number, or the number is too large."""
    if _WHOLE_NUMBER.match(printed):
        return _none_if_too_large(int(printed) * unit)
    try:
        value = Decimal(printed.strip())
    except InvalidOperation:  # a word instead of a time
        return None
    # Decimal raises an error for any operation on a number such as 1e400000000000.
    is_possible = value.is_finite() and value.adjusted() < _MAX_DIGITS
    return _none_if_too_large(int((value * unit).to_integral_value())) if is_possible else None


def cell_ns(cell: str, unit: int) -> int | None:
    """Convert the time in a table cell to nanoseconds. Return None for negative times and words such as N/A."""
    length = nanoseconds(cell, unit) if cell[-1:].isdigit() else None
    return length if length is not None and length >= 0 else None


def parse_count(cell: str) -> int | None:
    """Parse a whole number of up to 18 digits. Return None for other text."""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) <= 18 else None


def parse_index(cell: str) -> int | None:
    """Parse the number of a rank or device, which has up to 6 digits. Return None for other text."""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 7 else None


def _none_if_too_large(value: int) -> int | None:
    return value if abs(value) < _MAX_NS else None
