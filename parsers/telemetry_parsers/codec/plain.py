"""Plain JSON data: lines, simple values, and the error with the path of the invalid value."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers also import this module, and the model would cost each 2.6 MiB
    from telemetry_parsers.model import Plain

_LONGEST_QUOTE = 40
_LARGEST_WHOLE = 2**63
_LARGEST_NUMBER = sys.float_info.max


class CodecError(ValueError):
    """Plain data that is invalid; `path` locates it."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text

    def inside(self, step: str) -> CodecError:
        """Return the error with the path prefixed by the enclosing key or position: `outputs`, `[2]`."""
        return CodecError(_below(step, self.path), self.text)


def unexpected(expected: str, value: Plain) -> CodecError:
    """Return the error for a value of the wrong type. It quotes the start of a short value, else names the type."""
    short = isinstance(value, str | float | None) or (isinstance(value, int) and value.bit_length() <= 64)
    shown = repr(value) if short else type(value).__name__
    if len(shown) > _LONGEST_QUOTE:
        shown = shown[:_LONGEST_QUOTE] + "…"
    return CodecError("", f"expected {expected}, found {shown}")


def encode_line(plain: Plain) -> str:
    """Return compact ASCII JSON on one line without a line end. NaN and infinity are refused."""
    try:
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError("", f"not plain data: {error}") from None


def decode_line(line: str | bytes) -> Plain:
    """Return the plain data of one line of JSON. NaN and infinity are refused."""
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise CodecError("", "not JSON: nested too deeply") from None
    except ValueError as error:
        raise CodecError("", f"not JSON: {error}") from None


def decode_foreign(line: bytes, most_values: int = 1_000_000) -> Plain:
    """Return the plain data of JSON from an untrusted process. Too many values are refused, since they take much memory."""
    if line.count(b",") + line.count(b"[") + line.count(b"{") > most_values:
        raise CodecError("", f"more than {most_values:,} values")
    return decode_line(line)


def text(value: Plain) -> str:
    """Return a string, or raise CodecError."""
    if not isinstance(value, str):
        raise unexpected("a string", value)
    return value


def flag(value: Plain) -> bool:
    """Return a boolean, or raise CodecError."""
    if not isinstance(value, bool):
        raise unexpected("true or false", value)
    return value


def whole(value: Plain) -> int:
    """Return a whole number of at most 64 bits, or raise CodecError."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST_WHOLE <= value < _LARGEST_WHOLE:
        raise unexpected("a whole number of at most 64 bits", value)
    return value


def finite(value: Plain) -> float:
    """Return a finite number as a float, or raise CodecError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected("a number", value)
    if (
        not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER
    ):  # comparisons with NaN are false; an int may be larger than any float
        raise CodecError("", "expected a finite number")
    return float(value)


def jsonable(value: Plain) -> Plain:
    """Return the value if it consists of JSON's types and finite numbers, else raise CodecError."""
    pending: list[tuple[Plain, str]] = [(value, "")]
    while pending:
        item, path = pending.pop()
        if item is None or isinstance(item, str | bool):
            continue
        try:
            if isinstance(item, int | float):
                finite(item)
            else:
                pending.extend((inner, _below(path, step)) for step, inner in _inside(item))
        except CodecError as error:
            raise error.inside(path) from None
    return value


def _below(path: str, step: str) -> str:
    return f"{path}{step}" if not path or not step or step.startswith("[") else f"{path}.{step}"


def _inside(item: Plain) -> Iterator[tuple[str, Plain]]:
    """Yield each value of a list or an object with its path step."""
    if isinstance(item, list):
        yield from ((f"[{step}]", inner) for step, inner in enumerate(item))
    elif isinstance(item, dict):
        for key, inner in item.items():
            if not isinstance(key, str):
                raise unexpected("keys that are strings", key)
            yield key, inner
    else:
        raise unexpected("plain data", item)


def _refuse_constant(name: str) -> Plain:
    raise ValueError(f"{name} is not a number")
