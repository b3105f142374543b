"""Reads the three lists of processes on a GPU, and the utilization of each process."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.readers.binding import Refused, error_answer
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.fields import driver_version
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

KINDS = ("Compute", "Graphics", "MPSCompute")
# The newest form of each call first. The layout of entries has not changed since driver 450.
_SUFFIXES = ("_v3", "_v2")
_ROOM = 64
_UNKNOWN = (1 << 64) - 1
_NO_INSTANCE = (1 << 32) - 1
# These drivers write entries that are 8 bytes too long, which makes the PIDs wrong.
_LONGER_ENTRIES = ((535, 43), (535, 86))
_MAX_NAME_LENGTH = 256
# The service of DCGM, and the exporter that contains DCGM.
_HOST_ENGINES = frozenset({b"nv-hostengine", b"dcgm-exporter"})
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
CALL = "nvmlDeviceGetProcessUtilization"
# The error for "no sample". Also pynvml's result if the driver has no samples.
_NO_SAMPLES = frozenset({0, codes.NOT_FOUND})
_MAX_SIZE = 1 << 16


class _Entry(ctypes.Structure):
    """nvmlProcessInfo_t of the calls _v2 and _v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def _number(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _instances(process: Any) -> tuple[int, int]:
    names = ("gpuInstanceId", "computeInstanceId")
    gpu, compute = (_number(getattr(process, name, None), _NO_INSTANCE) for name in names)
    return gpu, compute


class ProcessLists:
    """Reads process lists into an array that is reused for all polls."""

    def __init__(self, nvml: Nvml, driver: str, proc: str = "/proc") -> None:
        self._nvml = nvml
        self._unusable = _LONGER_ENTRIES[0] <= driver_version(driver) < _LONGER_ENTRIES[1]
        self._entries: Any = (_Entry * _ROOM)()
        self._proc = proc
        self._suffixes: dict[str, str] = {}

    def read(self, asker: Asker) -> dict[str, Plain]:
        """Return the lists by kind. Entries are [PID, name, bytes, GPU instance, compute instance]; unknown values are None."""
        return {kind: self._list(asker, kind) for kind in KINDS}

    def _list(self, asker: Asker, kind: str) -> Plain:
        if self._unusable:
            return error_answer(codes.NOT_SUPPORTED)
        ask = self._in_one_call if self._nvml.has_raw else self._in_two_calls
        return asker.custom(kind, partial(ask, asker, kind))

    def _in_one_call(self, asker: Asker, kind: str) -> list[Plain] | Refused:
        code, count = self._fill_entries(asker, kind)
        return Refused(code) if code else [self._plain(entry) for entry in self._entries[:count]]

    def _in_two_calls(self, asker: Asker, kind: str) -> list[Plain] | Refused:
        """Read a list with pynvml, which makes one call for the count and one for the entries."""
        found: list[Any] | Refused = self._nvml.call(f"nvmlDeviceGet{kind}RunningProcesses", asker.handle)
        if isinstance(found, Refused):
            return found
        entries = (
            _Entry(process.pid, _number(process.usedGpuMemory, _UNKNOWN), *_instances(process)) for process in found
        )
        return [self._plain(entry) for entry in entries]

    def _fill_entries(self, asker: Asker, kind: str) -> tuple[int, int]:
        code, count = codes.FUNCTION_NOT_FOUND, 0
        for suffix in (self._suffixes[kind],) if kind in self._suffixes else _SUFFIXES:
            code, count = self._ask(asker.handle, f"nvmlDeviceGet{kind}RunningProcesses{suffix}")
            if code != codes.FUNCTION_NOT_FOUND:
                self._suffixes[kind] = suffix
                break
        return code, count

    def _ask(self, handle: Any, function: str) -> tuple[int, int]:
        while True:
            count = ctypes.c_uint(len(self._entries))
            code = self._nvml.raw(function, handle, ctypes.byref(count), self._entries)
            if code != codes.INSUFFICIENT_SIZE or len(self._entries) >= _MAX_SIZE:
                return code, min(count.value, len(self._entries))
            self._entries = (_Entry * min(2 * max(count.value, len(self._entries)) + 5, _MAX_SIZE))()

    def _plain(self, entry: Any) -> list[Plain]:
        memory = None if entry.memory == _UNKNOWN else entry.memory
        instances = (entry.gpu_instance, entry.compute_instance)
        return [entry.pid, self._name(entry.pid), memory, *(None if n == _NO_INSTANCE else n for n in instances)]

    def _name(self, pid: int) -> str | None:
        """Return the name of a process. None in a container, where the PID of the host may be another process."""
        try:
            if os.readlink(f"{self._proc}/self/ns/pid") != _FIRST_PID_NAMESPACE:  # noqa: PTH115  # pathlib costs 0.4 MiB
                return None
            return read_file(f"{self._proc}/{pid}/comm", _MAX_NAME_LENGTH).decode("utf-8", "replace").strip() or None
        except OSError:  # the process has exited or is hidden
            return None


def find_host_engine(proc: str = "/proc") -> int | None:
    """Return the PID of a running DCGM host engine, or None if there is none or it is not visible from this container."""
    pids = (name for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208  # pathlib costs 0.4 MiB
    return next((int(pid) for pid in pids if _program(f"{proc}/{pid}/comm") in _HOST_ENGINES), None)


def _program(path: str) -> bytes:
    try:
        return read_file(path, _MAX_NAME_LENGTH).strip()
    except OSError:  # the process has exited
        return b""


class ProcessUse:
    """Reads the samples of utilization that are newer than those of the last poll."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._clock = clock
        self._newest = 0

    def read(self, asker: Asker) -> Plain:
        """Return the utilization in per cent by PID of processes that were active since the last poll. None without samples."""
        return asker.custom(CALL, partial(self._samples, asker.handle))

    def _samples(self, handle: Any) -> list[Plain] | Refused | None:
        if self._newest > self._clock() * 1e6:  # the clock was set back, so all samples would be older
            self._newest = 0
        since = self._newest
        found: Any = self._nvml.call(CALL, handle, since)
        if isinstance(found, Refused) and found.code not in _NO_SAMPLES:
            return found
        samples = [] if isinstance(found, Refused) else sorted(found[:_MAX_SIZE], key=lambda item: int(item.timeStamp))
        self._newest = max([since, *(int(sample.timeStamp) for sample in samples[-1:])])
        # The first answer has all samples that the driver has stored, even for processes that exited long ago.
        percents: dict[int, int] = {
            int(sample.pid): int(sample.smUtil) for sample in samples if int(sample.timeStamp) > since
        }
        return [[pid, percent] for pid, percent in percents.items()] if since else None
