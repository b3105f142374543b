"""MTML through pymtml, the vendor's binding."""

from __future__ import annotations

import importlib

from telemetry_daemon.readers.binding import Binding, Refused, can_be_loaded
from telemetry_daemon.readers.mtml import codes

# In the order in which the binding looks for them.
LIBRARIES = ("libmtml.so.2", "libmtml.so")


class Mtml(Binding):
    """The module pymtml. Only its calls `mtml…` are made: those that look like NVML's say 0 for what the library cannot tell."""

    def __init__(self) -> None:
        super().__init__(codes.FUNCTION_NOT_FOUND)

    def load(self) -> Refused | None:
        """Load the library and its binding; the refusal when there is none."""
        if not any(map(can_be_loaded, LIBRARIES)):
            return Refused(codes.LIBRARY_NOT_FOUND)
        if self.module is None:
            try:
                module = importlib.import_module("pymtml")
            except ImportError:
                return Refused(codes.NO_BINDING)
            if not hasattr(module, "mtmlLibraryInit"):
                return Refused(codes.NO_BINDING)  # an unrelated package of that name
            self.module, self.error = module, module.MTMLError
        return None
