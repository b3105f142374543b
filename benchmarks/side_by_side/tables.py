"""Results as Markdown tables, which can be pasted into docs/performance.md unchanged."""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    texts = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headings))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in texts
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(table(headings, rows), flush=True)


def machine() -> str:
    """Return a description of the machine: processor, kernel, Python and how it was built."""
    models = [
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    build_options = (("--enable-optimizations", "PGO"), ("--with-lto", "LTO"))
    build = ", ".join(f"{'with' if flag in arguments else 'without'} {words}" for flag, words in build_options)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return (
        f"{cores} × {models[0] if models else platform.machine()}, Linux {platform.release()}, load average {load:.1f} before the run. "
        f"All Python programs use Python {platform.python_version()} ({build}, {platform.python_compiler()})."
    )


def number(value: float) -> str:
    """Return the number with three digits, which is the precision of such measurements."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def print_machine() -> None:
    print(f"Measured on {machine()}", flush=True)
