"""The `process_…` metrics of this process, as every Prometheus client names them; read anew for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest as text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from telemetry_exporters.prometheus import EOF, Syntax

_GENERATE: Mapping[Syntax, Callable[[CollectorRegistry], bytes]] = MappingProxyType(
    {Syntax.TEXT: text, Syntax.OPENMETRICS: openmetrics}
)


class ProcessMetrics:
    """CPU time, memory, descriptors and start time; with a registry of its own, since the global one has more."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)

    def render(self, syntax: Syntax) -> bytes:
        """The families in that syntax; OpenMetrics without its end."""
        return _GENERATE[syntax](self._registry).removesuffix(EOF)
