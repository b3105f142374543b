"""What the reference says of a setting, and what a value of it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class About:
    """What there is to know of a setting beside its name, type and default.

    `rule`, `low` and `high` hold for the value, or for each item of a list and each count of a mapping; `name_rule` for the
    names in a mapping. The only item of a list that may stand `alone` needs no brackets.
    """

    text: str
    example: object = None
    rule: Callable[[str], str] | None = None
    name_rule: Callable[[str], str] | None = None
    low: float | None = None
    high: float | None = None
    alone: bool = False


def about(text: str, **more: Any) -> Mapping[str, About]:
    """The metadata of a setting's field."""
    return {"about": About(text, **more)}
