"""The one form that every shape of rocm-smi's and hy-smi's output is brought into: cards with keys and texts."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_parsers.model import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its text, both as printed, and where they stood."""

    key: str
    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Card:
    """What the output says of the card of this number, in its order; a key may come twice."""

    index: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """What one output lists; `complete` is False when it shows that it does not list all cards.

    `unknown` are headings and keys that no table knows.
    """

    cards: tuple[Card, ...] = ()
    system: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    complete: bool = True
    unknown: tuple[Entry, ...] = ()
