"""Reads the host itself: CPU, memory, load and uptime."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from telemetry_daemon.readers.base import Begun, Reader, Targets
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll

Call = Callable[[], Plain]

_PROC = Path("/proc")
# Errors caused by a masked, truncated or unusual /proc.
_ERRORS = (OSError, RuntimeError, ValueError, LookupError, ArithmeticError)

# The columns in the order of proc_stat(5).
_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_IDLE = frozenset({"idle", "iowait"})
_TICKS = os.sysconf("SC_CLK_TCK")
# Linux also counts a guest's time in `user` and `nice`.
_COUNTED_TWICE = frozenset({"guest", "guest_nice"})


class HostReader(Reader):
    """Answers the calls `cpu`, `memory`, `load` and `uptime`, or the given calls."""

    def __init__(self, calls: Mapping[str, Call] | None = None) -> None:
        self._calls = calls if calls is not None else host_calls()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the host has no targets
        """Return one output per requested call. A failed call has its errno as status and no data."""
        begun, cpu = Begun(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        if isinstance(poll.request, Library) and poll.request.reader == "host":
            outputs = tuple(self._ask(name) for name in poll.request.calls)
        else:
            failure = Failure("failed", "internal", "the host reader answers only requests to the library `host`")
        return begun.capture("host", poll, outputs, failure, time.thread_time() - cpu)

    def _ask(self, name: str) -> Output:
        call = self._calls.get(name)
        if call is None:
            return Output(name, status=errno.ENOSYS, stderr=f"the host reader has no call {name!r}")
        try:
            return Output(name, status=0, data=call())
        except _ERRORS as error:
            return Output(name, status=getattr(error, "errno", None) or errno.EIO, stderr=str(error))


def host_calls(proc: Path = _PROC) -> dict[str, Call]:
    """Return the calls for this machine. psutil would read the same files but needs 1.2 MiB of memory."""
    return {
        "cpu": CpuMeter(partial(_cpu_times, proc / "stat")),
        "memory": partial(_memory, proc / "meminfo"),
        "load": _load,
        "uptime": _uptime,
    }


def reader(_path: str, _settings: object) -> HostReader:
    """Return the host's reader, which has no settings."""
    return HostReader()


class CpuMeter:
    """The share of CPU time used since the previous call, None at first. `times` returns the seconds of each state (proc_stat(5))."""

    def __init__(self, times: Callable[[], Mapping[str, float]]) -> None:
        self._times = times
        self._last: Mapping[str, float] = {}

    def __call__(self) -> Plain:
        """Return `{"utilization_percent": …}`."""
        now = self._times()
        if not self._last:
            self._last = now
        # A state's seconds may decrease (proc_stat(5) says so of iowait). Count such a difference as 0.
        spent = {state: max(0.0, seconds - self._last.get(state, 0.0)) for state, seconds in now.items()}
        total = sum(seconds for state, seconds in spent.items() if state not in _COUNTED_TWICE)
        if total <= 0:
            return {"utilization_percent": None}
        self._last = now
        idle = sum(seconds for state, seconds in spent.items() if state in _IDLE)
        # The quotient is at most 1; multiplying first could round to more than 100.
        return {"utilization_percent": 100.0 * ((total - idle) / total)}


def _cpu_times(stat: Path) -> Mapping[str, float]:
    with stat.open("rb") as lines:
        name, *ticks = lines.readline().split()
    if name != b"cpu":
        raise ValueError(f"{stat} does not begin with the times of all CPUs")
    return {state: int(count) / _TICKS for state, count in zip(_STATES, ticks, strict=False)}


def _memory(meminfo: Path) -> Plain:
    """Return total and available memory. Available memory is unknown if missing or, as in some containers, above the total."""
    lines = (line.split() for line in meminfo.read_bytes().splitlines())
    kibibytes = {line[0]: int(line[1]) for line in lines if line[0] in (b"MemTotal:", b"MemAvailable:")}
    total, available = kibibytes[b"MemTotal:"], kibibytes.get(b"MemAvailable:")
    usable = available * 1024 if available is not None and available <= total else None
    return {"total_bytes": total * 1024, "available_bytes": usable}


def _load() -> Plain:
    load1, load5, load15 = os.getloadavg()
    return {"load1": load1, "load5": load5, "load15": load15}


def _uptime() -> Plain:
    # The wall clock minus the start time would jump when the clock is set.
    return {"seconds": time.clock_gettime(time.CLOCK_BOOTTIME)}
