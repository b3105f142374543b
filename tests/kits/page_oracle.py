"""Pages written by prometheus_client, for comparison with the project's renderer."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest as client_text
from prometheus_client.openmetrics.exposition import generate_latest as client_openmetrics

from telemetry_exporters.prometheus.daemon_samples import DaemonSamples
from telemetry_exporters.prometheus.families import columns_of, families
from telemetry_exporters.snapshot_filter import clean_snapshot


def shown_families(snapshot, extra=None):
    """Return each metric of a snapshot with the labels and values of its series."""
    shown = clean_snapshot(snapshot, extra or {})
    columns = columns_of(shown, DaemonSamples())
    for family in families(shown, columns, extra or {}):
        yield family.metric, [(family.labels(series), columns.values[series[2]] + 0.0) for series in family.series]


class SnapshotCollector:
    def __init__(self, snapshot, extra=None):
        self._snapshot = snapshot
        self._extra = extra or {}

    def collect(self):
        for metric, series in shown_families(self._snapshot, self._extra):
            yield _client_family(metric, series)


def _client_family(metric, series):
    if metric.kind == "info":
        found = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for labels, _ in series:
            found.add_metric((), dict(labels))
        return found
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    found = kind(metric.name, metric.help, labels=(), unit=metric.unit)
    for labels, number in series:
        found.add_sample(metric.name, dict(labels), number)
    return found


def _registry(snapshot, extra):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot, extra))
    return registry


def text(snapshot, extra=None):
    return client_text(_registry(snapshot, extra))


def openmetrics(snapshot, extra=None):
    return client_openmetrics(_registry(snapshot, extra))
