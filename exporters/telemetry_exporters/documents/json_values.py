"""The values of JSON documents: their types, with what JSON Schema says of each besides, and how times and numbers are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from json import JSONEncoder
from typing import Annotated, Any

from telemetry_exporters.human import is_moment
from telemetry_parsers import bounds


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What JSON Schema says of a value besides its type."""

    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AtMost:
    """How many characters of a text or entries of a list are read of another machine's document."""

    most: int


# What is unknown is null, never an empty text.
TextOrNull = Annotated[str | None, Schema({"minLength": 1})]
LongText = Annotated[str, AtMost(bounds.LONGEST_TEXT)]
LongTextOrNull = Annotated[str | None, Schema({"minLength": 1}), AtMost(bounds.LONGEST_TEXT)]
Word = Annotated[str, Schema({"minLength": 1})]
Time = Annotated[str, Schema({"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"})]
Count = Annotated[int, Schema({"minimum": 0})]
NotNegative = Annotated[float, Schema({"minimum": 0})]
Ratio = Annotated[float, Schema({"minimum": 0, "maximum": 1})]

_LONGEST_LINE = 118
encoded = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_spaced = JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def text(plain: Mapping[str, Any]) -> str:
    """A document as text, small parts on one line each; numbers without exponents."""
    return _text(plain, "") + "\n"


def line(plain: Mapping[str, Any]) -> str:
    """A document on one line."""
    return encoded(plain) + "\n"


def utc_time(unix_seconds: float) -> str:
    """The moment as RFC 3339 prints it, in UTC with milliseconds."""
    moment = datetime.fromtimestamp(unix_seconds, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_text(unix_seconds: float | None) -> str | None:
    """The moment as `utc_time` writes it; None where there is none, or a calendar has it not."""
    return utc_time(unix_seconds) if unix_seconds is not None and is_moment(unix_seconds) else None


def plain_number(value: float) -> str:
    """The shortest digits that give exactly this number, without an exponent; a whole number has all its digits."""
    digits = repr(value)
    if "e" not in digits:
        return digits
    if value.is_integer():
        return f"{value:.0f}"
    # By hand, since `decimal` takes half a MiB of the daemon's memory: `-1.5e-07` is less than 1, with one digit before the point.
    mantissa, _, exponent = digits.partition("e")
    sign = "-" if value < 0 else ""
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{mantissa.removeprefix('-').replace('.', '')}"


def _text(value: Any, indent: str) -> str:
    """The value as JSON: on one line if it fits, else with each entry on its own line."""
    if isinstance(value, float):
        return plain_number(value)
    if not isinstance(value, dict | list) or not value:
        return _spaced(value)
    deeper = indent + "  "
    if isinstance(value, dict):
        opening, closing = "{", "}"
        entries = [f"{_spaced(key)}: {_text(entry, deeper)}" for key, entry in value.items()]
    else:
        opening, closing = "[", "]"
        entries = [_text(entry, deeper) for entry in value]
    line = f"{opening}{', '.join(entries)}{closing}"
    if len(line) + len(indent) <= _LONGEST_LINE and "\n" not in line:
        return line
    inner = f",\n{deeper}".join(entries)
    return f"{opening}\n{deeper}{inner}\n{indent}{closing}"
