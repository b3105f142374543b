"""The `roofline.csv` of rocprofiler-compute: what a benchmark measured on each card of a node."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from telemetry_parsers.card_peaks import Peak, Rate

# The means, by heading in small letters; versions differ in capitals. Columns `…Low` and `…High` stand beside them.
_MEMORY = "hbmbw"
_RATES: Mapping[str, str] = MappingProxyType(
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
    """The file has no measurement of this kind; the text says what was looked for."""


def measured_peak(lines: Iterable[str]) -> Peak:
    """The best that any of the cards reached, by data type; what was not measured (0) is left out."""
    best: dict[str, float] = {}
    for heading, value in _values(lines):
        best[heading] = max(value, best.get(heading, value))
    if not best:
        raise NoRooflineError(f"no roofline.csv: it has no number above 0 under {_MEMORY.upper()} or MFMA…FLOPS")
    rates = tuple(
        Rate(dtype, float(round(best[heading] * _GIGA)), None) for heading, dtype in _RATES.items() if heading in best
    )
    return Peak(rates, float(round(best[_MEMORY] * _GIGA)) if _MEMORY in best else None, "measured")


def _values(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Each measured number with its heading; a row that is cut off gives nothing."""
    rows = csv.reader(lines)
    try:
        headings = [heading.strip().lower() for heading in next(rows, [])]
        for row in rows:
            if len(row) != len(headings):
                continue
            yield from (
                (heading, value)
                for heading, cell in zip(headings, row, strict=True)
                if (heading == _MEMORY or heading in _RATES) and (value := _number(cell)) is not None
            )
    except csv.Error as error:
        raise NoRooflineError(f"no roofline.csv: {error}") from error


def _number(cell: str) -> float | None:
    """A finite number above 0, None for anything else."""
    try:
        value = float(cell)
    except ValueError:  # a word where a number should be is not measured
        return None
    return value if 0 < value < math.inf else None
