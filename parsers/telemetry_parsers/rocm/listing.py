"""The common form of all shapes of rocm-smi's and hy-smi's output: cards with keys and texts."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its text as printed, and where they were printed."""

    key: str
    text: str
    where: str


@dataclass(slots=True)
class Listing:
    """What a text says about each card and the node. `is_cut`: not all cards are listed; `unknown` are headings without a table row."""

    cards: dict[int, list[Entry]] = field(default_factory=dict)
    system: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False

    def card(self, index: int) -> list[Entry]:
        """Return the entries of that card, to which callers append. The card is listed from now on."""
        return self.cards.setdefault(index, [])

    def complain(self, where: str, text: str) -> None:
        """Report a problem."""
        self.problems.append(Problem(where, text))


def joined(listings: Sequence[Listing]) -> Listing:
    """Return several listings of the same cards as one."""
    whole, *others = listings
    for listing in others:
        for index, entries in listing.cards.items():
            whole.card(index).extend(entries)
        whole.system += listing.system
        whole.unknown |= listing.unknown
        whole.is_cut = whole.is_cut or listing.is_cut
        # If two readers report the same line, the later one is right: sections after tables.
        whole.problems = list({item.where: item for item in (*whole.problems, *listing.problems)}.values())
    return whole
