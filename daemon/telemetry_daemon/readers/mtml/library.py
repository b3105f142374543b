"""The border to pymtml: every call gives a value or the number of its error, and raises nothing."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from telemetry_daemon.readers.mtml import codes

# In the order in which the binding looks for them.
LIBRARIES = ("libmtml.so.2", "libmtml.so")


@dataclass(frozen=True, slots=True)
class Refused:
    """What a call gives in place of a value: the number of its error."""

    code: int


class Mtml:
    """The module pymtml, imported when the library is there.

    Only its calls `mtml…` are made: those that look like NVML's say 0 for what the library cannot tell.
    """

    def __init__(self) -> None:
        self._module: Any = None

    def load(self) -> Refused | None:
        """Load the library and its binding; the refusal when there is none."""
        if not any(map(_can_be_loaded, LIBRARIES)):
            return Refused(codes.LIBRARY_NOT_FOUND)
        if self._module is None:
            try:
                module = importlib.import_module("pymtml")
            except ImportError:
                return Refused(codes.NO_BINDING)
            if not hasattr(module, "mtmlLibraryInit"):
                return Refused(codes.NO_BINDING)  # an unrelated package of that name
            self._module = module
        return None

    def call(self, name: str, *arguments: Any, plain: Callable[[Any], Any] | None = None) -> Any:
        """What the function of that name gives, Refused when it, or the library's own, is not there or fails."""
        function = getattr(self._module, name, None)
        if function is None:  # a binding older than the call
            return Refused(codes.FUNCTION_NOT_FOUND)
        try:
            found = function(*arguments)
            return found if plain is None else plain(found)
        except self._module.MTMLError as error:
            return Refused(int(error.value))
        except ValueError:  # a text that is none, UnicodeDecodeError among them
            return Refused(codes.UNREADABLE)


def _can_be_loaded(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:  # that it cannot be is the answer
        return False
    return True
