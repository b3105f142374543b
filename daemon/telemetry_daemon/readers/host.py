"""Reads the CPU time, memory, load and uptime of the host."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll

Call = Callable[[], Plain]

_PROC = Path("/proc")
# An incomplete or unusual /proc may cause these exceptions.
_PROC_ERRORS = (OSError, RuntimeError, ValueError, LookupError, ArithmeticError)

# The columns of the `cpu` line in /proc/stat: see proc_stat(5).
_CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_IDLE_STATES = frozenset({"idle", "iowait"})
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Linux counts a guest's time in `user` and `nice`, too.
_GUEST_STATES = frozenset({"guest", "guest_nice"})


class HostReader(Reader):
    """Reads the host's metrics with the calls `cpu`, `memory`, `load` and `uptime`."""

    def __init__(self, calls: Mapping[str, Call] | None = None) -> None:
        self._calls = calls if calls is not None else host_calls()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the host has no targets
        """Return a capture with an output for each of the poll's calls. The status of a failed call is its errno."""
        start, cpu_start = ReadStart(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        if isinstance(poll.request, Library) and poll.request.reader == "host":
            outputs = tuple(self._make_call(name) for name in poll.request.calls)
        else:
            failure = Failure("failed", "internal", "the host reader supports only the library `host`")
        return start.create_capture("host", poll, outputs, failure, time.thread_time() - cpu_start)

    def _make_call(self, name: str) -> Output:
        call = self._calls.get(name)
        if call is None:
            return Output(name, status=errno.ENOSYS, stderr=f"the host reader has no call {name!r}")
        try:
            return Output(name, status=0, data=call())
        except _PROC_ERRORS as error:
            return Output(name, status=getattr(error, "errno", None) or errno.EIO, stderr=str(error))


def host_calls(proc: Path = _PROC) -> dict[str, Call]:
    """Return the functions that read the host, by name."""
    return {
        "cpu": CpuMeter(partial(_read_cpu_seconds, proc / "stat")),
        "memory": partial(_read_memory, proc / "meminfo"),
        "load": _read_load_averages,
        "uptime": _read_uptime,
    }


def create_reader(_path: str, _settings: object) -> HostReader:
    """Return the reader of the host. Path and settings are not used."""
    return HostReader()


class CpuMeter:
    """Measures the CPU utilization between two calls of the meter."""

    def __init__(self, read_cpu_seconds: Callable[[], Mapping[str, float]]) -> None:
        self._read_cpu_seconds = read_cpu_seconds
        self._previous: Mapping[str, float] = {}

    def __call__(self) -> Plain:
        """Return the utilization in percent since the previous call. It is None at the first call."""
        current = self._read_cpu_seconds()
        if not self._previous:
            self._previous = current
        # The seconds of `iowait` may decrease: see proc_stat(5).
        spent = {state: max(0.0, seconds - self._previous.get(state, 0.0)) for state, seconds in current.items()}
        total_seconds = sum(seconds for state, seconds in spent.items() if state not in _GUEST_STATES)
        if total_seconds <= 0:
            return {"utilization_percent": None}
        self._previous = current
        idle_seconds = sum(seconds for state, seconds in spent.items() if state in _IDLE_STATES)
        # Multiplying first could round to more than 100.
        return {"utilization_percent": 100.0 * ((total_seconds - idle_seconds) / total_seconds)}


def _read_cpu_seconds(stat: Path) -> Mapping[str, float]:
    with stat.open("rb") as lines:
        name, *ticks = lines.readline().split()
    if name != b"cpu":
        raise ValueError(f"{stat} does not begin with the line `cpu`")
    return {state: int(count) / _TICKS_PER_SECOND for state, count in zip(_CPU_STATES, ticks, strict=False)}


def _read_memory(meminfo: Path) -> Plain:
    lines = (line.split() for line in meminfo.read_bytes().splitlines())
    kibibytes = {line[0]: int(line[1]) for line in lines if line[0] in (b"MemTotal:", b"MemAvailable:")}
    total, available = kibibytes[b"MemTotal:"], kibibytes.get(b"MemAvailable:")
    available_bytes = available * 1024 if available is not None and available <= total else None
    return {"total_bytes": total * 1024, "available_bytes": available_bytes}


def _read_load_averages() -> Plain:
    load1, load5, load15 = os.getloadavg()
    return {"load1": load1, "load5": load5, "load15": load15}


def _read_uptime() -> Plain:
    # The wall clock minus the start time would jump when the clock is set.
    return {"seconds": time.clock_gettime(time.CLOCK_BOOTTIME)}
