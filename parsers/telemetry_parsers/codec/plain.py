"""Encodes and decodes lines of JSON, and checks simple values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:  # at run time, `model` would use 2.6 MiB of memory in each worker
    from telemetry_parsers.model import Plain

_MAX_QUOTE_LENGTH = 40
_INT_LIMIT = 2**63
_MAX_NUMBER = sys.float_info.max


class CodecError(ValueError):
    """The value at `path` in plain data is invalid."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text

    def inside(self, step: str) -> CodecError:
        """Return the error with its path prefixed with `step`, such as `[2]`."""
        return CodecError(_join_path(step, self.path), self.text)


def unexpected(expected: str, value: Plain) -> CodecError:
    """Return a CodecError for a value that differs from the expected type or word."""
    is_simple = isinstance(value, str | float | None) or (isinstance(value, int) and value.bit_length() <= 64)
    quoted = repr(value) if is_simple else type(value).__name__
    if len(quoted) > _MAX_QUOTE_LENGTH:
        quoted = quoted[:_MAX_QUOTE_LENGTH] + "…"
    return CodecError("", f"expected {expected}, found {quoted}")


def encode_line(plain: Plain) -> str:
    """Return compact ASCII JSON on one line. Raise CodecError for NaN, infinity and objects that are not plain data."""
    try:
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError("", f"not JSON data: {error}") from None


def decode_line(line: str | bytes) -> Plain:
    """Return the plain data in a line of JSON. Raise CodecError for invalid JSON."""
    try:
        return json.loads(line, parse_constant=_raise_for_constant)
    except RecursionError:
        raise CodecError("", "not JSON: nested too deeply") from None
    except ValueError as error:
        raise CodecError("", f"not JSON: {error}") from None


def decode_untrusted(line: bytes, max_values: int = 1_000_000) -> Plain:
    """Return the plain data in untrusted JSON. Raise CodecError for invalid JSON or more than `max_values` values."""
    if line.count(b",") + line.count(b"[") + line.count(b"{") > max_values:
        raise CodecError("", f"more than {max_values:,} values")
    return decode_line(line)


def read_str(value: Plain) -> str:
    """Return the value if it is a string, else raise CodecError."""
    if not isinstance(value, str):
        raise unexpected("a string", value)
    return value


def read_bool(value: Plain) -> bool:
    """Return the value if it is a boolean, else raise CodecError."""
    if not isinstance(value, bool):
        raise unexpected("true or false", value)
    return value


def read_int(value: Plain) -> int:
    """Return the value if it is an integer of at most 64 bits, else raise CodecError."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT_LIMIT <= value < _INT_LIMIT:
        raise unexpected("a 64-bit integer", value)
    return value


def read_float(value: Plain) -> float:
    """Return the value as a float if it is a finite number, else raise CodecError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected("a number", value)
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # also true for NaN
        raise CodecError("", "expected a finite number")
    return float(value)


def check_json(value: Plain) -> Plain:
    """Return the value if it consists of JSON types and finite numbers, else raise CodecError."""
    pending: list[tuple[Plain, str]] = [(value, "")]
    while pending:
        item, path = pending.pop()
        if item is None or isinstance(item, str | bool):
            continue
        try:
            if isinstance(item, int | float):
                read_float(item)
            else:
                pending.extend((child, _join_path(path, step)) for step, child in _children(item))
        except CodecError as error:
            raise error.inside(path) from None
    return value


def _join_path(path: str, step: str) -> str:
    return f"{path}{step}" if not path or not step or step.startswith("[") else f"{path}.{step}"


def _children(item: Plain) -> Iterator[tuple[str, Plain]]:
    if isinstance(item, list):
        yield from ((f"[{index}]", child) for index, child in enumerate(item))
    elif isinstance(item, dict):
        for key, child in item.items():
            if not isinstance(key, str):
                raise unexpected("string keys", key)
            yield key, child
    else:
        raise unexpected("plain data", item)


def _raise_for_constant(name: str) -> Plain:
    raise ValueError(f"{name} is not a number")
