"""A file for node_exporter's textfile collector: text 0.0.4 without timestamps, which it would refuse.

The daemon's own metrics are in it: `node_textfile_mtime_seconds` only says that the file was written,
`telemetry_source_up` that its readings were taken. The metrics of the process are only on the daemon's own page.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_exporters.prometheus import text_page
from telemetry_exporters.screen import NO_METRICS
from telemetry_parsers.model import Metric, Snapshot


def render(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS) -> bytes:
    """The whole file. It must be written under another name and renamed, so that no half of it is ever read."""
    return text_page(snapshot, extra)
