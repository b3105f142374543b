"""The tables of models and of their sources in docs/peaks.md."""

from __future__ import annotations

from telemetry_parsers.peaks.sources import SOURCES
from telemetry_parsers.peaks.table import ROWS, Row

_SIXTEEN_BITS = ("bf16", "fp16")


def peaks_table() -> str:
    """A line for each model, and what its sources are."""
    numbers = {source: number for number, source in enumerate(SOURCES, 1)}
    head = "| model | 16 bits, TFLOP/s | others, TFLOP/s | units × clock | memory, GB/s | sources |\n| --- | --- | --- | --- | --- | --- |"
    rows = "\n".join(_line(row, numbers) for row in ROWS)
    sources = "\n".join(f"{number}. {_linked(SOURCES[source])}" for source, number in numbers.items())
    return f"{head}\n{rows}\n\n{sources}\n"


def _line(row: Row, numbers: dict[str, int]) -> str:
    names = ", ".join(f"`{name}`" for name in row.names) + "".join(f", PCI `{one}`" for one in row.pci_ids)
    main = ", ".join(f"{dtype} {quote.teraflops:g}" for dtype, quote in row.quoted if dtype in _SIXTEEN_BITS)
    others = ", ".join(f"{dtype} {quote.teraflops:g}" for dtype, quote in row.quoted if dtype not in _SIXTEEN_BITS)
    clocks = " and ".join(dict.fromkeys(f"{quote.megahertz}" for _, quote in row.quoted))
    memory = "" if row.memory_gigabytes_per_second is None else f"{row.memory_gigabytes_per_second:g}"
    sources = ", ".join(str(numbers[source]) for source in row.sources)
    return f"| {names} | {main} | {others} | {row.units} × {clocks} MHz | {memory} | {sources} |"


def _linked(source: str) -> str:
    address, _, place = source.partition(" ")
    return f"<{address}>{f' {place}' if place else ''}"
