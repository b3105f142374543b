"""Suggestions for a name that is not known: what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry_parsers.vendors import VENDORS

_ENOUGH_ALIKE = 0.6
_LISTED_AT_MOST = 20


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The one or two known names that are most alike, none when nothing is near; for a tool that is no source the one that tells the same."""
    known, tool = frozenset(known), name.lower().replace("_", "-")
    meant = [source for vendor in VENDORS for other, source in vendor.other_tools if other == tool and source in known]
    return (
        meant or [tool] * (tool in known) or difflib.get_close_matches(name, sorted(known), n=2, cutoff=_ENOUGH_ALIKE)
    )


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
