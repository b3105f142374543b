"""The layout of JSON documents, and the format of times and numbers in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from json import JSONEncoder
from typing import Any

from telemetry_exporters.human import is_valid_time

_MAX_LINE_LENGTH = 118
to_json = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_to_spaced_json = JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def indented_json(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON."""
    return _indent_value(document, "") + "\n"


def json_line(document: Mapping[str, Any]) -> str:
    """Return a document as JSON on one line."""
    return to_json(document) + "\n"


def utc_time(unix_seconds: float) -> str:
    """Format a Unix time as RFC 3339 prescribes, in UTC with milliseconds."""
    time = datetime.fromtimestamp(unix_seconds, tz=timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_time_or_none(unix_seconds: float | None) -> str | None:
    """Format a Unix time, or return None if it is unknown or invalid."""
    return utc_time(unix_seconds) if unix_seconds is not None and is_valid_time(unix_seconds) else None


def plain_number(value: float) -> str:
    """Return the shortest decimal number without an exponent that is parsed as the same float."""
    digits = repr(value)
    if "e" not in digits:
        return digits
    if value.is_integer():
        return f"{value:.0f}"
    # A small fraction, such as `-1.5e-07`. The module `decimal` would need half a MiB of memory.
    mantissa, _, exponent = digits.partition("e")
    sign = "-" if value < 0 else ""
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{mantissa.removeprefix('-').replace('.', '')}"


def _indent_value(value: Any, indent: str) -> str:
    if isinstance(value, float):
        return plain_number(value)
    if not isinstance(value, dict | list) or not value:
        return _to_spaced_json(value)
    entry_indent = indent + "  "
    if isinstance(value, dict):
        opening, closing = "{", "}"
        entries = [f"{_to_spaced_json(key)}: {_indent_value(entry, entry_indent)}" for key, entry in value.items()]
    else:
        opening, closing = "[", "]"
        entries = [_indent_value(entry, entry_indent) for entry in value]
    line = f"{opening}{', '.join(entries)}{closing}"
    if len(line) + len(indent) <= _MAX_LINE_LENGTH and "\n" not in line:
        return line
    body = f",\n{entry_indent}".join(entries)
    return f"{opening}\n{entry_indent}{body}\n{indent}{closing}"
