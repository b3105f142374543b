"""The findings of `telemetry doctor`."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem (`what`) of a component (`where`), and its remedy."""

    where: str
    what: str
    remedy: str


def counted(count: int, word: str) -> str:
    """Return the number with its noun: `1 card`, `2 cards`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
