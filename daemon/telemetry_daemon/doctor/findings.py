"""What is wrong somewhere, and what to do about it."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Where something is wrong, what it is, and the remedy."""

    where: str
    what: str
    remedy: str


def counted(count: int, word: str) -> str:
    """The number with its word: `1 card`, `2 cards`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
