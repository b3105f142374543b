"""JSON of rocm-smi and hy-smi as a listing, found in noise and read although drivers print it broken.

Seen broken: no comma between two values and keys (driver 6.3.31 for BW), one empty key many times (DTK 24.04), text
around it, an end cut off. So no JSON parser of the library's: it would give up, or keep one of two equal keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from telemetry_parsers import units
from telemetry_parsers.model import Problem
from telemetry_parsers.rocm.listing import Card, Entry, Listing, joined
from telemetry_parsers.text.documents import past_foreign_lines
from telemetry_parsers.text.lines import quote

_START = re.compile(r'\{\s*"(?:card[0-9]{1,4}|system)"')
_CARD = re.compile(r"card([0-9]{1,4})\Z")
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\.)*")|([{}\[\]:,])|([^\s"{}\[\]:,]+))')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A listing, and the text around the JSON that it was read from."""

    listing: Listing
    around: str
    end: int


class _CutError(Exception):
    """The text ends, or goes wrong, inside the document."""


@dataclass(slots=True)
class _Scanner:
    """The tokens of a text, one after the other; `members` is what was read whole."""

    text: str
    position: int
    members: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)

    def peek(self) -> str:
        """The next sign that is no blank, empty at the end."""
        match = _TOKEN.match(self.text, self.position)
        return "" if match is None else (match[1] or match[2] or match[3])[0]

    def take(self) -> str:
        """The next token: a text with its quotes, a sign or a bare word."""
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise _CutError
        self.position = match.end()
        return match[1] or match[2] or match[3]

    def expect(self, sign: str) -> None:
        """Take this sign."""
        if self.take() != sign:
            raise _CutError

    def end_of_object(self) -> bool:
        """Whether the object ends here; a comma, or none as some drivers print, leads to its next member."""
        while self.peek() == ",":
            self.take()
        if self.peek() == "}":
            self.take()
            return True
        return False


def read_document(text: str) -> Found | None:
    """The listing of each `{"card0": …}` in a text, None when there is none."""
    found, foreign = past_foreign_lines(
        text, _read_all, lambda found: (found is not None and found.listing.complete, found.end if found else 0)
    )
    lines = "\n".join(line for _, line in foreign)
    return replace(found, around=f"{found.around}\n{lines}") if found is not None else None


def _read_all(text: str) -> Found | None:
    listings: list[Listing] = []
    around: list[str] = []
    position = 0
    while (start := _START.search(text, position)) is not None:
        # What stands before the brace in its line is a launcher's name for it, or a command.
        around.append(text[position : start.start()].rpartition("\n")[0])
        listing, position = _one(text, start.start())
        listings.append(listing)
        if not listing.complete:
            break
    else:
        around.append(text[position:])
    return Found(_all_of(listings), "\n".join(around), position) if listings else None


def _all_of(listings: list[Listing]) -> Listing:
    """Several documents as one; of a key that two of them tell differently the first is kept, and said to be."""
    known: dict[tuple[int, str], str] = {}
    twice: dict[int, None] = {}
    for listing in listings:
        texts = {(card.index, entry.key): entry.text for card in listing.cards for entry in reversed(card.entries)}
        twice |= {key[0]: None for key, text in texts.items() if known.setdefault(key, text) != text}
    problems = tuple(
        Problem(f"card {index}", "the card is told of a second time, and otherwise; the first is kept")
        for index in twice
    )
    whole = joined(listings)
    return replace(whole, problems=(*whole.problems, *problems))


def _one(text: str, start: int) -> tuple[Listing, int]:
    """The listing of the document that starts here, and where it ends."""
    scanner = _Scanner(text, start)
    problems: tuple[Problem, ...] = ()
    try:
        _read(scanner)
    except _CutError:
        said = quote(text[max(start, scanner.position - 60) : scanner.position])
        problems = (Problem("JSON", f"the JSON is cut off or broken after: {said}"),)
    cards, system = _sorted(scanner.members)
    return Listing(cards, system, problems, complete=not problems), scanner.position


def _read(scanner: _Scanner) -> None:
    scanner.expect("{")
    while not scanner.end_of_object():
        name = _string(scanner.take())
        scanner.expect(":")
        entries: list[tuple[str, str]] = []
        scanner.members.append((name, entries))
        scanner.expect("{")
        while not scanner.end_of_object():
            key = _string(scanner.take())
            scanner.expect(":")
            entries.append((key, _value(scanner, _DEEPEST)))


def _value(scanner: _Scanner, depth: int) -> str:
    """A text, number or word as text; objects and lists, which no version prints here, are passed over."""
    token = scanner.take()
    if token not in ("{", "["):
        if token in ("}", "]", ":", ","):
            raise _CutError
        # A bare number is whole only when something follows it.
        if not token.startswith('"') and not scanner.peek():
            raise _CutError
        return _string(token) if token.startswith('"') else token
    if not depth:
        raise _CutError
    closing = {"{": "}", "[": "]"}[token]
    while (sign := scanner.peek()) != closing:
        if sign in ("{", "["):
            _value(scanner, depth - 1)
        else:
            scanner.take()
    scanner.take()
    return ""


def _string(token: str) -> str:
    if not token.startswith('"'):
        raise _CutError
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _PLAIN_ESCAPES.get(match[2], match[2]), token[1:-1]
    )


def _sorted(members: list[tuple[str, list[tuple[str, str]]]]) -> tuple[tuple[Card, ...], tuple[Entry, ...]]:
    cards: list[Card] = []
    system: list[Entry] = []
    for name, entries in members:
        match = _CARD.match(name)
        found = tuple(Entry(key, text, name) for key, text in entries)
        if match is None:
            system.extend(found)
        elif (index := units.whole(match[1])) is not None:
            cards.append(Card(index, found))
    return tuple(cards), tuple(system)
