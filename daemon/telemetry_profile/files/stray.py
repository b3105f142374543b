"""Reads JSON value by value where blocks do not decode: at the ends of a trace, in damaged ones, and in what Python calls JSON, such as NaN."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
from typing_extensions import Self

from telemetry_profile.files.events import Event

NEAR_THE_END = 16
"""A number, a literal or an escape that is cut off shows no further from the end."""

_NEXT_EVENT = re.compile(r"\}\s*,\s*(?=\{\s*\")")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_BETWEEN = re.compile(r"[\s,]*")


class _Printed(float):
    """A number that remembers its digits."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


class IncompleteError(ValueError):
    """The text ends inside a value."""


class MalformedError(ValueError):
    """The text is no JSON."""


class UnreadableError(MalformedError):
    """The text is JSON that Python does not read: a number of thousands of digits, or lists in lists in lists."""


_DECODER = json.JSONDecoder(parse_float=_Printed, parse_constant=lambda _name: None)


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) - NEAR_THE_END or error.msg.startswith("Unterminated string"):
            raise IncompleteError from None
        raise MalformedError from None
    except (ValueError, RecursionError):
        raise UnreadableError from None


@dataclass(slots=True)
class Walk:
    """Events found one by one; `used` counts characters. It ended before something incomplete where `is_last` is not set."""

    events: list[Event]
    used: int = 0
    lost: int = 0
    is_last: bool = False


def walk(text: str) -> Walk:
    """All events that can be read in a text that begins at one; malformed ones are passed over and counted."""
    found = Walk([])
    while True:
        found.used = _after(_BETWEEN, text, found.used)
        if found.used == len(text):
            return found
        if text[found.used] == "]":
            found.used, found.is_last = found.used + 1, True
            return found
        try:
            value, found.used = _value_or_none(text, found.used)
        except IncompleteError:  # the rest of it comes with the next piece
            return found
        _keep(found, value)


def _value_or_none(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, None for one that cannot be read, and where to go on. Raises IncompleteError."""
    try:
        return value_at(text, start)
    except UnreadableError:
        return None, _end_of_value(text, start)
    except MalformedError:
        return None, next_event(text, start)


def _end_of_value(text: str, start: int) -> int:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, start):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth == 0:
            return match.end()
    raise IncompleteError


def next_event(text: str, start: int) -> int:
    """Where the next event seems to begin behind a broken one; the end of the text where none is seen."""
    seen = _NEXT_EVENT.search(text, start)
    return seen.end() if seen else len(text)


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _keep(found: Walk, value: object) -> None:
    if isinstance(value, dict):
        found.events.append(_event(value))
    else:
        found.lost += 1


def _event(value: dict[str, Any]) -> Event:
    return Event(
        _text(value.get("ph")),
        _text(value.get("cat")),
        _text(value.get("name")),
        _lane(value.get("pid", 0)),
        _lane(value.get("tid", 0)),
        _raw(value.get("ts")),
        _raw(value.get("dur")),
        _raw(value.get("args")),
    )


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _lane(value: object) -> int | str:
    return value if isinstance(value, int | str) else str(value)


def _raw(value: object) -> msgspec.Raw:
    printed = value.text if isinstance(value, _Printed) else json.dumps(value)
    return msgspec.Raw(printed.encode("ascii"))
