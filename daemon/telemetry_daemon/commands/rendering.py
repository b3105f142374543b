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
    """The snapshot that a command prints, and its origin."""

    snapshot: Snapshot
    origin: str = ""
    metrics: tuple[Metric, ...] = ()
    document: Mapping[str, Any] | None = None
    command_lines: Mapping[int, str] = field(default_factory=dict)


def render_document(result: Result, output_format: str) -> str:
    """Return the snapshot as JSON, CSV or Prometheus text."""
    plugin_metrics = {metric.key: metric for metric in result.metrics}
    if output_format == "json":
        from telemetry_exporters.documents import snapshot_json

        return snapshot_json.render(result.snapshot, plugin_metrics)
    if output_format == "csv":
        from telemetry_exporters.documents import snapshot_csv

        return snapshot_csv.render(result.snapshot, plugin_metrics)
    from telemetry_exporters.prometheus import renderer

    return renderer.text_page(result.snapshot, plugin_metrics).decode()


def render_table(
    result: Result, detail: Detail, width: int = 0, ids: frozenset[str] | None = None, patterns: Sequence[str] = ()
) -> str:
    """Return the snapshot as a table. By default, its width is the terminal's."""
    from telemetry_exporters.terminal import table as tables

    # Lines are wrapped only on a terminal.
    columns = width or (streams.terminal_width() if sys.stdout.isatty() else 0)
    plugin_metrics = {metric.key: metric for metric in result.metrics}
    selection = tables.Selection(ids, tuple(patterns), result.origin, result.command_lines)
    return tables.table(result.snapshot, columns, colour_mode(), detail, plugin_metrics, selection)


def colour_mode() -> Colour:
    """Return ANSI if standard output is a terminal with colours, else NEVER."""
    from telemetry_exporters.terminal.style import Colour

    is_enabled = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return Colour.ANSI if is_enabled else Colour.NEVER
