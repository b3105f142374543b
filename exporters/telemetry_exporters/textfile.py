"""A file for node_exporter's textfile collector: text 0.0.4 without timestamps, which it would refuse.

The daemon's own metrics stay in it: `node_textfile_mtime_seconds` only says that a file was written,
`telemetry_source_up` that what is in it was read. Metrics of the process are left to the scrape of the daemon itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_exporters.prometheus import text_page
from telemetry_exporters.screen import NO_METRICS
from telemetry_parsers.model import Metric, Snapshot


def render(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS) -> bytes:
    """The whole file; it is to be written beside its place and renamed, so that no half of it is ever read."""
    return text_page(snapshot, extra)
