"""A snapshot in the form that was asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

from telemetry_exporters import csv, json, prometheus
from telemetry_exporters.style import Colour
from telemetry_exporters.table import Detail, table
from telemetry_parsers.model import Metric, Snapshot

FORMS = ("table", "json", "csv", "prometheus")
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
    if not sys.stdout.isatty():
        return table(snapshot, _UNLIMITED, Colour.NEVER, detail, extra)
    return table(snapshot, shutil.get_terminal_size().columns, Colour.ANSI, detail, extra)
