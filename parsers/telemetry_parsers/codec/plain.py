"""Plain JSON data: its lines, its simple values, and the error that names the place of what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers, too, import this module; the model would cost each of them 2.6 MiB
    from telemetry_parsers.model import Plain

_LONGEST_QUOTE = 40
_LARGEST_WHOLE = 2**63
_LARGEST_NUMBER = sys.float_info.max


class CodecError(ValueError):
    """Plain data that is not what it should be; `path` says where."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text

    def inside(self, place: str) -> CodecError:
        """The same error as told of the object or list that holds the value: `outputs`, `[2]`."""
        return CodecError(_below(place, self.path), self.text)


def unexpected(expected: str, value: Plain) -> CodecError:
    """The error for a value of the wrong kind; it quotes the start of a short value and names the type of another."""
    short = isinstance(value, str | float | None) or (isinstance(value, int) and value.bit_length() <= 64)
    shown = repr(value) if short else type(value).__name__
    if len(shown) > _LONGEST_QUOTE:
        shown = shown[:_LONGEST_QUOTE] + "…"
    return CodecError("", f"expected {expected}, found {shown}")


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


def decode_foreign(line: bytes, most_values: int = 1_000_000) -> Plain:
    """Return the plain data of JSON from a process that may not be ours: many short values would take much memory."""
    if line.count(b",") + line.count(b"[") + line.count(b"{") > most_values:
        raise CodecError("", f"more than {most_values:,} values")
    return decode_line(line)


def text(value: Plain) -> str:
    """A string."""
    if not isinstance(value, str):
        raise unexpected("a string", value)
    return value


def flag(value: Plain) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise unexpected("true or false", value)
    return value


def whole(value: Plain) -> int:
    """A whole number of at most 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST_WHOLE <= value < _LARGEST_WHOLE:
        raise unexpected("a whole number of at most 64 bits", value)
    return value


def finite(value: Plain) -> float:
    """A finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected("a number", value)
    if not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:  # NaN compares false, an int may be larger than any float
        raise CodecError("", "expected a finite number")
    return float(value)


def jsonable(value: Plain) -> Plain:
    """The value itself, when it is made of JSON's types with finite numbers only."""
    pending: list[tuple[Plain, str]] = [(value, "")]
    while pending:
        item, path = pending.pop()
        if item is None or isinstance(item, str | bool):
            continue
        try:
            if isinstance(item, int | float):
                finite(item)
            else:
                pending.extend((inner, _below(path, place)) for place, inner in _inside(item))
        except CodecError as error:
            raise error.inside(path) from None
    return value


def _below(path: str, place: str) -> str:
    return f"{path}{place}" if not path or not place or place.startswith("[") else f"{path}.{place}"


def _inside(item: Plain) -> Iterator[tuple[str, Plain]]:
    """Each value of a list or an object with its place there."""
    if isinstance(item, list):
        yield from ((f"[{place}]", inner) for place, inner in enumerate(item))
    elif isinstance(item, dict):
        for key, inner in item.items():
            if not isinstance(key, str):
                raise unexpected("keys that are strings", key)
            yield key, inner
    else:
        raise unexpected("plain data", item)


def _refuse_constant(name: str) -> Plain:
    raise ValueError(f"{name} is not a number")
