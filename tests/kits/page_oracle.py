"""The same pages as prometheus_client writes them: what our own rendering is compared with."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest as client_text
from prometheus_client.openmetrics.exposition import generate_latest as client_openmetrics

from telemetry_exporters.families import families


class SnapshotCollector:
    """Gives a snapshot's families to a registry."""

    def __init__(self, snapshot, extra=None):
        self._snapshot = snapshot
        self._extra = extra or {}

    def collect(self):
        for family in families(self._snapshot, self._extra):
            yield _client_family(family)


def _client_family(family):
    metric = family.metric
    if metric.kind == "info":
        found = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for series in family.series:
            found.add_metric((), dict(family.labels(series)))
        return found
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    label_names = [name for name, _ in family.labels(family.series[0])]
    found = kind(metric.name, metric.help, labels=label_names, unit=metric.unit)
    for series in family.series:
        found.add_metric([value for _, value in family.labels(series)], series[2])
    return found


def _registry(snapshot, extra):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot, extra))
    return registry


def text(snapshot, extra=None):
    """The page in text 0.0.4 by prometheus_client."""
    return client_text(_registry(snapshot, extra))


def openmetrics(snapshot, extra=None):
    """The page in OpenMetrics 1.0 by prometheus_client, its end included."""
    return client_openmetrics(_registry(snapshot, extra))
