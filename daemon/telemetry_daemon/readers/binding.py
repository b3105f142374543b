"""The border to a vendor's Python binding of its library: every call gives a value or the number of its error, and raises nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# No library's number: the binding could not read the text that the library gave.
UNREADABLE = -1


class Refused:
    """What a call gives in place of a value: the number of its error."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class LibraryError(Exception):
    """An error of a library that is more than one call's; `code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code} of the library")
        self.code = code


class DeviceLostError(LibraryError):
    """This device does not answer any more."""


class SessionOverError(LibraryError):
    """The library as a whole does not answer any more."""


class Binding:
    """A module such as pynvml, imported when the library is there: on other machines it would only cost memory.

    `error` is what its functions raise for an error of the library, and `mismatches` are raised by those that the library,
    or the installed module, does not have in this form.
    """

    module: Any = None
    error: Any = Exception
    mismatches: tuple[type[Exception], ...] = ()

    def __init__(self, function_not_found: int) -> None:
        self._not_found = Refused(function_not_found)

    def needed(self, name: str, *arguments: Any) -> Any:
        """What the function of that name gives; SessionOverError when it fails: without it the library is of no use."""
        given = self.call(name, *arguments)
        if isinstance(given, Refused):
            raise SessionOverError(given.code)
        return given

    def call(self, name: str, *arguments: Any, plain: Callable[[Any], Any] | None = None) -> Any:
        """What the function of that name gives, Refused when it, or the library's own, is not there or fails.

        `plain` turns a structure into plain data: its texts are decoded only there, and may be none.
        """
        function = getattr(self.module, name, None)
        if function is None:  # a module older than the call
            return self._not_found
        try:
            found = function(*arguments)
        except self.error as error:
            return Refused(int(error.value))
        except self.mismatches:  # a library or driver older than the call
            return self._not_found
        except ValueError:  # a text that is none, UnicodeDecodeError among them
            return Refused(UNREADABLE)
        try:
            return found if plain is None else plain(found)
        except ValueError:  # as above: a text in a structure is decoded only by `plain`
            return Refused(UNREADABLE)


def can_be_loaded(library: str) -> bool:
    """Whether the library of that name is there, with all that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:  # that it cannot be is the answer
        return False
    return True


def same(value: Any) -> Plain:
    """A number or a text as it is, a pair as a list; some functions of pynvml forget to decode."""
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, tuple) else value


def members(*names: str) -> Callable[[Any], Plain]:
    """The members of a structure as an object."""
    return lambda found: {name: int(getattr(found, name)) for name in names}


def bus_id(text: object) -> str:
    """`0000:1a:00.0`, from what the libraries print as `00000000:1A:00.0`."""
    domain, _, rest = str(text).partition(":")
    return f"{int(domain, 16):04x}:{rest}".lower()


@cache
def failed(code: int) -> Plain:
    """The answer that is an error, one object for each number: a driver that knows little gives hundreds of them."""
    return {"error": code}


def error_in(answer: Plain) -> int | None:
    """The number of the error that an answer is, None for one that is a value."""
    return answer.get("error") if isinstance(answer, dict) else None


def is_answered(answer: Plain) -> bool:
    """Whether an answer is a value."""
    return answer is not None and error_in(answer) is None
