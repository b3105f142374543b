"""The findings of `telemetry doctor`."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a component, and its remedy."""

    where: str
    what: str
    remedy: str


def counted(count: int, word: str) -> str:
    """Return a count with its noun, such as `1 card` or `2 cards`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
