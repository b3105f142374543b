"""NVML through pynvml, with direct library calls where pynvml is not enough. pynvml is imported without ctypes.util."""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from telemetry_daemon.readers.binding import Binding, Refused, SessionOverError, can_be_loaded
from telemetry_daemon.readers.nvml import codes

_UTIL = "ctypes.util"
LIBRARY = "libnvidia-ml.so.1"
# nvmlFieldValue_t: number, scope, timestamp, latency, type, return code, value.
_FIELD_VALUE = struct.Struct("IIqqII8s")
FieldValue = tuple[int, int, int, int, int, int, bytes]


def find_library(name: str) -> str | None:
    """Call ctypes.util.find_library, imported on first use."""
    from ctypes import util

    return util.find_library(name)


@contextmanager
def late() -> Iterator[None]:
    """Replace ctypes.util within this context, so that `from ctypes.util import find_library` returns the lazy function."""
    if _UTIL in sys.modules:
        yield
        return
    stand_in = ModuleType(_UTIL)
    vars(stand_in)["find_library"] = find_library
    sys.modules[_UTIL] = stand_in
    try:
        yield
    finally:
        del sys.modules[_UTIL]


class Nvml(Binding):
    """The module pynvml."""

    def __init__(self) -> None:
        super().__init__(codes.FUNCTION_NOT_FOUND)

    def load(self) -> None:
        """Load the library. Raise SessionOverError if it is missing."""
        if not can_be_loaded(LIBRARY):
            raise SessionOverError(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            with late():
                self.module = importlib.import_module("pynvml")
            self.error = self.module.NVMLError
            # The oldest wheels raise NVMLError itself. A TypeError means that this wheel has another signature.
            self.mismatches = (getattr(self.module, "NVMLLibraryMismatchError", self.error), TypeError)

    @property
    def has_raw(self) -> bool:
        """Return whether direct library calls work; an old package of the same name lacks them."""
        return hasattr(self.module, "_nvmlGetFunctionPointer")

    def field_values(self, handle: Any, ids: Sequence[tuple[int, int]]) -> list[FieldValue] | Refused:
        """Return the driver's answer for each number and scope. In pynvml's structures each member costs a function call."""
        if not self.has_raw:
            given = self.call("nvmlDeviceGetFieldValues", handle, ids)
            return given if isinstance(given, Refused) else list(_FIELD_VALUE.iter_unpack(given))
        asked = ctypes.create_string_buffer(_FIELD_VALUE.size * len(ids))
        for position, (number, scope) in enumerate(ids):
            _FIELD_VALUE.pack_into(asked, _FIELD_VALUE.size * position, number, scope, 0, 0, 0, 0, b"")
        code = self.raw("nvmlDeviceGetFieldValues", handle, len(ids), asked)
        return Refused(code) if code else list(_FIELD_VALUE.iter_unpack(asked))

    def raw(self, name: str, *arguments: Any) -> int:
        """Return the return code of a direct library call, which replaces two calls of pynvml."""
        try:
            return int(self.module._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001 # in every wheel; gpustat relies on it, too
        except self.module.NVMLError as error:
            return int(error.value)


def address(handle: Any) -> int:
    """Return the address that identifies a handle: handles are neither hashable nor comparable."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
