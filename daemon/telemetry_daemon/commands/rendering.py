"""Renders a command's snapshot in the requested format."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telemetry_daemon.terminal import streams
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Metric, Snapshot

if TYPE_CHECKING:
    from telemetry_exporters.terminal.style import Colour
    from telemetry_exporters.terminal.table import Detail


@dataclass(frozen=True, slots=True)
class Result:
    """The snapshot that a command prints, its origin, and the metrics that plugins define."""

    snapshot: Snapshot
    origin: str = ""
    plugin_metrics: tuple[Metric, ...] = ()
    document: Mapping[str, Any] | None = None
    command_lines_by_pid: Mapping[int, str] = field(default_factory=dict)

    def metrics_by_key(self) -> dict[str, Metric]:
        """Return the metrics of plugins by their keys."""
        return {metric.key: metric for metric in self.plugin_metrics}


def render_document(result: Result, output_format: str) -> str:
    """Return the snapshot as JSON, CSV or Prometheus text."""
    metrics = result.metrics_by_key()
    if output_format == "json":
        from telemetry_exporters.documents import snapshot_json

        return snapshot_json.render(result.snapshot, metrics)
    if output_format == "csv":
        from telemetry_exporters.documents import snapshot_csv

        return snapshot_csv.render(result.snapshot, metrics)
    from telemetry_exporters.prometheus import renderer

    return renderer.text_page(result.snapshot, metrics).decode()


def render_table(
    result: Result, detail: Detail, width: int = 0, ids: frozenset[str] | None = None, patterns: Sequence[str] = ()
) -> str:
    """Return the snapshot as a table. If `width` is 0, wrap lines at the terminal's width, and only on a terminal."""
    from telemetry_exporters.terminal import table as tables

    columns = width or (streams.terminal_width() if sys.stdout.isatty() else 0)
    selection = tables.Selection(ids, tuple(patterns), result.origin, result.command_lines_by_pid)
    return tables.table(result.snapshot, columns, colour_mode(), detail, result.metrics_by_key(), selection)


def colour_mode() -> Colour:
    """Return ANSI if standard output is a terminal with colours, else NEVER."""
    from telemetry_exporters.terminal.style import Colour

    is_enabled = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return Colour.ANSI if is_enabled else Colour.NEVER
