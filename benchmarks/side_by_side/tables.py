"""Results as Markdown tables, so that they can be pasted into docs/performance.md as they are."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print one table, columns in line for the eye."""
    texts = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headings))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in texts
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines), flush=True)


def number(value: float) -> str:
    """Three digits, as many as such measurements are good for."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(theirs: float, ours: float) -> str:
    """How many times ours theirs is."""
    return "–" if not ours else f"{number(theirs / ours)} ×"


def print_machine() -> None:
    """Print what this was measured on."""
    models = [
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    load = os.getloadavg()[0]
    print(
        f"Measured on {len(os.sched_getaffinity(0))} × {models[0] if models else platform.machine()}, "
        f"Linux {platform.release()}, Python {platform.python_version()}, load {load:.1f} before.",
        flush=True,
    )
