"""The common form to which all output of rocm-smi and hy-smi is converted: keys and texts by card."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """A printed key with its text and position."""

    key: str
    text: str
    where: str


@dataclass(slots=True)
class Listing:
    """The entries of each card and of the node (`system`). `unknown` contains the headings that were not recognised."""

    cards: dict[int, list[Entry]] = field(default_factory=dict)
    system: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False  # the text is truncated, so cards may be missing

    def card(self, index: int) -> list[Entry]:
        """Return the list of a card's entries, to which the caller may append. Add the card if it is new."""
        return self.cards.setdefault(index, [])

    def complain(self, where: str, text: str) -> None:
        """Report a problem."""
        self.problems.append(Problem(where, text))


def joined(listings: Sequence[Listing]) -> Listing:
    """Join several listings of the same cards."""
    result, *other_listings = listings
    for listing in other_listings:
        for index, entries in listing.cards.items():
            result.card(index).extend(entries)
        result.system += listing.system
        result.unknown |= listing.unknown
        result.is_cut = result.is_cut or listing.is_cut
        # If two listings have a problem with the same line, the problem of the later one is kept.
        result.problems = list({item.where: item for item in (*result.problems, *listing.problems)}.values())
    return result
