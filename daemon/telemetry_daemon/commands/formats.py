"""Renders a snapshot in the format that was asked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

from telemetry_exporters import csv, json, prometheus
from telemetry_exporters.style import Colour
from telemetry_exporters.table import Detail, table
from telemetry_parsers.model import Metric, Snapshot

# Where the output is no terminal, lines are as long as they need to be.
_UNLIMITED = 0


def render(snapshot: Snapshot, form: str, metrics: Iterable[Metric], detail: Detail = Detail.BRIEF) -> str:
    """The whole document as text; `metrics` are those that plugins declare."""
    extra = {metric.key: metric for metric in metrics}
    if form == "json":
        return json.render(snapshot, extra)
    if form == "csv":
        return csv.render(snapshot, extra)
    if form == "prometheus":
        return prometheus.text_page(snapshot, extra).decode()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
    return table(snapshot, width, _colour(), detail, extra)


def understands_escapes() -> bool:
    """Whether standard output is a terminal that moves its cursor when told to."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _colour() -> Colour:
    """Colours where they are understood and nobody asked for none (https://no-color.org)."""
    return Colour.ANSI if understands_escapes() and not os.environ.get("NO_COLOR") else Colour.NEVER
