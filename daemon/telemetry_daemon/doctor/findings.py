"""Findings of the doctor."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A place, what is wrong there, and the remedy."""

    where: str
    what: str
    remedy: str


def counted(count: int, word: str) -> str:
    """Return the number with its noun: `1 card`, `2 cards`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
