"""NVML through pynvml, and the library's own functions where pynvml's are not enough."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from telemetry_daemon.readers.binding import Binding, SessionOverError, can_be_loaded
from telemetry_daemon.readers.nvml import codes, late_find_library

LIBRARY = "libnvidia-ml.so.1"


class Nvml(Binding):
    """The module pynvml."""

    def __init__(self) -> None:
        super().__init__(codes.FUNCTION_NOT_FOUND)

    def load(self) -> None:
        """Load the library; SessionOverError when there is none."""
        if not can_be_loaded(LIBRARY):
            raise SessionOverError(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            with late_find_library.late():
                self.module = importlib.import_module("pynvml")
            self.error = self.module.NVMLError
            # The oldest wheels raise NVMLError in its place. A TypeError: in this wheel the call was another.
            self.mismatches = (getattr(self.module, "NVMLLibraryMismatchError", self.error), TypeError)

    @property
    def has_raw(self) -> bool:
        """Whether this pynvml lets the library's own functions be called: not the old package that shadows it."""
        return hasattr(self.module, "_nvmlGetFunctionPointer")

    def raw(self, name: str, *arguments: Any) -> int:
        """The return code of the library's own function, for what pynvml asks in two calls and we in one."""
        try:
            return int(self.module._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001  # in every wheel; gpustat leans on it, too
        except self.module.NVMLError as error:
            return int(error.value)


def address(handle: Any) -> int:
    """What tells two handles of one library apart: they are neither hashable nor equal to themselves."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
