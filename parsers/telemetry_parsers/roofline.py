"""Parses `roofline.csv` of rocprofiler-compute, which has benchmark results for each card of a node."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from telemetry_parsers.card_peaks import PeakRates, Rate

# The headings of mean values, in lower case. Their case differs between versions. `_DTYPES` maps headings to types.
_MEMORY = "hbmbw"
_DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "fp64flops": "fp64",
        "fp32flops": "fp32",
        "mfmabf16flops": "bf16",
        "mfmaf16flops": "fp16",
        "mfmaf8flops": "fp8",
        "mfmaf6flops": "fp6",
        "mfmaf4flops": "fp4",
        "mfmai8ops": "int8",
    }
)
_GIGA = 1e9


class NoRooflineError(ValueError):
    """The file is not a valid roofline.csv, or has no measurement."""


def measured_peak(lines: Iterable[str]) -> PeakRates:
    """Return the highest result of all cards for each data type. Raise NoRooflineError if there is none."""
    best: dict[str, float] = {}
    for heading, value in _measurements(lines):
        best[heading] = max(value, best.get(heading, value))
    if not best:
        raise NoRooflineError(f"this is not a roofline.csv: no positive number in {_MEMORY.upper()} or MFMA…FLOPS")
    rates = tuple(
        Rate(dtype, float(round(best[heading] * _GIGA)), None) for heading, dtype in _DTYPES.items() if heading in best
    )
    return PeakRates(rates, float(round(best[_MEMORY] * _GIGA)) if _MEMORY in best else None, "measured")


def _measurements(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    rows = csv.reader(lines)
    try:
        headings = [heading.strip().lower() for heading in next(rows, [])]
        for row in rows:
            if len(row) != len(headings):
                continue
            yield from (
                (heading, value)
                for heading, cell in zip(headings, row, strict=True)
                if (heading == _MEMORY or heading in _DTYPES) and (value := _positive_number(cell)) is not None
            )
    except csv.Error as error:
        raise NoRooflineError(f"this is not a roofline.csv: {error}") from error


def _positive_number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:  # the cell is blank or a word, because the value was not measured
        return None
    return value if 0 < value < math.inf else None
