"""Calls a vendor's Python binding."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# Our own error code for a string that cannot be decoded.
UNREADABLE = -1


class FailedCall:
    """The result of a failed call, with the library's error code."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class LibraryError(Exception):
    """An error that affects several calls, with the library's error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the library returned error {code}")
        self.code = code


class DeviceLostError(LibraryError):
    """The device no longer responds."""


class SessionEndedError(LibraryError):
    """The library must be initialised again before it can be used."""


class Binding:
    """A Python binding of a vendor's library, such as pynvml."""

    module: Any = None
    error_type: Any = Exception
    mismatch_errors: tuple[type[Exception], ...] = ()

    def __init__(self, function_not_found: int) -> None:
        self._not_found = FailedCall(function_not_found)

    def require_call(self, name: str, *arguments: Any) -> Any:
        """Return the result of a call. Raises SessionEndedError if the call fails."""
        result = self.call(name, *arguments)
        if isinstance(result, FailedCall):
            raise SessionEndedError(result.code)
        return result

    def call(self, name: str, *arguments: Any, convert: Callable[[Any], Any] | None = None) -> Any:
        """Return the result of a library function, or FailedCall if the function fails or does not exist."""
        function = getattr(self.module, name, None)
        if function is None:  # the binding does not have this function
            return self._not_found
        try:
            result = function(*arguments)
        except self.error_type as error:
            return FailedCall(int(error.value))
        except self.mismatch_errors:  # the library or driver does not have this function
            return self._not_found
        except ValueError:  # the returned string cannot be decoded
            return FailedCall(UNREADABLE)
        try:
            return result if convert is None else convert(result)
        except ValueError:  # a string in the returned structure cannot be decoded
            return FailedCall(UNREADABLE)


def can_be_loaded(library: str) -> bool:
    """Return whether the library and all its dependencies can be loaded."""
    try:
        ctypes.CDLL(library)
    except OSError:  # the library or a dependency is missing
        return False
    return True


def to_plain(value: Any) -> Plain:
    """Convert a value to a form that JSON can represent."""
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, tuple) else value


def members_converter(*names: str) -> Callable[[Any], Plain]:
    """Return a function that converts a structure with these members to a dictionary."""
    return lambda result: {name: int(getattr(result, name)) for name in names}


def normalize_bus_id(text: object) -> str:
    """Return the PCI address as the kernel writes addresses, such as `0000:1a:00.0`."""
    domain, _, rest = str(text).partition(":")
    return f"{int(domain, 16):04x}:{rest}".lower()


@cache  # old drivers return hundreds of errors per poll, so equal errors share one object
def error_result(code: int) -> Plain:
    """Return the plain data for a call that failed with this code."""
    return {"error": code}


def error_code(result: Plain) -> int | None:
    """Return the error code in a result, or None if the result is not an error."""
    return result.get("error") if isinstance(result, dict) else None


def is_value(result: Plain) -> bool:
    """Return whether a result is a value: neither an error nor None."""
    return result is not None and error_code(result) is None
