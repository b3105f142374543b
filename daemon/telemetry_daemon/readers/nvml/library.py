"""Loads NVML through pynvml, and calls it directly where pynvml is slow or incomplete."""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from telemetry_daemon.readers.binding import Binding, FailedCall, SessionEndedError, can_be_loaded
from telemetry_daemon.readers.nvml import codes
from telemetry_parsers.typing_names import Any

_UTIL_MODULE = "ctypes.util"
LIBRARY = "libnvidia-ml.so.1"
# nvmlFieldValue_t: number, scope, timestamp, latency, type, return code, value.
_FIELD_VALUE = struct.Struct("IIqqII8s")
FieldValue = tuple[int, int, int, int, int, int, bytes]


def find_library(name: str) -> str | None:
    """Call ctypes.util.find_library, which is imported on first use."""
    from ctypes import util

    return util.find_library(name)


@contextmanager
def lazy_ctypes_util() -> Iterator[None]:
    """Let imports of `ctypes.util` in this block get a stand-in, which loads the real module on first use."""
    if _UTIL_MODULE in sys.modules:
        yield
        return
    stand_in = ModuleType(_UTIL_MODULE)
    vars(stand_in)["find_library"] = find_library
    sys.modules[_UTIL_MODULE] = stand_in
    try:
        yield
    finally:
        del sys.modules[_UTIL_MODULE]


class Nvml(Binding):
    """The pynvml binding."""

    def __init__(self) -> None:
        super().__init__(codes.FUNCTION_NOT_FOUND)

    def load(self) -> None:
        """Load the library. Raises SessionEndedError if the library is missing."""
        if not can_be_loaded(LIBRARY):
            raise SessionEndedError(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            with lazy_ctypes_util():
                self.module = importlib.import_module("pynvml")
            self.error_type = self.module.NVMLError
            # The oldest versions of pynvml raise NVMLError itself, or TypeError for unknown arguments.
            self.mismatch_errors = (getattr(self.module, "NVMLLibraryMismatchError", self.error_type), TypeError)

    @property
    def allows_direct_calls(self) -> bool:
        """Return whether this version of pynvml supports direct library calls."""
        return hasattr(self.module, "_nvmlGetFunctionPointer")

    def field_values(self, handle: Any, ids: Sequence[tuple[int, int]]) -> list[FieldValue] | FailedCall:
        """Return the driver's result for each (field number, scope)."""
        if not self.allows_direct_calls:
            values_or_error = self.call("nvmlDeviceGetFieldValues", handle, ids)
            return (
                values_or_error
                if isinstance(values_or_error, FailedCall)
                else list(_FIELD_VALUE.iter_unpack(values_or_error))
            )
        items = ctypes.create_string_buffer(_FIELD_VALUE.size * len(ids))
        for index, (number, scope) in enumerate(ids):
            _FIELD_VALUE.pack_into(items, _FIELD_VALUE.size * index, number, scope, 0, 0, 0, 0, b"")
        code = self.call_directly("nvmlDeviceGetFieldValues", handle, len(ids), items)
        return FailedCall(code) if code else list(_FIELD_VALUE.iter_unpack(items))

    def call_directly(self, name: str, *arguments: Any) -> int:
        """Call a library function without pynvml's wrapper, and return the error code."""
        try:
            return int(self.module._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001 # gpustat uses this private function, too
        except self.module.NVMLError as error:
            return int(error.value)


def handle_address(handle: Any) -> int:
    """Return a handle's address, because handles themselves are not hashable."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
