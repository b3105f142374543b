"""What is read for each request: the node's clock, and the `process_…` metrics of the daemon itself, named as every Prometheus client does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import psutil

from telemetry_exporters.prometheus import Syntax, openmetrics_head, text_head
from telemetry_parsers.metrics import BY_NAME
from telemetry_parsers.model import Kind, Metric


def _row(name: str, unit: str, help: str) -> Metric:
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"process_{name}", kind, unit, help, scope="daemon")


_READ: Mapping[Metric, Callable[[psutil.Process], float]] = {
    BY_NAME["telemetry_time_seconds"]: lambda _: time.time(),
    # What client_python's collector gives, without its 2.8 MiB (docs/performance.md).
    _row("virtual_memory_bytes", "bytes", "Virtual memory size in bytes."): lambda own: own.memory_info().vms,
    _row("resident_memory_bytes", "bytes", "Resident memory size in bytes."): lambda own: own.memory_info().rss,
    _row("start_time_seconds", "seconds", "Unix time at which the process started."): lambda own: own.create_time(),
    _row("cpu_seconds_total", "seconds", "User and system CPU time spent."): lambda own: sum(own.cpu_times()[:2]),
    _row("open_fds", "", "Open file descriptors."): lambda own: own.num_fds(),
    _row("max_fds", "", "Most file descriptors that may be open."): lambda own: own.rlimit(psutil.RLIMIT_NOFILE)[0],
}
_HEADS: Mapping[Syntax, Callable[[Metric], str]] = {Syntax.TEXT: text_head, Syntax.OPENMETRICS: openmetrics_head}


class ProcessMetrics:
    """The clock, and CPU time, memory, descriptors and start time of this process; its children are counted per source."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def render(self, syntax: Syntax) -> bytes:
        """The families in that syntax, OpenMetrics without its `# EOF`. A number that cannot be read is left out."""
        head = _HEADS[syntax]
        with self._process.oneshot():
            values = {metric: self._value(read) for metric, read in _READ.items()}
        return "".join(
            f"{head(metric)}{metric.name} {value}\n" for metric, value in values.items() if value is not None
        ).encode()

    def _value(self, read: Callable[[psutil.Process], float]) -> float | None:
        """The number, or None where /proc is not the kernel's, as in some containers: the page comes all the same."""
        try:
            return float(read(self._process))
        # Each of them is what psutil raises of a /proc that is not the kernel's.
        except (OSError, psutil.Error, RuntimeError, LookupError, ValueError):
            return None
