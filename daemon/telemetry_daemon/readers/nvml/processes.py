"""Reads the three lists of processes on a GPU, and the utilization of each process."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import partial

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.readers.binding import FailedCall, error_result
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.device_caller import DeviceCaller
from telemetry_daemon.readers.nvml.fields import driver_version
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

KINDS = ("Compute", "Graphics", "MPSCompute")
# The newest version comes first. Entries have the same layout since driver 450.
_SUFFIXES = ("_v3", "_v2")
_FIRST_CAPACITY = 64
_UNKNOWN_BYTES = (1 << 64) - 1
_NO_INSTANCE = (1 << 32) - 1
# Drivers in this range of versions write 8 extra bytes per entry, so the PIDs are wrong.
_LONGER_ENTRY_DRIVERS = ((535, 43), (535, 86))
_MAX_NAME_LENGTH = 256
# The names of DCGM's service and of the exporter that contains DCGM.
_HOST_ENGINES = frozenset({b"nv-hostengine", b"dcgm-exporter"})
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
UTILIZATION_CALL = "nvmlDeviceGetProcessUtilization"
# pynvml raises code 0 if the driver returns an empty list.
_NO_SAMPLES_CODES = frozenset({0, codes.NOT_FOUND})
_MAX_CAPACITY = 1 << 16


class _ProcessEntry(ctypes.Structure):
    """The structure nvmlProcessInfo_t of the calls _v2 and _v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def _value_or(value: int | None, default: int) -> int:
    return default if value is None else value


def _instance_ids(process: Any) -> tuple[int, int]:
    names = ("gpuInstanceId", "computeInstanceId")
    gpu, compute = (_value_or(getattr(process, name, None), _NO_INSTANCE) for name in names)
    return gpu, compute


class ProcessLists:
    """Reads process lists into an array that is reused for all polls."""

    def __init__(self, nvml: Nvml, driver: str, proc: str = "/proc") -> None:
        self._nvml = nvml
        self._has_longer_entries = _LONGER_ENTRY_DRIVERS[0] <= driver_version(driver) < _LONGER_ENTRY_DRIVERS[1]
        self._entries: Any = (_ProcessEntry * _FIRST_CAPACITY)()
        self._proc = proc
        self._suffixes: dict[str, str] = {}

    def read(self, caller: DeviceCaller) -> dict[str, Plain]:
        """Return the processes by kind. Each process is [PID, name, bytes, GPU instance, compute instance]."""
        return {kind: self._read_list(caller, kind) for kind in KINDS}

    def _read_list(self, caller: DeviceCaller, kind: str) -> Plain:
        if self._has_longer_entries:
            return error_result(codes.NOT_SUPPORTED)
        read = self._read_directly if self._nvml.allows_direct_calls else self._read_with_pynvml
        return caller.guarded_call(kind, partial(read, caller, kind))

    def _read_directly(self, caller: DeviceCaller, kind: str) -> list[Plain] | FailedCall:
        code, count = self._call_newest_version(caller, kind)
        return FailedCall(code) if code else [self._entry_to_list(entry) for entry in self._entries[:count]]

    def _read_with_pynvml(self, caller: DeviceCaller, kind: str) -> list[Plain] | FailedCall:
        processes: list[Any] | FailedCall = self._nvml.call(f"nvmlDeviceGet{kind}RunningProcesses", caller.handle)
        if isinstance(processes, FailedCall):
            return processes
        entries = (
            _ProcessEntry(process.pid, _value_or(process.usedGpuMemory, _UNKNOWN_BYTES), *_instance_ids(process))
            for process in processes
        )
        return [self._entry_to_list(entry) for entry in entries]

    def _call_newest_version(self, caller: DeviceCaller, kind: str) -> tuple[int, int]:
        code, count = codes.FUNCTION_NOT_FOUND, 0
        for suffix in (self._suffixes[kind],) if kind in self._suffixes else _SUFFIXES:
            code, count = self._fill_entries(caller.handle, f"nvmlDeviceGet{kind}RunningProcesses{suffix}")
            if code != codes.FUNCTION_NOT_FOUND:
                self._suffixes[kind] = suffix
                break
        return code, count

    def _fill_entries(self, handle: Any, function: str) -> tuple[int, int]:
        while True:
            count = ctypes.c_uint(len(self._entries))
            code = self._nvml.call_directly(function, handle, ctypes.byref(count), self._entries)
            if code != codes.INSUFFICIENT_SIZE or len(self._entries) >= _MAX_CAPACITY:
                return code, min(count.value, len(self._entries))
            self._entries = (_ProcessEntry * min(2 * max(count.value, len(self._entries)) + 5, _MAX_CAPACITY))()

    def _entry_to_list(self, entry: Any) -> list[Plain]:
        memory = None if entry.memory == _UNKNOWN_BYTES else entry.memory
        instance_ids = (entry.gpu_instance, entry.compute_instance)
        instances = (None if number == _NO_INSTANCE else number for number in instance_ids)
        return [entry.pid, self._process_name(entry.pid), memory, *instances]

    def _process_name(self, pid: int) -> str | None:
        """Return the name of a process. In a container, return None, because the driver's PIDs are not valid there."""
        try:
            if os.readlink(f"{self._proc}/self/ns/pid") != _INITIAL_PID_NAMESPACE:  # noqa: PTH115  # pathlib costs 0.4 MiB
                return None
            return read_file(f"{self._proc}/{pid}/comm", _MAX_NAME_LENGTH).decode("utf-8", "replace").strip() or None
        except OSError:  # the process has exited or is hidden
            return None


def find_host_engine(proc: str = "/proc") -> int | None:
    """Return the PID of a visible DCGM host engine, or None."""
    pids = (name for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208  # pathlib costs 0.4 MiB
    return next((int(pid) for pid in pids if _program_name(f"{proc}/{pid}/comm") in _HOST_ENGINES), None)


def _program_name(path: str) -> bytes:
    try:
        return read_file(path, _MAX_NAME_LENGTH).strip()
    except OSError:  # the process has exited
        return b""


class ProcessUtilization:
    """Reads the utilization of processes since the last poll."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._clock = clock
        self._newest_us = 0

    def read(self, caller: DeviceCaller) -> Plain:
        """Return [PID, percentage] for each process that was active since the last poll, or None at the first poll."""
        return caller.guarded_call(UTILIZATION_CALL, partial(self._read_samples, caller.handle))

    def _read_samples(self, handle: Any) -> list[Plain] | FailedCall | None:
        if self._newest_us > self._clock() * 1e6:  # the clock was set back, so all new samples would count as old
            self._newest_us = 0
        since = self._newest_us
        result: Any = self._nvml.call(UTILIZATION_CALL, handle, since)
        if isinstance(result, FailedCall):
            if result.code not in _NO_SAMPLES_CODES:
                return result
            result = []
        samples = sorted(result[:_MAX_CAPACITY], key=lambda sample: int(sample.timeStamp))
        self._newest_us = max([since, *(int(sample.timeStamp) for sample in samples[-1:])])
        # The first poll also receives samples of processes that exited long ago.
        percents_by_pid: dict[int, int] = {
            int(sample.pid): int(sample.smUtil) for sample in samples if int(sample.timeStamp) > since
        }
        return [[pid, percent] for pid, percent in percents_by_pid.items()] if since else None
