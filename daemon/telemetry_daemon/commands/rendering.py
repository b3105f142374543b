"""Renders a command's snapshot in the requested format. The modules of a format are imported on demand."""

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
class Answer:
    """A snapshot with its origin, the metrics of plugins, the daemon's own `document`, and the command lines of processes by PID."""

    snapshot: Snapshot
    origin: str = ""
    metrics: tuple[Metric, ...] = ()
    document: Mapping[str, Any] | None = None
    command_lines: Mapping[int, str] = field(default_factory=dict)


def document(answer: Answer, form: str) -> str:
    """Return the whole snapshot in a format for programs."""
    extra = {metric.key: metric for metric in answer.metrics}
    if form == "json":
        from telemetry_exporters.documents import snapshot_json

        return snapshot_json.render(answer.snapshot, extra)
    if form == "csv":
        from telemetry_exporters.documents import snapshot_csv

        return snapshot_csv.render(answer.snapshot, extra)
    from telemetry_exporters.prometheus import renderer

    return renderer.text_page(answer.snapshot, extra).decode()


def table(
    answer: Answer, detail: Detail, width: int = 0, ids: frozenset[str] | None = None, patterns: Sequence[str] = ()
) -> str:
    """Return a table with this detail, of these devices and metrics, of this width (0: that of the terminal)."""
    from telemetry_exporters.terminal import table as tables

    # If the output is no terminal, lines are not wrapped.
    columns = width or (streams.columns() if sys.stdout.isatty() else 0)
    extra = {metric.key: metric for metric in answer.metrics}
    chosen = tables.Chosen(ids, tuple(patterns), answer.origin, answer.command_lines)
    return tables.table(answer.snapshot, columns, colour(), detail, extra, chosen)


def colour() -> Colour:
    """Return whether colours are supported and not switched off (https://no-color.org)."""
    from telemetry_exporters.terminal.style import Colour

    is_wanted = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return Colour.ANSI if is_wanted else Colour.NEVER
