"""The processes on a GPU, each of the three lists in one call, and how busy each process keeps it."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.readers.binding import Refused, failed
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.fields import driver_version
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

KINDS = ("Compute", "Graphics", "MPSCompute")
# The newest form of the call first; entries have been of one layout since 450.
_FORMS = ("_v3", "_v2")
_ROOM = 64
_NOT_TOLD = (1 << 64) - 1
_NO_INSTANCE = (1 << 32) - 1
# These drivers fill entries that are 8 bytes longer than the header says: what comes out are no process ids.
_LONGER_ENTRIES = ((535, 43), (535, 86))
_LONGEST_NAME = 256
# DCGM's own service, and the exporter that has it within itself.
_HOST_ENGINES = frozenset({b"nv-hostengine", b"dcgm-exporter"})
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
CALL = "nvmlDeviceGetProcessUtilization"
# That there is no sample; pynvml says success for a driver that has no room for one.
_NO_SAMPLES = frozenset({0, codes.NOT_FOUND})
_MOST = 1 << 16


class _Entry(ctypes.Structure):
    """nvmlProcessInfo_t of the calls _v2 and _v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def _number(told: int | None, otherwise: int) -> int:
    return otherwise if told is None else told


def _instances(process: Any) -> tuple[int, int]:
    """The numbers of its instances; older wheels do not have them."""
    names = ("gpuInstanceId", "computeInstanceId")
    gpu, compute = (_number(getattr(process, name, None), _NO_INSTANCE) for name in names)
    return gpu, compute


class ProcessLists:
    """Reads process lists; the array that they are written into is kept from poll to poll."""

    def __init__(self, nvml: Nvml, driver: str, proc: str = "/proc") -> None:
        self._nvml = nvml
        self._unusable = _LONGER_ENTRIES[0] <= driver_version(driver) < _LONGER_ENTRIES[1]
        self._entries: Any = (_Entry * _ROOM)()
        self._proc = proc
        self._forms: dict[str, str] = {}

    def read(self, asker: Asker) -> dict[str, Plain]:
        """Kind and list; an entry is pid, name, bytes, GPU instance, compute instance, None for what is not told."""
        return {kind: self._list(asker, kind) for kind in KINDS}

    def _list(self, asker: Asker, kind: str) -> Plain:
        if self._unusable:
            return failed(codes.NOT_SUPPORTED)
        ask = self._in_one_call if self._nvml.has_raw else self._in_two_calls
        return asker.own(kind, partial(ask, asker, kind))

    def _in_one_call(self, asker: Asker, kind: str) -> list[Plain] | Refused:
        code, count = self._fill(asker, kind)
        return Refused(code) if code else [self._plain(entry) for entry in self._entries[:count]]

    def _in_two_calls(self, asker: Asker, kind: str) -> list[Plain] | Refused:
        """As pynvml does it: one call for their number, one for them."""
        found: list[Any] | Refused = self._nvml.call(f"nvmlDeviceGet{kind}RunningProcesses", asker.handle)
        if isinstance(found, Refused):
            return found
        told = (_Entry(of.pid, _number(of.usedGpuMemory, _NOT_TOLD), *_instances(of)) for of in found)
        return [self._plain(entry) for entry in told]

    def _fill(self, asker: Asker, kind: str) -> tuple[int, int]:
        """The return code, and how many entries were written."""
        code, count = codes.FUNCTION_NOT_FOUND, 0
        for form in (self._forms[kind],) if kind in self._forms else _FORMS:
            code, count = self._ask(asker.handle, f"nvmlDeviceGet{kind}RunningProcesses{form}")
            if code != codes.FUNCTION_NOT_FOUND:
                self._forms[kind] = form
                break
        return code, count

    def _ask(self, handle: Any, function: str) -> tuple[int, int]:
        while True:
            count = ctypes.c_uint(len(self._entries))
            code = self._nvml.raw(function, handle, ctypes.byref(count), self._entries)
            if code != codes.INSUFFICIENT_SIZE or len(self._entries) >= _MOST:
                return code, min(count.value, len(self._entries))
            self._entries = (_Entry * min(2 * max(count.value, len(self._entries)) + 5, _MOST))()

    def _plain(self, entry: Any) -> list[Plain]:
        memory = None if entry.memory == _NOT_TOLD else entry.memory
        instances = (entry.gpu_instance, entry.compute_instance)
        return [entry.pid, self._name(entry.pid), memory, *(None if n == _NO_INSTANCE else n for n in instances)]

    def _name(self, pid: int) -> str | None:
        """The process's name; None in a container, where the pid is the host's and may be another process here."""
        try:
            if os.readlink(f"{self._proc}/self/ns/pid") != _FIRST_PID_NAMESPACE:  # noqa: PTH115  # pathlib costs 0.4 MiB
                return None
            return read_file(f"{self._proc}/{pid}/comm", _LONGEST_NAME).decode("utf-8", "replace").strip() or None
        except OSError:  # the process ended, or is hidden: it has no name for us
            return None


def find_host_engine(proc: str = "/proc") -> int | None:
    """Return the pid of a DCGM host engine; None where none runs, or none is to be seen from this container."""
    pids = (name for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208  # pathlib costs 0.4 MiB
    return next((int(pid) for pid in pids if _program(f"{proc}/{pid}/comm") in _HOST_ENGINES), None)


def _program(path: str) -> bytes:
    try:
        return read_file(path, _LONGEST_NAME).strip()
    except OSError:  # the process ended
        return b""


class ProcessUse:
    """Asks for the samples that are newer than the last one, whose time stamp it keeps."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._clock = clock
        self._newest = 0

    def read(self, asker: Asker) -> Plain:
        """The pid and the percent of each process that did something since the poll before; None if nothing was sampled yet."""
        return asker.own(CALL, partial(self._samples, asker.handle))

    def _samples(self, handle: Any) -> list[Plain] | Refused | None:
        if self._newest > self._clock() * 1e6:  # somebody set the clock back: everything would be older
            self._newest = 0
        since = self._newest
        found: Any = self._nvml.call(CALL, handle, since)
        if isinstance(found, Refused) and found.code not in _NO_SAMPLES:
            return found
        samples = [] if isinstance(found, Refused) else sorted(found[:_MOST], key=lambda sample: int(sample.timeStamp))
        self._newest = max([since, *(int(sample.timeStamp) for sample in samples[-1:])])
        # The first answer has whatever the driver still holds, of processes that ended long ago, too.
        percents: dict[int, int] = {int(one.pid): int(one.smUtil) for one in samples if int(one.timeStamp) > since}
        return [[pid, percent] for pid, percent in percents.items()] if since else None
