"""NVML's error codes, and their consequences for the call, the GPU or the library."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_daemon.readers.binding import UNREADABLE
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Reason, State

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
LIB_RM_VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
NOT_READY = 27
GPU_NOT_FOUND = 28
UNKNOWN = 999
# Our own error code: the handle now refers to another device.
ANOTHER_DEVICE = -2

# After one of these errors, a call is not repeated until the next initialisation.
DISABLING_ERRORS = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED, UNREADABLE})
# Some drivers return INVALID_ARGUMENT for a missing field or link.
FIELD_DISABLING_ERRORS = DISABLING_ERRORS | {INVALID_ARGUMENT}
# A WSL driver returned UNKNOWN for the newer version of the memory call.
FALLBACK_ERRORS = DISABLING_ERRORS | {UNKNOWN}
# These errors mean that the GPU is lost.
GPU_LOST_ERRORS = frozenset({GPU_IS_LOST, RESET_REQUIRED})
# If all calls fail with these errors, the GPU is lost.
GENERIC_ERRORS = frozenset({UNKNOWN, NOT_READY})
# After these errors, the library must be initialised again.
SESSION_ENDING_ERRORS = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, GPU_NOT_FOUND})

_ACCESS_REMEDY = (
    "allow access to /dev/nvidiactl and /dev/nvidia* (DeviceAllow, the device cgroup); restart a container that lost"
    " this access after 'systemctl daemon-reload'"
)
# Maps an error code to (source state, reason, message with the remedy).
REFUSALS: Mapping[int, tuple[State, Reason | None, str]] = {
    LIBRARY_NOT_FOUND: ("missing", None, "libnvidia-ml.so.1 is not installed: install the NVIDIA driver"),
    DRIVER_NOT_LOADED: ("failed", "driver_gone", "the kernel module is not loaded: modprobe nvidia"),
    UNINITIALIZED: ("failed", "driver_gone", "the library lost its driver and will be initialised again"),
    LIB_RM_VERSION_MISMATCH: (
        "failed",
        "library_mismatch",
        "the library and the kernel module have different versions: reboot, or reload the module nvidia",
    ),
    ANOTHER_DEVICE: ("failed", "driver_gone", "a handle belongs to another GPU; the library will be initialised again"),
    NO_PERMISSION: ("failed", "no_permission", f"not permitted: {_ACCESS_REMEDY}"),
    OPERATING_SYSTEM: ("failed", "no_permission", f"the device nodes cannot be opened: {_ACCESS_REMEDY}"),
}
# During initialisation, an unknown error usually means that a device node cannot be opened.
REFUSALS_AT_INIT: Mapping[int, tuple[State, Reason | None, str]] = {
    **REFUSALS,
    UNKNOWN: ("failed", "no_permission", f"unknown error: {_ACCESS_REMEDY}"),
}
_OTHER_REFUSAL: tuple[State, Reason | None, str] = (
    "failed",
    "driver_gone",
    "NVML is not usable: search the kernel log for NVRM",
)


def refusal(code: int, refusals: Mapping[int, tuple[State, Reason | None, str]] = REFUSALS) -> ReaderRefusal:
    """Return the exception for an error code of NVML."""
    state, reason, text = refusals.get(code, _OTHER_REFUSAL)
    return ReaderRefusal(state, reason, f"{text} (NVML error {code})")
