"""Types of the fields of JSON documents, with their JSON Schema properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """Additional JSON Schema properties of a type."""

    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MaxSize:
    """The maximum length of a string or a list that is accepted from another machine."""

    maximum: int


# Unknown text is null, never an empty string.
TextOrNull = Annotated[str | None, Schema({"minLength": 1})]
LongText = Annotated[str, MaxSize(bounds.MAX_TEXT_LENGTH)]
LongTextOrNull = Annotated[str | None, Schema({"minLength": 1}), MaxSize(bounds.MAX_TEXT_LENGTH)]
Word = Annotated[str, Schema({"minLength": 1})]
Time = Annotated[str, Schema({"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"})]
Count = Annotated[int, Schema({"minimum": 0})]
NotNegative = Annotated[float, Schema({"minimum": 0})]
Ratio = Annotated[float, Schema({"minimum": 0, "maximum": 1})]
