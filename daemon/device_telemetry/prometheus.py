"""A collector for programs that serve a page of prometheus-client, or push one: `REGISTRY.register(Collector())`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as ClientMetric
from prometheus_client.registry import Collector as BaseCollector

from device_telemetry.node_types import TelemetryError
from device_telemetry.reading import read_document
from telemetry_daemon.remote.foreign_documents import DocumentError, snapshot_of
from telemetry_exporters.prometheus.daemon_samples import DaemonSamples
from telemetry_exporters.prometheus.families import Family, columns_of, families
from telemetry_exporters.snapshot_filter import family_name, screen
from telemetry_parsers.model import Absent, Value

_UP = "device_telemetry_up"
_SHOWN = ("device", "owner")


class Collector(BaseCollector):
    """Yields `accelerator_…` as the daemon's own page has them, and `device_telemetry_up`, which is 0 while there are no readings."""

    def __init__(self, url: str | None = None, timeout: float = 5.0) -> None:
        self._url = url
        self._timeout = timeout

    def describe(self) -> list[ClientMetric]:
        """Yield nothing, so that registration reads nothing."""
        return []

    def collect(self) -> Iterator[ClientMetric]:
        """Yield the families of one reading. A missing daemon does not break the program's page."""
        try:
            found = list(self._families())
            is_up = 1.0
        except (TelemetryError, DocumentError):
            found, is_up = [], 0.0
        yield GaugeMetricFamily(_UP, "1 while the readings of the accelerators could be had.", value=is_up)
        yield from found

    def _families(self) -> Iterator[ClientMetric]:
        shown = screen(snapshot_of(read_document(self._url, self._timeout)))
        columns = columns_of(shown, DaemonSamples())
        for family in families(shown, columns):
            if family.metric.scope in _SHOWN:
                yield _converted(family, columns.values)


def _converted(family: Family, values: tuple[Value, ...]) -> ClientMetric:
    metric, name = family.metric, family_name(family.metric)
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "info": InfoMetricFamily}
    made: ClientMetric = kinds[metric.kind](name, metric.help)
    suffix = {"gauge": "", "counter": "_total", "info": "_info"}[metric.kind]
    for series in family.series:
        value = values[series[2]]
        if not isinstance(value, Absent):
            made.add_sample(name + suffix, dict(family.labels(series)), value)
    return made
