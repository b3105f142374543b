"""Metrics that are read for each request: the node's clock, and the daemon's `process_…` metrics with the usual names."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_exporters.prometheus.renderer import HEADS, Syntax
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_NAME
from telemetry_parsers.model import Kind, Metric

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Indices in /proc/self/stat behind the command's name, which may have blanks (proc_pid_stat(5) counts from 3 there).
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = 11, 12, 19, 20, 21


@dataclass(frozen=True, slots=True)
class _Read:
    """The state of this process: the fields of its `stat`, the folder of its descriptors, and the node's boot time."""

    stat: list[bytes]
    descriptors: Path
    booted: float


def _row(name: str, unit: str, help: str) -> Metric:
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"process_{name}", kind, unit, help, scope="daemon")


def _seconds(stat: list[bytes], *indices: int) -> float:
    return sum([int(stat[index]) for index in indices]) / _TICKS


_CLOCK = BY_NAME["telemetry_time_seconds"]
# The metrics of client_python's collector, read here because its import takes 2.8 MiB (docs/performance.md), and psutil's 1.2 MiB.
_NUMBERS: Mapping[Metric, Callable[[_Read], float]] = {
    _row("virtual_memory_bytes", "bytes", "Virtual memory size in bytes."): lambda read: int(read.stat[_VSIZE]),
    _row("resident_memory_bytes", "bytes", "Resident memory size in bytes."): lambda read: (
        int(read.stat[_RSS]) * _PAGE_BYTES
    ),
    _row("start_time_seconds", "seconds", "Unix time at which the process started."): lambda read: (
        read.booted + _seconds(read.stat, _STARTTIME)
    ),
    _row("cpu_seconds_total", "seconds", "User and system CPU time spent."): lambda read: _seconds(
        read.stat, _UTIME, _STIME
    ),
    _row("open_fds", "", "Open file descriptors."): lambda read: len(os.listdir(read.descriptors)),  # noqa: PTH208  # a tenth of the time
    _row("max_fds", "", "Most file descriptors that may be open."): lambda _: resource.getrlimit(
        resource.RLIMIT_NOFILE
    )[0],
}


class ProcessMetrics:
    """The clock, and CPU time, memory, descriptors and start time of this process. Its children are counted per source."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._stat_file = proc / "self" / "stat"
        self._descriptors = proc / "self" / "fd"
        self._booted = _booted(proc / "stat")
        self._beginnings = {
            syntax: [f"{head(metric)}{metric.name} " for metric in (_CLOCK, *_NUMBERS)]
            for syntax, head in HEADS.items()
        }

    def render(self, syntax: Syntax) -> bytes:
        """Return the families in this syntax (OpenMetrics: without `# EOF`), without numbers that cannot be read."""
        read = _Read(self._stat(), self._descriptors, self._booted)
        values = [time.time(), *(_value(number, read) for number in _NUMBERS.values())]
        lines = zip(self._beginnings[syntax], values, strict=True)
        return "".join([f"{beginning}{value}\n" for beginning, value in lines if value is not None]).encode()

    def _stat(self) -> list[bytes]:
        """Return the fields behind the command's name; empty if /proc is not the kernel's, as in some containers."""
        try:
            return self._stat_file.read_bytes().rpartition(b")")[2].split()
        except OSError:  # its numbers are left out
            return []


def _value(number: Callable[[_Read], float], read: _Read) -> float | None:
    """Return the number, or None if /proc does not have it."""
    try:
        value = float(number(read))
    except (OSError, LookupError, ValueError):  # /proc is not the kernel's
        return None
    return value if math.isfinite(value) else None


def _booted(file: Path) -> float:
    """Return when the node was booted in Unix seconds; NaN if /proc does not have it."""
    try:
        words = file.read_text("ascii").split()
        return float(words[words.index("btime") + 1])
    except (OSError, ValueError, LookupError):  # the start time is left out
        return math.nan
