"""Sentinels: numbers that drivers and tools print instead of an unknown value."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass

# Numbers with all bits set, and "blank" values of drivers. Tools may print them with any unit.
ALL_BITS = frozenset(
    {
        2**32 - 1,
        2**63 - 1,
        2**64 - 1,
        2**64 - 2,
        *(0x7FFFFFF0 + n for n in range(16)),
        *(2**63 - 16 + n for n in range(16)),
    }
)
# Greater than any real count, but less than the floats of 2^63-1 and 2^64-1.
MAX_COUNT = 9e18

_LARGEST_INTS = (2.0**31 - 1, 2.0**32 - 1)
# Maps a metric's unit to sentinels in base units, rounded as tools print them.
BY_UNIT: Mapping[str, frozenset[float]] = {
    "": frozenset(_LARGEST_INTS),
    "bytes": frozenset(_LARGEST_INTS),
    "seconds": frozenset(_LARGEST_INTS),
    "joules": frozenset(_LARGEST_INTS),
    # 0xFFFF divided by 1000.
    "celsius": frozenset({65.535}),
    "volts": frozenset({65.535}),
    # 0xFFFF divided by 1000, and 2^31-1 and 2^32-1 divided by 10^6.
    "watts": frozenset(
        {65.535, 2147.483647, 2147.484, 2147.483, 2147.48, 2147.0, 4294.967295, 4294.967, 4294.97, 4294.96, 4294.0}
    ),
}
# Maps a metric to sentinels that would otherwise be valid numbers.
BY_METRIC: Mapping[str, frozenset[float]] = {
    name: frozenset({65_535.0}) for name in ("compute_units", "processes", "retired_pages", "remapped_rows")
}


@dataclass(frozen=True, slots=True)
class VendorLimits:
    """The lowest plausible value of a vendor's metric, and its additional sentinels."""

    low: float
    sentinels: frozenset[float] = frozenset()


# Maps (vendor, metric) to limits. Ascend chips are used outdoors, where temperatures can be negative.
LIMITS_BY_VENDOR: Mapping[tuple[str, str], VendorLimits] = {
    ("ascend", "temperature_celsius"): VendorLimits(-40.0, frozenset({-1.0}))
}
