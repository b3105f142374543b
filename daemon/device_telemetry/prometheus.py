"""A collector for programs that expose or push metrics with prometheus-client: `REGISTRY.register(Collector())`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as ClientMetric
from prometheus_client.registry import Collector as BaseCollector

from device_telemetry.node_types import TelemetryError
from device_telemetry.reading import read_document
from telemetry_daemon.remote.foreign_documents import DocumentError, to_snapshot
from telemetry_exporters.prometheus.daemon_samples import DaemonSamples
from telemetry_exporters.prometheus.families import Family, columns_of, families
from telemetry_exporters.snapshot_filter import clean_snapshot, family_name
from telemetry_parsers.model import Absent, Value

_UP_METRIC = "device_telemetry_up"
_EXPORTED_SCOPES = ("device", "owner")


class Collector(BaseCollector):
    """Collects the daemon's `accelerator_…` metrics."""

    def __init__(self, url: str | None = None, timeout: float = 5.0) -> None:
        self._url = url
        self._timeout = timeout

    def describe(self) -> list[ClientMetric]:
        """Return no metrics, so that registration does not read the devices."""
        return []

    def collect(self) -> Iterator[ClientMetric]:
        """Read the devices and yield the metric families."""
        try:
            client_metrics = list(self._client_metrics())
            is_up = 1.0
        except (TelemetryError, DocumentError):
            client_metrics, is_up = [], 0.0
        yield GaugeMetricFamily(_UP_METRIC, "1 if the accelerators could be read.", value=is_up)
        yield from client_metrics

    def _client_metrics(self) -> Iterator[ClientMetric]:
        snapshot = clean_snapshot(to_snapshot(read_document(self._url, self._timeout)))
        columns = columns_of(snapshot, DaemonSamples())
        for family in families(snapshot, columns):
            if family.metric.scope in _EXPORTED_SCOPES:
                yield _to_client_metric(family, columns.values)


def _to_client_metric(family: Family, values: tuple[Value, ...]) -> ClientMetric:
    metric, name = family.metric, family_name(family.metric)
    classes_by_kind = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "info": InfoMetricFamily}
    client_metric: ClientMetric = classes_by_kind[metric.kind](name, metric.help)
    sample_name = name + {"gauge": "", "counter": "_total", "info": "_info"}[metric.kind]
    for series in family.series:
        value = values[series[-1]]  # a series ends with the index of its value
        if not isinstance(value, Absent):
            client_metric.add_sample(sample_name, dict(family.labels(series)), value)
    return client_metric
