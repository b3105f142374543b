"""The numbers that `telemetry check --thresholds` takes, as a table for docs/check.md."""

from __future__ import annotations

from telemetry_daemon.commands.check import NUMBERS
from telemetry_exporters.judgement.thresholds import THRESHOLDS


def numbers_table() -> str:
    """A line for each number."""
    rows = (f"| `{name}` | {THRESHOLDS[name].value:,} | {THRESHOLDS[name].meaning} |" for name in NUMBERS)
    return "\n".join(("| number | usually | is |", "|---|---|---|", *rows)) + "\n"
