"""Strict reading of plain JSON data from outside: every error names the place and what was expected there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from telemetry_parsers.model import Plain

T = TypeVar("T")

_LONGEST_QUOTE = 40
_LARGEST_WHOLE = 2**63
_LARGEST_NUMBER = sys.float_info.max


class CodecError(ValueError):
    """Plain data that is not what it should be; `path` says where."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text


def unexpected(path: str, expected: str, value: Plain) -> CodecError:
    """The error for a value of the wrong kind; it quotes the start of a short value and names the type of another."""
    short = isinstance(value, str | float | None) or (isinstance(value, int) and value.bit_length() <= 64)
    shown = repr(value) if short else type(value).__name__
    if len(shown) > _LONGEST_QUOTE:
        shown = shown[:_LONGEST_QUOTE] + "…"
    return CodecError(path, f"expected {expected}, found {shown}")


class Fields:
    """An object of plain data with exactly these keys, read one field at a time."""

    __slots__ = ("_path", "_values")

    def __init__(self, plain: Plain, path: str, keys: frozenset[str]) -> None:
        if not isinstance(plain, dict):
            raise unexpected(path, "an object", plain)
        if plain.keys() != keys:
            raise _wrong_keys(plain, path, keys)
        self._values: dict[str, Any] = plain
        self._path = path

    def path(self, key: str) -> str:
        """Where a field stands, as errors name it."""
        return f"{self._path}.{key}" if self._path else key

    def any(self, key: str) -> Plain:
        """The field as it is."""
        return self._values[key]

    def text(self, key: str) -> str:
        """A string."""
        value = self._values[key]
        if not isinstance(value, str):
            raise unexpected(self.path(key), "a string", value)
        return value

    def text_or_none(self, key: str) -> str | None:
        """A string or null."""
        return None if self._values[key] is None else self.text(key)

    def word(self, key: str, words: Sequence[T]) -> T:
        """One of a closed set of words."""
        value = self._values[key]
        for word in words:
            if word == value and isinstance(value, str):
                return word
        raise unexpected(self.path(key), "one of " + " ".join(map(str, words)), value)

    def word_or_none(self, key: str, words: Sequence[T]) -> T | None:
        """One of a closed set of words, or null."""
        return None if self._values[key] is None else self.word(key, words)

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._values[key]
        if not isinstance(value, bool):
            raise unexpected(self.path(key), "true or false", value)
        return value

    def whole(self, key: str) -> int:
        """A whole number of at most 64 bits."""
        value = self._values[key]
        if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST_WHOLE <= value < _LARGEST_WHOLE:
            raise unexpected(self.path(key), "a whole number of at most 64 bits", value)
        return value

    def whole_or_none(self, key: str) -> int | None:
        """A whole number or null."""
        return None if self._values[key] is None else self.whole(key)

    def number(self, key: str) -> float:
        """A finite number."""
        value = self._values[key]
        if type(value) is float and -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:
            return value  # thousands of readings: their paths are made for errors only
        return finite(value, self.path(key))

    def number_or(self, key: str, missing: T) -> float | T:
        """A finite number, or `missing` for null."""
        return missing if self._values[key] is None else self.number(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return texts(self._values[key], self.path(key))

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A list of pairs of strings."""
        return self.items(key, _pair)

    def items(self, key: str, read: Callable[[Plain, str], T]) -> tuple[T, ...]:
        """A list, each item read by `read(item, its path)`."""
        path = self.path(key)
        return tuple(read(item, f"{path}[{place}]") for place, item in enumerate(_sequence(self._values[key], path)))


def finite(value: Plain, path: str) -> float:
    """A finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected(path, "a number", value)
    if not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:  # NaN compares false, an int may be larger than any float
        raise CodecError(path, "expected a finite number")
    return float(value)


def texts(value: Plain, path: str) -> tuple[str, ...]:
    """A list of strings as a tuple."""
    for place, item in enumerate(_sequence(value, path)):
        if not isinstance(item, str):
            raise unexpected(f"{path}[{place}]", "a string", item)
    return tuple(value)


def jsonable(value: Plain, path: str) -> Plain:
    """The value itself, when it is made of JSON's types with finite numbers only."""
    pending: list[tuple[Plain, str]] = [(value, path)]
    while pending:
        item, place = pending.pop()
        if item is None or isinstance(item, str | bool):
            continue
        if isinstance(item, int | float):
            finite(item, place)
        else:
            pending.extend(_inside(item, place))
    return value


def encode_line(plain: Plain) -> str:
    """Compact JSON on one line, pure ASCII, without the line end; NaN and infinity are refused."""
    try:
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError("", f"not plain data: {error}") from None


def decode_line(line: str | bytes) -> Plain:
    """The plain data of one line of JSON; NaN and infinity are refused."""
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise CodecError("", "not JSON: nested too deeply") from None
    except ValueError as error:
        raise CodecError("", f"not JSON: {error}") from None


def _refuse_constant(name: str) -> Plain:
    raise ValueError(f"{name} is not a number")


def _inside(item: Plain, path: str) -> Iterator[tuple[Plain, str]]:
    if isinstance(item, list):
        yield from ((inner, f"{path}[{place}]") for place, inner in enumerate(item))
    elif isinstance(item, dict):
        for key, inner in item.items():
            if not isinstance(key, str):
                raise unexpected(path, "keys that are strings", key)
            yield inner, f"{path}.{key}"
    else:
        raise unexpected(path, "plain data", item)


def _sequence(value: Plain, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise unexpected(path, "a list", value)
    return value


def _pair(value: Plain, path: str) -> tuple[str, str]:
    pair = texts(value, path)
    if len(pair) != 2:
        raise unexpected(path, "a pair of strings", value)
    return pair[0], pair[1]


def _wrong_keys(plain: dict[str, Any], path: str, keys: frozenset[str]) -> CodecError:
    for key in plain:
        if key not in keys:
            return CodecError(f"{path}.{key}" if path else str(key), "unknown key")
    missing = sorted(keys - plain.keys())[0]
    return CodecError(f"{path}.{missing}" if path else missing, "missing")
