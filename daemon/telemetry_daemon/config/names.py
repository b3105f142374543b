"""Names that nobody knows, and what was probably meant by them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.settings import Settings

_ENOUGH_ALIKE = 0.6
_LISTED_AT_MOST = 20


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The one or two known names that are most alike, none when nothing is near."""
    return difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=_ENOUGH_ALIKE)


def meant(names: Iterable[str]) -> str:
    """`; did you mean X or Y?` to be put behind a message, nothing without names."""
    question = " or ".join(names)
    return f"; did you mean {question}?" if question else ""


def nearest_or_all(name: str, known: Iterable[str]) -> str:
    """The question of `meant` for the nearest names, or else the list of all names if it is a short one."""
    names = sorted(set(known))
    if len(names) > _LISTED_AT_MOST or not names:
        return meant(nearest(name, names))
    return meant(nearest(name, names)) or f"; known: {', '.join(names)}"


def check_source_names(settings: Settings, known: Iterable[str]) -> None:
    """Refuse settings of sources that no parser has; for after the loading of parsers from folders."""
    names = tuple(known)
    unknown = [name for name, _ in settings.sources if name not in names]
    if unknown:
        raise ConfigError(*(f"sources.{name}: no such source{nearest_or_all(name, names)}" for name in unknown))
