"""A module in place of pynvml for machines without a compiler: it returns the answers of a profile of tests/nvml_fake.

    with reading(StandIn("h100"), tmp_path) as bench: ...

Like the old package that shadows pynvml, it gives no access to functions of the library. It has no events and no GPM.
"""

# ruff: noqa: N802  # the library's names

import ctypes
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from kits.fake_nvml.build import SOURCES, level_of, symbols
from kits.fake_nvml.library import ALL_LINKS
from kits.fake_nvml.profile import load_profile
from kits.fake_nvml.reader import Bench, Seconds, ThisProcess, here

_INVALID_ARGUMENT, _NOT_SUPPORTED, _NOT_FOUND, _FUNCTION_NOT_FOUND, _GPU_IS_LOST = 2, 3, 6, 13, 15
_PLACES_OF_GPU = 8
# Structures, by the call that fills them, with their members in the order of the profile's words.
_STRUCTURES = {
    "nvmlDeviceGetUtilizationRates": ("gpu", "memory"),
    "nvmlDeviceGetMemoryInfo": ("total", "free", "used"),
    "nvmlDeviceGetMemoryInfo_v2": ("total", "reserved", "free", "used"),
    "nvmlDeviceGetBAR1MemoryInfo": ("bar1Total", "bar1Free", "bar1Used"),
    "nvmlDeviceGetAttributes_v2": ("multiprocessorCount", *"abcdefg", "memorySizeMB"),
}
_TEXTS = ("Name", "UUID", "Serial", "BoardPartNumber", "VbiosVersion", "GspFirmwareVersion", "Version")
# nvmlFieldValue_t, and the number and form of each of its types.
_FIELD = struct.Struct("IIqqII8s")
_KINDS = dict(zip(("double", "uint", "ulong", "ullong", "llong", "int"), enumerate("dILQqi"), strict=True))
# The fields of `same_as_call` in fields.c: call, which word of its answer, kind.
_SAME_AS_CALL = {
    int(number): (call, int(word), kind.lower())
    for number, call, word, kind in re.findall(
        r'\{(\d+), "([\w.]+)", (\d), (\w+)\}', (SOURCES / "fields.c").read_text("utf-8")
    )
}


class NVMLError(Exception):
    """The error that pynvml raises; `value` is the library's number."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class StandIn(ModuleType):
    """The pynvml of one node. `answers` are as in the fake's state file and may be changed; `lost` are lost GPUs."""

    NVMLError = NVMLError

    def __init__(self, profile: str, driver: str | None = None) -> None:
        super().__init__("pynvml")
        self.__spec__ = ModuleSpec("pynvml", None)
        node = load_profile(profile)
        answers = node.answers(driver or node.driver).items()
        self.answers = {
            str(key): text for key, text in answers if not key.call.startswith(("nvmlGpm", "nvmlDeviceGetSupportedEv"))
        }
        self.nvmlShutdown = lambda: None
        self.lost: set[int] = set()
        self.init_fails = 0
        self._symbols = frozenset(symbols(level_of(driver or node.driver)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return partial(self._call, name)

    def nvmlInitWithFlags(self, _flags: int) -> None:
        if self.init_fails:
            raise NVMLError(self.init_fails)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.answers["node.gpus"].split())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> ctypes.c_void_p:
        self._check(index)
        return ctypes.c_void_p(index * _PLACES_OF_GPU + 1)

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> ctypes.c_void_p:
        wanted = [self._bus_id(f"gpu.{index}").endswith(bus_id.upper()) for index in range(self.nvmlDeviceGetCount())]
        return self.nvmlDeviceGetHandleByIndex(wanted.index(True))

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:
        return len(self._migs(handle))

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> ctypes.c_void_p:
        if str(index) not in self._migs(handle):
            raise NVMLError(_NOT_FOUND)
        return ctypes.c_void_p(handle.value + index + 1)

    def nvmlDeviceGetPciInfo(self, handle: Any) -> SimpleNamespace:
        return SimpleNamespace(busId=self._bus_id(self._device_key(handle)))

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        return self._call(f"nvmlDeviceGetMemoryInfo{'_v2' if version else ''}", handle)

    def nvmlDeviceGetMemoryAffinity(self, handle: Any, _size: int, _scope: int) -> list[int]:
        return [self._call("nvmlDeviceGetMemoryAffinity", handle)]

    def nvmlDeviceGetFieldValues(self, handle: Any, ids: Sequence[tuple[int, int]]) -> bytes:
        device = self._device_key(handle)
        return b"".join(self._field(device, number, scope) for number, scope in ids)

    def nvmlDeviceGetProcessUtilization(self, handle: Any, since: int) -> list[SimpleNamespace]:
        words = self._words(f"{self._device_key(handle)}.nvmlDeviceGetProcessUtilization")
        found = (word.split(":") for word in words)
        return [SimpleNamespace(pid=int(pid), smUtil=int(percent), timeStamp=since + 1) for pid, percent, *_ in found]

    def _call(self, name: str, *arguments: Any) -> Any:
        """Answer any call whose result is numbers, a text or a list of processes."""
        self._look_up(name)
        handle, *selectors = arguments or (None,)
        key = ".".join([self._device_key(handle), name.replace("TemperatureV", "Temperature"), *map(str, selectors)])
        words = self._words(key)
        if "RunningProcesses" in name:
            return [_process(word) for word in words]
        if name.endswith(_TEXTS):
            return " ".join(words)
        numbers = [int(word, 0) for word in words]
        if name in _STRUCTURES:
            return SimpleNamespace(**dict(zip(_STRUCTURES[name], numbers, strict=True)))
        return numbers[0] if len(numbers) == 1 else tuple(numbers)

    def _look_up(self, name: str) -> None:
        """Raise the error of a driver that does not have the call."""
        if not any(f"{name}{version}" in self._symbols for version in ("", "_v2", "_v3")):
            raise NVMLError(_FUNCTION_NOT_FOUND)

    def _words(self, key: str) -> list[str]:
        text = self.answers.get(key, f"!{_NOT_SUPPORTED}")
        if text.startswith("!"):
            raise NVMLError(int(text[1:]))
        return text.split()

    def _check(self, gpu: int) -> None:
        if gpu in self.lost:
            raise NVMLError(_GPU_IS_LOST)

    def _device_key(self, handle: Any) -> str:
        if handle is None:
            return "node"
        gpu, part = divmod(handle.value - 1, _PLACES_OF_GPU)
        self._check(gpu)
        return f"mig.{gpu}.{part - 1}" if part else f"gpu.{gpu}"

    def _migs(self, handle: Any) -> list[str]:
        return self._words(f"node.migs.{self._device_key(handle).split('.')[1]}")

    def _bus_id(self, device: str) -> str:
        domain, bus, device, *_ = map(int, self._words(f"{device}.nvmlDeviceGetPciInfo_v3"))
        return f"{domain:08X}:{bus:02X}:{device:02X}.0"

    def _field(self, device: str, number: int, scope: int) -> bytes:
        if number >= int(self.answers["node.field_limit"]):
            return _FIELD.pack(number, scope, 1, 0, 0, _INVALID_ARGUMENT, b"")
        text = self.answers.get(f"{device}.field.{number}.{'all' if scope == ALL_LINKS else scope}")
        if text is None:
            text = self._of_a_call(device, number) if scope == 0 else f"!{_NOT_SUPPORTED}"
        if text.startswith("!"):
            return _FIELD.pack(number, scope, 1, 0, 0, int(text[1:]), b"")
        kind, value = text.split()
        numbered, form = _KINDS[kind]
        held = struct.pack(form, float(value) if form == "d" else int(value))
        return _FIELD.pack(number, scope, 1, 0, numbered, 0, held)

    def _of_a_call(self, device: str, number: int) -> str:
        """Return a field whose value is the result of another call."""
        call, word, kind = _SAME_AS_CALL.get(number, ("", 0, ""))
        text = self.answers.get(f"{device}.{call}", f"!{_NOT_SUPPORTED}")
        return text if text.startswith("!") else f"{kind} {text.split()[word]}"


def _process(word: str) -> SimpleNamespace:
    names = ("pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId")
    found = (None if text == "-" else int(text) for text in word.split(":"))
    return SimpleNamespace(**dict(zip(names, found, strict=True)))


@contextmanager
def reading(stand_in: StandIn, folder: Path) -> Iterator[Bench]:
    """Yield a reader on the stand-in, closed at the end."""
    clock = Seconds(folder / "clock")
    with here(stand_in, lambda _name: True, clock) as stack:
        worker = ThisProcess(clock)
        stack.callback(worker.close)
        yield Bench(stand_in, worker, clock)
