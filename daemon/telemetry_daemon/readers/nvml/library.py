"""NVML through pynvml, and the library's own functions where pynvml's are not enough; pynvml is imported without ctypes.util."""

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
# nvmlFieldValue_t: number, scope, time stamp, latency, type, return code, value.
_FIELD_VALUE = struct.Struct("IIqqII8s")
FieldValue = tuple[int, int, int, int, int, int, bytes]


def find_library(name: str) -> str | None:
    """What ctypes.util says, imported now."""
    from ctypes import util

    return util.find_library(name)


@contextmanager
def late() -> Iterator[None]:
    """Within it `from ctypes.util import find_library` gives ours; afterwards ctypes.util is the real module for everybody."""
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
        """Load the library; SessionOverError when there is none."""
        if not can_be_loaded(LIBRARY):
            raise SessionOverError(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            with late():
                self.module = importlib.import_module("pynvml")
            self.error = self.module.NVMLError
            # The oldest wheels raise NVMLError in its place. A TypeError: in this wheel the call was another.
            self.mismatches = (getattr(self.module, "NVMLLibraryMismatchError", self.error), TypeError)

    @property
    def has_raw(self) -> bool:
        """Whether this pynvml lets the library's own functions be called: not the old package that shadows it."""
        return hasattr(self.module, "_nvmlGetFunctionPointer")

    def field_values(self, handle: Any, ids: Sequence[tuple[int, int]]) -> list[FieldValue] | Refused:
        """What the driver answers for each number and scope. pynvml's structures cost a Python function for each member."""
        if not self.has_raw:
            given = self.call("nvmlDeviceGetFieldValues", handle, ids)
            return given if isinstance(given, Refused) else list(_FIELD_VALUE.iter_unpack(given))
        asked = ctypes.create_string_buffer(_FIELD_VALUE.size * len(ids))
        for place, (number, scope) in enumerate(ids):
            _FIELD_VALUE.pack_into(asked, _FIELD_VALUE.size * place, number, scope, 0, 0, 0, 0, b"")
        code = self.raw("nvmlDeviceGetFieldValues", handle, len(ids), asked)
        return Refused(code) if code else list(_FIELD_VALUE.iter_unpack(asked))

    def raw(self, name: str, *arguments: Any) -> int:
        """The return code of the library's own function, for what pynvml asks in two calls and we in one."""
        try:
            return int(self.module._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001  # in every wheel; gpustat leans on it, too
        except self.module.NVMLError as error:
            return int(error.value)


def address(handle: Any) -> int:
    """What tells two handles of one library apart: they are neither hashable nor equal to themselves."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
