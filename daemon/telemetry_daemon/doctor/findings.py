"""What is wrong somewhere, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """Where something is wrong, what it is, and the remedy."""

    where: str
    what: str
    remedy: str


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return " ".join(names[:_MOST_NAMED]) + more


def counted(count: int, one: str, many: str = "") -> str:
    """The number with its word: `1 card`, `2 cards`."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"
