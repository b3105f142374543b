"""Sentinels: numbers that drivers and tools print for an unknown value, by unit, by metric and by vendor."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass

# All bits set, or a driver's own "blank", compared with the printed number whatever its unit.
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
# No counter reaches this value; 2^63-1 and 2^64-1 are above, also when rounded to a float.
MOST = 9e18

_WORDS = (2.0**31 - 1, 2.0**32 - 1)
# By the unit of a metric, in base units: sentinels after a division, with the digits that tools print.
OF_UNIT: Mapping[str, frozenset[float]] = {
    "": frozenset(_WORDS),
    "bytes": frozenset(_WORDS),
    "seconds": frozenset(_WORDS),
    "joules": frozenset(_WORDS),
    # 0xFFFF in thousandths.
    "celsius": frozenset({65.535}),
    "volts": frozenset({65.535}),
    # … and words of 31 and 32 bits in millionths.
    "watts": frozenset(
        {65.535, 2147.483647, 2147.484, 2147.483, 2147.48, 2147.0, 4294.967295, 4294.967, 4294.97, 4294.96, 4294.0}
    ),
}
# By metric, for sentinels within its range.
OF_METRIC: Mapping[str, frozenset[float]] = {
    name: frozenset({65_535.0}) for name in ("compute_units", "processes", "retired_pages", "remapped_rows")
}


@dataclass(frozen=True, slots=True)
class Special:
    """A metric's lowest plausible value and further sentinels at one vendor."""

    low: float
    blanks: frozenset[float] = frozenset()


# By vendor and metric. No chip in a rack is below freezing point, but Ascend's are also used in boxes at roadsides.
OF_VENDOR: Mapping[tuple[str, str], Special] = {("ascend", "temperature_celsius"): Special(-40.0, frozenset({-1.0}))}
