"""Loads MTML through pymtml, the vendor's Python binding, and explains its errors."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from telemetry_daemon.readers.binding import UNREADABLE, Binding, SessionEndedError, can_be_loaded
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Reason, State


DRIVER_NOT_LOADED = 1
DRIVER_FAILURE = 2
NOT_SUPPORTED = 4
NO_PERMISSION = 5
DRIVER_TOO_OLD = 9
DRIVER_TOO_NEW = 10
UNKNOWN = 999
# Error codes of the binding.
UNINITIALIZED = 666
FUNCTION_NOT_FOUND = 667
GPU_IS_LOST = 669
LIBRARY_NOT_FOUND = 670
# Our own error code: the module `pymtml` belongs to another package.
NO_BINDING = -2

# After one of these errors, a call is not repeated.
DISABLING_ERRORS = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, UNREADABLE})
# If no call returns a value, one of these errors means that the card is lost.
CARD_LOST_ERRORS = frozenset({DRIVER_FAILURE, GPU_IS_LOST, UNKNOWN})
# After these errors, the library must be initialised again.
SESSION_ENDING_ERRORS = frozenset({DRIVER_NOT_LOADED, UNINITIALIZED})

_NODES_REMEDY = "run as a user who may open /dev/mtgpu.* and /dev/dri/* (groups render and video)"
_REFUSALS: Mapping[int, tuple[State, Reason | None, str]] = {
    LIBRARY_NOT_FOUND: ("missing", None, "libmtml.so.2 is not installed: install the Moore Threads driver package"),
    NO_BINDING: (
        "missing",
        None,
        "the module pymtml belongs to another package: pip uninstall pymtml, then pip install mthreads-ml-py",
    ),
    DRIVER_NOT_LOADED: ("failed", "driver_gone", "the kernel module is not loaded: modprobe mtgpu"),
    UNINITIALIZED: ("failed", "driver_gone", "the library lost its driver and will be initialised again"),
    NO_PERMISSION: ("failed", "no_permission", _NODES_REMEDY),
    DRIVER_TOO_OLD: ("failed", "library_mismatch", "the driver is too old for the library: update the driver"),
    DRIVER_TOO_NEW: ("failed", "library_mismatch", "the driver is too new for the library: update the library"),
}
_OTHER_REFUSAL: tuple[State, Reason | None, str] = (
    "failed",
    "driver_gone",
    "MTML is not usable: search the kernel log for MTGPU",
)


def refusal(code: int) -> ReaderRefusal:
    """Return the exception for an error code of MTML."""
    state, reason, text = _REFUSALS.get(code, _OTHER_REFUSAL)
    return ReaderRefusal(state, reason, f"{text} (MTML error {code})" if code > 0 else text)


# The binding tries the files in this order.
LIBRARIES = ("libmtml.so.2", "libmtml.so")


class Mtml(Binding):
    """The Python binding pymtml. Only its `mtml…` functions are used."""

    def __init__(self) -> None:
        super().__init__(FUNCTION_NOT_FOUND)

    def load(self) -> None:
        """Load the library and its binding. Raises SessionEndedError if one is missing."""
        if not any(map(can_be_loaded, LIBRARIES)):
            raise SessionEndedError(LIBRARY_NOT_FOUND)
        if self.module is None:
            try:
                module = importlib.import_module("pymtml")
            except ImportError:
                raise SessionEndedError(NO_BINDING) from None
            if not hasattr(module, "mtmlLibraryInit"):
                raise SessionEndedError(NO_BINDING)  # an unrelated package named pymtml
            self.module, self.error_type = module, module.MTMLError
