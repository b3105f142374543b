"""The node's clock, and the standard `process_…` metrics of the daemon."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_exporters.prometheus.renderer import HEADERS, Syntax
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_NAME
from telemetry_parsers.model import Kind, Metric

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Indices of fields after the command name. Index 0 is field 3 in proc_pid_stat(5).
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = 11, 12, 19, 20, 21


@dataclass(frozen=True, slots=True)
class _ProcessState:
    stat: list[bytes]
    descriptors: Path
    boot_time: float


def _metric(name: str, unit: str, help: str) -> Metric:
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"process_{name}", kind, unit, help, scope="daemon")


def _seconds(stat: list[bytes], *indices: int) -> float:
    return sum([int(stat[index]) for index in indices]) / _TICKS_PER_SECOND


_CLOCK_METRIC = BY_NAME["telemetry_time_seconds"]
# Importing client_python's ProcessCollector, which has the same metrics, would take 2.8 MiB.
_READERS: Mapping[Metric, Callable[[_ProcessState], float]] = {
    _metric("virtual_memory_bytes", "bytes", "Virtual memory size in bytes."): lambda state: int(state.stat[_VSIZE]),
    _metric("resident_memory_bytes", "bytes", "Resident memory size in bytes."): lambda state: (
        int(state.stat[_RSS]) * _PAGE_BYTES
    ),
    _metric("start_time_seconds", "seconds", "Unix time at which the process started."): lambda state: (
        state.boot_time + _seconds(state.stat, _STARTTIME)
    ),
    _metric("cpu_seconds_total", "seconds", "User and system CPU time spent."): lambda state: _seconds(
        state.stat, _UTIME, _STIME
    ),
    _metric("open_fds", "", "Number of open file descriptors."): lambda state: len(os.listdir(state.descriptors)),  # noqa: PTH208  # ten times faster than pathlib
    _metric("max_fds", "", "Maximum number of open file descriptors."): lambda _: resource.getrlimit(
        resource.RLIMIT_NOFILE
    )[0],
}


class ProcessMetrics:
    """The node's clock and the standard process metrics."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._stat_file = proc / "self" / "stat"
        self._descriptors = proc / "self" / "fd"
        self._boot_time = _read_boot_time(proc / "stat")
        self._line_prefixes = {
            syntax: [f"{header(metric)}{metric.name} " for metric in (_CLOCK_METRIC, *_READERS)]
            for syntax, header in HEADERS.items()
        }

    def render(self, syntax: Syntax) -> bytes:
        """Return the available metrics in this syntax, without `# EOF`."""
        state = _ProcessState(self._read_stat_fields(), self._descriptors, self._boot_time)
        values = [time.time(), *(_value_or_none(reader, state) for reader in _READERS.values())]
        lines = zip(self._line_prefixes[syntax], values, strict=True)
        return "".join([f"{prefix}{value}\n" for prefix, value in lines if value is not None]).encode()

    def _read_stat_fields(self) -> list[bytes]:
        """Return the fields of the stat file after the command's name, or [] if it is not readable."""
        try:
            return self._stat_file.read_bytes().rpartition(b")")[2].split()
        except OSError:  # the metrics are omitted
            return []


def _value_or_none(reader: Callable[[_ProcessState], float], state: _ProcessState) -> float | None:
    try:
        value = float(reader(state))
    except (OSError, LookupError, ValueError):  # the content of /proc is not as expected
        return None
    return value if math.isfinite(value) else None


def _read_boot_time(file: Path) -> float:
    try:
        fields = file.read_text("ascii").split()
        return float(fields[fields.index("btime") + 1])
    except (OSError, ValueError, LookupError):  # the start time is omitted
        return math.nan
