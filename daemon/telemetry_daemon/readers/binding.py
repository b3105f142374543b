"""Calls a vendor's Python binding: every call returns a value or an error number and never raises."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The binding could not decode the text that the library returned. No library uses this number.
UNREADABLE = -1


class Refused:
    """The result of a call that failed: the number of its error."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class LibraryError(Exception):
    """An error that concerns more than one call of the library; `code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code} of the library")
        self.code = code


class DeviceLostError(LibraryError):
    """This device no longer answers."""


class SessionOverError(LibraryError):
    """The library as a whole no longer answers."""


class Binding:
    """A module such as pynvml, imported only if the library is installed. `mismatches` are raised for calls that are missing in either."""

    module: Any = None
    error: Any = Exception
    mismatches: tuple[type[Exception], ...] = ()

    def __init__(self, function_not_found: int) -> None:
        self._not_found = Refused(function_not_found)

    def needed(self, name: str, *arguments: Any) -> Any:
        """Return the result of a function that the reader cannot work without. Raise SessionOverError if the call fails."""
        given = self.call(name, *arguments)
        if isinstance(given, Refused):
            raise SessionOverError(given.code)
        return given

    def call(self, name: str, *arguments: Any, plain: Callable[[Any], Any] | None = None) -> Any:
        """Return the function's result, or Refused if the call fails or is missing. `plain` converts a structure to plain data and decodes its texts."""
        function = getattr(self.module, name, None)
        if function is None:  # the module is older than the call
            return self._not_found
        try:
            found = function(*arguments)
        except self.error as error:
            return Refused(int(error.value))
        except self.mismatches:  # the library or driver is older than the call
            return self._not_found
        except ValueError:  # invalid text, which raises UnicodeDecodeError among others
            return Refused(UNREADABLE)
        try:
            return found if plain is None else plain(found)
        except ValueError:  # as above: `plain` decodes the texts of a structure
            return Refused(UNREADABLE)


def can_be_loaded(library: str) -> bool:
    """Return whether the library and all its dependencies can be loaded."""
    try:
        ctypes.CDLL(library)
    except OSError:  # the library cannot be loaded
        return False
    return True


def same(value: Any) -> Plain:
    """Return a number or a text unchanged, a pair as a list, and bytes decoded: some pynvml functions forget to decode."""
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, tuple) else value


def members(*names: str) -> Callable[[Any], Plain]:
    """Return a function that converts a structure to an object with these members."""
    return lambda found: {name: int(getattr(found, name)) for name in names}


def bus_id(text: object) -> str:
    """Return `0000:1a:00.0` for `00000000:1A:00.0`, as the libraries print PCI addresses."""
    domain, _, rest = str(text).partition(":")
    return f"{int(domain, 16):04x}:{rest}".lower()


@cache
def failed(code: int) -> Plain:
    """Return the answer for an error number. Answers are shared, because an old driver returns hundreds of errors."""
    return {"error": code}


def error_in(answer: Plain) -> int | None:
    """Return the error number in an answer, or None if the answer is a value."""
    return answer.get("error") if isinstance(answer, dict) else None


def is_answered(answer: Plain) -> bool:
    """Return whether an answer is a value."""
    return answer is not None and error_in(answer) is None
