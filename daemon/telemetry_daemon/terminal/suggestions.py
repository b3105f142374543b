"""Suggestions for unknown names: the similar names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry_parsers.vendors import VENDORS

_ENOUGH_ALIKE = 0.7
_SHORTEST_BEGINNING = 3
_LISTED_AT_MOST = 20


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return at most two similar names. For a vendor's tool that is not a source, return the source with the same readings."""
    valid, tool = frozenset(names), name.lower().replace("_", "-")
    meant = [source for vendor in VENDORS for other, source in vendor.other_tools if other == tool and source in valid]
    near = meant or [tool] * (tool in valid) or _alike(name, valid, 2)
    whole = [key for key in sorted(valid) if len(name) >= _SHORTEST_BEGINNING and key.startswith(name)]
    return near or whole[:2]


def near_beginnings(name: str, keys: Iterable[str]) -> list[str]:
    """Return `WORD*` for a word of these keys, such as `temperature`, whose beginning is similar to the name."""
    beginnings = {word[: len(name)] for key in keys for word in key.split("_")}
    return [f"'{beginning}*'" for beginning in _alike(name, beginnings, 1)]


def _alike(name: str, names: Iterable[str], most: int) -> list[str]:
    """Return the names with the same letters in another order, else the most similar names."""
    ordered = sorted(names)
    swapped = [other for other in ordered if sorted(other) == sorted(name)]
    return swapped[:most] or difflib.get_close_matches(name, ordered, n=most, cutoff=_ENOUGH_ALIKE)


def did_you_mean(names: Iterable[str]) -> str:
    """Return `; did you mean X or Y?` as the end of a message, or an empty text without names."""
    question = " or ".join(names)
    return f"; did you mean {question}?" if question else ""


def nearest_or_all(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean X?` for similar names. Without a similar name, return the list of all names if it is short."""
    ordered = sorted(set(names))
    if len(ordered) > _LISTED_AT_MOST or not ordered:
        return did_you_mean(nearest(name, ordered))
    return did_you_mean(nearest(name, ordered)) or f"; known: {', '.join(ordered)}"
