"""Suggests similar names for an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry_parsers.vendors import VENDORS

_MIN_SIMILARITY = 0.7
_MIN_PREFIX_LENGTH = 3
_MAX_NAMES = 20


def similar_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the valid names that the user may have meant: all sources of a tool, or else up to two similar names."""
    valid, normalized = frozenset(names), name.lower().replace("_", "-")
    sources = [
        source for vendor in VENDORS for tool, source in vendor.other_tools if tool == normalized and source in valid
    ]
    similar = sources or ([normalized] if normalized in valid else _most_similar(name, valid, 2))
    names_with_prefix = [key for key in sorted(valid) if len(name) >= _MIN_PREFIX_LENGTH and key.startswith(name)]
    return similar or names_with_prefix[:2]


def patterns_like(name: str, keys: Iterable[str]) -> list[str]:
    """Return up to one pattern such as `'memory*'`, for a word in a key that begins similarly to `name`."""
    beginnings = {word[: len(name)] for key in keys for word in key.split("_")}
    return [f"'{beginning}*'" for beginning in _most_similar(name, beginnings, 1)]


def _most_similar(name: str, names: Iterable[str], limit: int) -> list[str]:
    sorted_names = sorted(names)
    anagrams = [other for other in sorted_names if sorted(other) == sorted(name)]
    return anagrams[:limit] or difflib.get_close_matches(name, sorted_names, n=limit, cutoff=_MIN_SIMILARITY)


def did_you_mean(names: Iterable[str]) -> str:
    """Return `; did you mean X or Y?`, or an empty string if there are no names."""
    question = " or ".join(names)
    return f"; did you mean {question}?" if question else ""


def suggest_or_list(name: str, names: Iterable[str]) -> str:
    """Return a suggestion of similar names, or else a list of all names."""
    sorted_names = sorted(set(names))
    if len(sorted_names) > _MAX_NAMES or not sorted_names:
        return did_you_mean(similar_names(name, sorted_names))
    return did_you_mean(similar_names(name, sorted_names)) or f"; known: {', '.join(sorted_names)}"
