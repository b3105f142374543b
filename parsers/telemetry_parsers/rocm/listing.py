"""The one form that every shape of rocm-smi's and hy-smi's output is brought into: cards with keys and texts."""

from __future__ import annotations

from collections.abc import Sequence
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


def joined(listings: Sequence[Listing]) -> Listing:
    """Several listings of the same cards as one."""
    if len(listings) == 1:
        return listings[0]
    entries: dict[int, list[Entry]] = {}
    for card in (card for listing in listings for card in listing.cards):
        entries.setdefault(card.index, []).extend(card.entries)
    # Of two readers that complain of one line the later knows it better: the sections' after the table's.
    problems = {problem.where: problem for listing in listings for problem in listing.problems}
    return Listing(
        cards=tuple(Card(index, tuple(found)) for index, found in entries.items()),
        system=tuple(entry for listing in listings for entry in listing.system),
        problems=tuple(problems.values()),
        complete=all(listing.complete for listing in listings),
        unknown=tuple(entry for listing in listings for entry in listing.unknown),
    )
