"""Calls a vendor's Python binding. A failed call returns the number of its error instead of raising an exception."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# Our own error number: the library returned text that cannot be decoded.
UNREADABLE = -1


class Refused:
    """The result of a failed call. `code` is the error number."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class LibraryError(Exception):
    """An error that affects more than one call. `code` is the error number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code} of the library")
        self.code = code


class DeviceLostError(LibraryError):
    """The device no longer responds."""


class SessionOverError(LibraryError):
    """The library must be initialised again before it can be used."""


class Binding:
    """A Python binding such as pynvml. It raises `mismatches` for functions that the library does not have."""

    module: Any = None
    error: Any = Exception
    mismatches: tuple[type[Exception], ...] = ()

    def __init__(self, function_not_found: int) -> None:
        self._not_found = Refused(function_not_found)

    def require_call(self, name: str, *arguments: Any) -> Any:
        """Return the result of a call that must succeed. Raises SessionOverError if it fails."""
        result = self.call(name, *arguments)
        if isinstance(result, Refused):
            raise SessionOverError(result.code)
        return result

    def call(self, name: str, *arguments: Any, plain: Callable[[Any], Any] | None = None) -> Any:
        """Return the result of a function, or Refused if it fails or is missing. `plain` converts a structure to plain data."""
        function = getattr(self.module, name, None)
        if function is None:  # the binding does not have this function
            return self._not_found
        try:
            result = function(*arguments)
        except self.error as error:
            return Refused(int(error.value))
        except self.mismatches:  # the library or driver does not have this function
            return self._not_found
        except ValueError:  # the text cannot be decoded
            return Refused(UNREADABLE)
        try:
            return result if plain is None else plain(result)
        except ValueError:  # a text in the structure cannot be decoded
            return Refused(UNREADABLE)


def can_be_loaded(library: str) -> bool:
    """Return whether the library and all its dependencies can be loaded."""
    try:
        ctypes.CDLL(library)
    except OSError:  # not installed, or a dependency is missing
        return False
    return True


def to_plain(value: Any) -> Plain:
    """Return numbers and strings unchanged, tuples as lists, and bytes decoded: some functions of pynvml return bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, tuple) else value


def members(*names: str) -> Callable[[Any], Plain]:
    """Return a function that converts a structure to a dictionary of these members."""
    return lambda result: {name: int(getattr(result, name)) for name in names}


def bus_id(text: object) -> str:
    """Return the PCI address `0000:1a:00.0` for `00000000:1A:00.0`."""
    domain, _, rest = str(text).partition(":")
    return f"{int(domain, 16):04x}:{rest}".lower()


@cache
def error_answer(code: int) -> Plain:
    """Return `{"error": code}`. Cached, because old drivers return hundreds of errors per poll."""
    return {"error": code}


def error_in(answer: Plain) -> int | None:
    """Return the error number in an answer, or None if the answer is a value."""
    return answer.get("error") if isinstance(answer, dict) else None


def is_value(answer: Plain) -> bool:
    """Return whether an answer is a value, not an error or None."""
    return answer is not None and error_in(answer) is None
