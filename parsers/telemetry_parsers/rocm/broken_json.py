"""Reads the broken JSON of rocm-smi and hy-smi as a listing, also with other text around it.

Seen in practice: no comma between values and keys (driver 6.3.31 for BW), an empty key many times (DTK 24.04), text
around the JSON, a truncated end. The json module would refuse these, or keep one of two equal keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.messages import is_complaint
from telemetry_parsers.text.answers import listed_twice
from telemetry_parsers.text.documents import past_foreign_lines
from telemetry_parsers.text.lines import lines, quote

_START = re.compile(r'\{\s*"(?:card[0-9]{1,4}|system)"')
_CARD = re.compile(r"card([0-9]{1,4})\Z")
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\.)*")|([{}\[\]:,])|([^\s"{}\[\]:,]+))')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class _Documents:
    """The listing of some documents, the text around them, and the offset of the last one's end."""

    listing: Listing
    around: str
    end: int

    @property
    def progress(self) -> tuple[bool, int]:
        """Return whether everything was read, and how much."""
        return not self.listing.is_cut, self.end


class _CutError(Exception):
    """The text ends, or goes wrong, inside the document."""


@dataclass(slots=True)
class _Scanner:
    """Yields the tokens of a text; `members` are the complete members so far."""

    text: str
    position: int
    members: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)

    def peek(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        match = _TOKEN.match(self.text, self.position)
        return "" if match is None else (match[1] or match[2] or match[3])[0]

    def take(self) -> str:
        """Return the next token: a quoted text, a sign or a bare word."""
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise _CutError
        self.position = match.end()
        return match[1] or match[2] or match[3]

    def expect(self, sign: str) -> None:
        """Read this sign, or raise _CutError."""
        if self.take() != sign:
            raise _CutError

    def end_of_object(self) -> bool:
        """Return whether the object ends here. Skip a comma before its next member; some drivers print none."""
        while self.peek() == ",":
            self.take()
        if self.peek() == "}":
            self.take()
            return True
        return False


def read_document(text: str) -> Listing | None:
    """Return the listing of every `{"card0": …}` in a text, None if there is none. Other text becomes problems."""
    documents, foreign = past_foreign_lines(
        text, _read_all, lambda documents: (False, 0) if documents is None else documents.progress
    )
    if documents is None:
        return None
    for line in lines("\n".join([documents.around, *(line for _, line in foreign)])):
        if is_complaint(line.text):
            documents.listing.complain("text beside the JSON", quote(line.text))
    return documents.listing


def _read_all(text: str) -> _Documents | None:
    """Return several documents as one. If two of them differ in a key, the first counts, and a problem is reported."""
    listing = Listing()
    around: list[str] = []
    position = 0
    earlier: dict[tuple[int, str], str] = {}
    contradicted: dict[int, None] = {}
    while not listing.is_cut and (start := _START.search(text, position)) is not None:
        # The text before the brace in its line is the prefix of a launcher, or a command.
        around.append(text[position : start.start()].rpartition("\n")[0])
        scanner = _Scanner(text, start.start())
        try:
            _read(scanner)
        except _CutError:
            listing.is_cut = True
            rest = quote(text[max(start.start(), scanner.position - 60) : scanner.position])
            listing.complain("JSON", f"the JSON is cut off or broken after: {rest}")
        position = scanner.position
        contradicted |= dict.fromkeys(_take(scanner.members, earlier, listing))
    for index in contradicted:
        listing.complain(
            f"card {index}", "the card is reported a second time with other values; the first values are kept"
        )
    if not around:
        return None
    rest = "" if listing.is_cut else text[position:]
    return _Documents(listing, "\n".join([*around, rest]), position)


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
    """Return a text, number or word as text. Objects and lists, which no version prints here, are skipped."""
    token = scanner.take()
    if token not in ("{", "["):
        if token in ("}", "]", ":", ","):
            raise _CutError
        # A bare number is complete only if something follows.
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


def _take(
    members: list[tuple[str, list[tuple[str, str]]]], earlier: dict[tuple[int, str], str], listing: Listing
) -> Iterator[int]:
    """Put a document into the listing. Yield the cards with other texts in an earlier document; `known` has the earlier texts."""
    here: set[int] = set()
    for name, pairs in members:
        match = _CARD.match(name)
        entries = [Entry(key, text, name) for key, text in pairs]
        if match is None:
            listing.system += entries
            continue
        index = int(match[1])
        if index in here:  # a second card with this number in one document may be another card
            listing.complain(f"card {index}", listed_twice("the card"))
            continue
        here.add(index)
        listing.card(index).extend(entries)
        texts = dict(reversed(pairs))
        if [key for key, text in texts.items() if earlier.setdefault((index, key), text) != text]:
            yield index
