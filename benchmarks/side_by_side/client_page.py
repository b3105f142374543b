"""Serve the series of a page as Gauges of prometheus_client, set again every second: the obvious alternative to our renderer.

    python -m side_by_side.client_page PORT PAGE

The server reads no device. Its numbers are those of the page with small changes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from prometheus_client.parser import text_string_to_metric_families

_INTERVAL_SECONDS = 1.0


def register_gauges(page: str, registry: CollectorRegistry) -> list[tuple[Gauge, float]]:
    """Register a gauge for each series of the page, even for counters. Return each gauge with its number."""
    return [
        (child, number)
        for family in text_string_to_metric_families(page)
        for child, number in _children(family.name, family.documentation, family.samples, registry)
    ]


def _children(name, help_text, samples, registry) -> Iterator[tuple[Gauge, float]]:
    gauge = Gauge(name, help_text, sorted(samples[0].labels), registry=registry)
    for sample in samples:
        yield (gauge.labels(**sample.labels) if sample.labels else gauge), sample.value


def main(port: str, page: str) -> None:
    registry = CollectorRegistry()
    children = register_gauges(Path(page).read_text(), registry)
    sets = Counter("sets", "How often all gauges were set.", registry=registry)
    start_http_server(int(port), "127.0.0.1", registry)
    while True:
        sets.inc()
        for child, number in children:
            child.set(number + time.monotonic() % 1)
        time.sleep(_INTERVAL_SECONDS)  # the other programs also set their numbers once a second


if __name__ == "__main__":
    main(*sys.argv[1:])
