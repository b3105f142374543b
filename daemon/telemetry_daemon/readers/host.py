"""Reads the host itself: CPU, memory, load and uptime."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping

import psutil

from telemetry_daemon.readers.base import Begun, Targets
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll

Call = Callable[[], Plain]

# What psutil raises where /proc is masked, cut short or of a kind that it does not know.
_ERRORS = (OSError, psutil.Error, RuntimeError, ValueError, LookupError, ArithmeticError, NotImplementedError)

_IDLE = frozenset({"idle", "iowait"})
# Linux counts a guest's time in `user` and `nice` as well.
_COUNTED_TWICE = frozenset({"guest", "guest_nice"})


class HostReader:
    """Answers the calls `cpu`, `memory`, `load` and `uptime`, or those it is given."""

    def __init__(self, calls: Mapping[str, Call] | None = None) -> None:
        self._calls = calls if calls is not None else host_calls()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the host has no targets
        """One output per call that was asked for; one that failed has its errno as status and no data."""
        begun, cpu = Begun(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        if isinstance(poll.request, Library) and poll.request.reader == "host":
            outputs = tuple(self._ask(name) for name in poll.request.calls)
        else:
            failure = Failure("failed", "internal", "the host reader answers only requests to the library `host`")
        return begun.capture("host", poll, outputs, failure, time.thread_time() - cpu)

    def close(self) -> None:
        """Nothing runs, nothing is held."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()

    def _ask(self, name: str) -> Output:
        call = self._calls.get(name)
        if call is None:
            return Output(name, status=errno.ENOSYS, stderr=f"the host reader has no call {name!r}")
        try:
            return Output(name, status=0, data=call())
        except _ERRORS as error:
            return Output(name, status=getattr(error, "errno", None) or errno.EIO, stderr=str(error))


def host_calls() -> dict[str, Call]:
    """The calls as this machine answers them."""
    return {"cpu": CpuMeter(_cpu_times), "memory": _memory, "load": _load, "uptime": _uptime}


class CpuMeter:
    """The share of the CPUs' time in use since the call before; None where there was none, or no time has passed.

    `times` are the seconds that the CPUs have spent in each state, as `psutil.cpu_times` names them. psutil's own
    percentage is not used: it says 0 at first, and keeps one record per thread.
    """

    def __init__(self, times: Callable[[], Mapping[str, float]]) -> None:
        self._times = times
        self._last: Mapping[str, float] = {}

    def __call__(self) -> Plain:
        """`{"utilization_percent": …}`."""
        now = self._times()
        if not self._last:
            self._last = now
        # A state's seconds may go backwards (proc_stat(5) says so of iowait): then none were spent in it.
        spent = {state: max(0.0, seconds - self._last.get(state, 0.0)) for state, seconds in now.items()}
        total = sum(seconds for state, seconds in spent.items() if state not in _COUNTED_TWICE)
        if total <= 0:
            return {"utilization_percent": None}
        self._last = now
        idle = sum(seconds for state, seconds in spent.items() if state in _IDLE)
        return {"utilization_percent": 100.0 * (total - idle) / total}


def _cpu_times() -> Mapping[str, float]:
    times: Mapping[str, float] = psutil.cpu_times()._asdict()
    return times


def _memory() -> Plain:
    memory = psutil.virtual_memory()
    return {"total_bytes": memory.total, "available_bytes": memory.available}


def _load() -> Plain:
    load1, load5, load15 = os.getloadavg()
    return {"load1": load1, "load5": load5, "load15": load15}


def _uptime() -> Plain:
    # Not the time of day less that of the start: that jumps when the clock is set.
    return {"seconds": time.clock_gettime(time.CLOCK_BOOTTIME)}
