"""MTML through pymtml, the vendor's binding."""

from __future__ import annotations

import importlib

from telemetry_daemon.readers.binding import Binding, SessionOverError, can_be_loaded
from telemetry_daemon.readers.mtml import codes

# In the order in which the binding looks for them.
LIBRARIES = ("libmtml.so.2", "libmtml.so")


class Mtml(Binding):
    """The module pymtml. Only its calls `mtml…` are made: those that look like NVML's say 0 for what the library cannot tell."""

    def __init__(self) -> None:
        super().__init__(codes.FUNCTION_NOT_FOUND)

    def load(self) -> None:
        """Load the library and its binding; SessionOverError when there is none."""
        if not any(map(can_be_loaded, LIBRARIES)):
            raise SessionOverError(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            try:
                module = importlib.import_module("pymtml")
            except ImportError:
                raise SessionOverError(codes.NO_BINDING) from None
            if not hasattr(module, "mtmlLibraryInit"):
                raise SessionOverError(codes.NO_BINDING)  # an unrelated package of that name
            self.module, self.error = module, module.MTMLError
