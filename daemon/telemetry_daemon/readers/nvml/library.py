"""The border to pynvml: every call gives a value or the number of its error, and raises nothing."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from telemetry_daemon.readers.nvml import codes

LIBRARY = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class Refused:
    """What a call gives in place of a value: the number of its error."""

    code: int


class Nvml:
    """The module pynvml, imported when the library is there: on other machines it would only cost memory."""

    def __init__(self) -> None:
        self._module: Any = None
        self._mismatch: type[Exception] = Exception

    def load(self) -> Refused | None:
        """Load the library; the refusal when there is none."""
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            return Refused(codes.LIBRARY_NOT_FOUND)
        if self._module is None:
            self._module = importlib.import_module("pynvml")
            # The oldest wheels raise NVMLError in its place.
            self._mismatch = getattr(self._module, "NVMLLibraryMismatchError", self._module.NVMLError)
        return None

    @property
    def module(self) -> Any:
        """pynvml itself, for its structures and constants."""
        return self._module

    def call(self, name: str, *arguments: Any, plain: Callable[[Any], Any] | None = None) -> Any:
        """What the function of that name gives, Refused when it, or the library's own, is not there or fails.

        `plain` turns a structure into plain data: its texts are decoded only there, and may be none.
        """
        function = getattr(self._module, name, None)
        if function is None:  # a wheel older than the call
            return Refused(codes.FUNCTION_NOT_FOUND)
        try:
            found = function(*arguments)
        except self._module.NVMLError as error:
            return Refused(int(error.value))
        except (self._mismatch, TypeError):  # a library, or a wheel, in which the call was another
            return Refused(codes.FUNCTION_NOT_FOUND)
        except UnicodeDecodeError:
            return Refused(codes.UNREADABLE)
        try:
            return found if plain is None else plain(found)
        except ValueError:  # of which UnicodeDecodeError is one
            return Refused(codes.UNREADABLE)

    @property
    def has_raw(self) -> bool:
        """Whether this pynvml lets the library's own functions be called: not the old package that shadows it."""
        return hasattr(self._module, "_nvmlGetFunctionPointer")

    def raw(self, name: str, *arguments: Any) -> int:
        """The return code of the library's own function, for what pynvml asks in two calls and we in one."""
        try:
            return int(self._module._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001  # in every wheel; gpustat leans on it, too
        except self._module.NVMLError as error:
            return int(error.value)


def address(handle: Any) -> int:
    """What tells two handles of one library apart: they are neither hashable nor equal to themselves."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
