"""Suggestions for a name that is not known: what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry_parsers.vendors import VENDORS

_ENOUGH_ALIKE = 0.7
_SHORTEST_BEGINNING = 3
_LISTED_AT_MOST = 20


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The one or two known names that are most alike, none when nothing is near; for a tool that is no source the one that tells the same."""
    known, tool = frozenset(known), name.lower().replace("_", "-")
    meant = [source for vendor in VENDORS for other, source in vendor.other_tools if other == tool and source in known]
    near = meant or [tool] * (tool in known) or _alike(name, known, 2)
    whole = [key for key in sorted(known) if len(name) >= _SHORTEST_BEGINNING and key.startswith(name)]
    return near or whole[:2]


def near_beginnings(name: str, keys: Iterable[str]) -> list[str]:
    """Return `WORD*` for the words of these keys, such as `temperature`, that begin almost as the name does."""
    beginnings = {word[: len(name)] for key in keys for word in key.split("_")}
    return [f"'{beginning}*'" for beginning in _alike(name, beginnings, 1)]


def _alike(name: str, known: Iterable[str], most: int) -> list[str]:
    """Return the known names with the same letters, else those that are most alike."""
    names = sorted(known)
    swapped = [other for other in names if sorted(other) == sorted(name)]
    return swapped[:most] or difflib.get_close_matches(name, names, n=most, cutoff=_ENOUGH_ALIKE)


def did_you_mean(names: Iterable[str]) -> str:
    """`; did you mean X or Y?` to be put behind a message, nothing without names."""
    question = " or ".join(names)
    return f"; did you mean {question}?" if question else ""


def nearest_or_all(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the nearest names. Without a near one, the list of all names if it is short."""
    names = sorted(set(known))
    if len(names) > _LISTED_AT_MOST or not names:
        return did_you_mean(nearest(name, names))
    return did_you_mean(nearest(name, names)) or f"; known: {', '.join(names)}"
