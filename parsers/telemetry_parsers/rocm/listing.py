"""The common form of all output of rocm-smi and hy-smi: printed keys and texts, by card."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its text as printed."""

    key: str
    text: str
    where: str


@dataclass(slots=True)
class Listing:
    """The entries of each card, by card index, and of the node (`system`)."""

    cards: dict[int, list[Entry]] = field(default_factory=dict)
    system: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False  # the text is truncated, so cards may be missing

    def ensure_card(self, index: int) -> list[Entry]:
        """Return the entries of a card. Add the card if it is missing."""
        return self.cards.setdefault(index, [])

    def add_problem(self, where: str, text: str) -> None:
        """Add a problem at this position of the output."""
        self.problems.append(Problem(where, text))


def join_listings(listings: Sequence[Listing]) -> Listing:
    """Add the content of the other listings to the first listing, and return the first listing."""
    result, *other_listings = listings
    for listing in other_listings:
        for index, entries in listing.cards.items():
            result.ensure_card(index).extend(entries)
        result.system += listing.system
        result.unknown |= listing.unknown
        result.is_cut = result.is_cut or listing.is_cut
        # Only the last problem with each line is kept.
        result.problems = list({problem.where: problem for problem in (*result.problems, *listing.problems)}.values())
    return result
