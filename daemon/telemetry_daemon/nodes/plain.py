"""Values out of a document that another machine sent: of the expected type, within bounds, and without control characters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from telemetry_exporters.text import clean
from telemetry_parsers import bounds
from telemetry_parsers.codec.plain import CodecError, decode_foreign

_MOST_VALUES = 4_000_000


class DocumentError(ValueError):
    """A document that is not what it should be; names the place."""

    def __init__(self, place: str, wanted: str) -> None:
        super().__init__(f"{place} is no {wanted}")


def document_in(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object that an answer has. Raises DocumentError."""
    try:
        return table(decode_foreign(body.encode() if isinstance(body, str) else body, _MOST_VALUES), "the answer")
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def table(value: object, place: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise DocumentError(place, "object")
    return value


def rows(value: object, place: str, most: int) -> list[Any]:
    """A list, of which so many entries count."""
    if not isinstance(value, list):
        raise DocumentError(place, "list")
    return value[:most]


def text(value: object, place: str, longest: int = bounds.LONGEST_NAME) -> str:
    """A text; empty for null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DocumentError(place, "text")
    return clean(value[:longest])


def number(value: object, place: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DocumentError(place, "number")
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        found = math.inf
    if not math.isfinite(found):
        raise DocumentError(place, "number that we can hold")
    return found


def whole(value: object, place: str) -> int | None:
    """A whole number, or None for null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 53:
        raise DocumentError(place, "whole number")
    return value


def flag(value: object, place: str) -> bool | None:
    """True, false or null."""
    if value is not None and not isinstance(value, bool):
        raise DocumentError(place, "truth value")
    return value


def moment(value: object, place: str) -> float:
    """A time as RFC 3339 writes it, in Unix seconds."""
    try:
        found = datetime.fromisoformat(text(value, place).replace("Z", "+00:00"))
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(place, "time") from error
    raise DocumentError(place, "time with an offset")
