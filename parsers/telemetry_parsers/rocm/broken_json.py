"""Reads JSON from rocm-smi and hy-smi, even if it is invalid."""

# Python's json module rejects missing commas (driver 6.3.31 for Hygon's card BW), surrounding text and truncated
# documents. If an object has several empty keys (DTK 24.04), the module keeps only the last.

from __future__ import annotations

import re
from collections.abc import Iterator

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.rocm.messages import is_complaint
from telemetry_parsers.text.answers import listed_twice
from telemetry_parsers.text.documents import ignore_foreign_lines
from telemetry_parsers.text.lines import lines, quote

_DOCUMENT_START = re.compile(r'\{\s*"(?:card[0-9]{1,4}|system)"')
_CARD = re.compile(r"card([0-9]{1,4})\Z")
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\.)*")|([{}\[\]:,])|([^\s"{}\[\]:,]+))')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MAX_DEPTH = 4
# (name, (key, text) pairs) of each member of a document, such as a card.
_Members = list[tuple[str, list[tuple[str, str]]]]


@dataclass(frozen=True, slots=True)
class _ParsedDocuments:
    """The merged documents of a string. `end` is the offset at which reading ended."""

    listing: Listing
    surrounding_text: str
    end: int

    @property
    def progress(self) -> tuple[bool, int]:
        """A sort key for results: (whether all documents are complete, offset at which reading ended)."""
        return not self.listing.is_cut, self.end


class _BrokenJsonError(Exception):
    """The text ends or is invalid inside a document."""


@dataclass(slots=True)
class _Scanner:
    """Reads the tokens of a string, and collects the members of the document."""

    text: str
    offset: int
    members: _Members = field(default_factory=list)

    def peek(self) -> str:
        """Return the first character of the next token, or an empty string if there is no token."""
        match = _TOKEN.match(self.text, self.offset)
        return "" if match is None else (match[1] or match[2] or match[3])[0]

    def next_token(self) -> str:
        """Read a token: a quoted string, a punctuation mark or a bare word. Raise `_BrokenJsonError` if there is none."""
        match = _TOKEN.match(self.text, self.offset)
        if match is None:
            raise _BrokenJsonError
        self.offset = match.end()
        return match[1] or match[2] or match[3]

    def expect(self, punctuation: str) -> None:
        """Read the next token. Raise `_BrokenJsonError` if it is not this punctuation mark."""
        if self.next_token() != punctuation:
            raise _BrokenJsonError

    def skip_object_end(self) -> bool:
        """Skip commas and a closing brace. Return whether there was a brace."""
        while self.peek() == ",":
            self.next_token()
        if self.peek() == "}":
            self.next_token()
            return True
        return False


def read_broken_json(text: str) -> Listing | None:
    """Return a listing of all JSON documents in a string, or None if there are none."""
    documents, foreign_lines = ignore_foreign_lines(
        text, _read_documents, lambda documents: (False, 0) if documents is None else documents.progress
    )
    if documents is None:
        return None
    for line in lines("\n".join([documents.surrounding_text, *(line for _, line in foreign_lines)])):
        if is_complaint(line.text):
            documents.listing.add_problem("text outside the JSON", quote(line.text))
    return documents.listing


def _read_documents(text: str) -> _ParsedDocuments | None:
    """Merge all documents in a string. Report cards whose values differ between documents."""
    listing = Listing()
    surrounding_texts: list[str] = []
    offset = 0
    earlier_texts: dict[tuple[int, str], str] = {}
    contradicted_cards: dict[int, None] = {}
    while not listing.is_cut and (opening := _DOCUMENT_START.search(text, offset)) is not None:
        # Text before the brace on the same line is not kept: it is a command or a launcher's prefix.
        surrounding_texts.append(text[offset : opening.start()].rpartition("\n")[0])
        scanner = _Scanner(text, opening.start())
        try:
            _read_members(scanner)
        except _BrokenJsonError:
            listing.is_cut = True
            last_text = quote(text[max(opening.start(), scanner.offset - 60) : scanner.offset])
            listing.add_problem("JSON", f"the JSON is cut off or broken after: {last_text}")
        offset = scanner.offset
        contradicted_cards |= dict.fromkeys(_add_document(scanner.members, earlier_texts, listing))
    for index in contradicted_cards:
        listing.add_problem(
            f"card {index}", "the card is reported twice with different values; the first values are kept"
        )
    if not surrounding_texts:
        return None
    remaining_text = "" if listing.is_cut else text[offset:]
    return _ParsedDocuments(listing, "\n".join([*surrounding_texts, remaining_text]), offset)


def _read_members(scanner: _Scanner) -> None:
    scanner.expect("{")
    while not scanner.skip_object_end():
        name = _unquote(scanner.next_token())
        scanner.expect(":")
        pairs: list[tuple[str, str]] = []
        scanner.members.append((name, pairs))
        scanner.expect("{")
        while not scanner.skip_object_end():
            key = _unquote(scanner.next_token())
            scanner.expect(":")
            pairs.append((key, _read_value(scanner, _MAX_DEPTH)))


def _read_value(scanner: _Scanner, depth: int) -> str:
    """Read a value. Return its text, or an empty string for an object or a list, which is skipped."""
    token = scanner.next_token()
    if token not in ("{", "["):
        if token in ("}", "]", ":", ","):
            raise _BrokenJsonError
        # Digits may be missing from a number at the end of the text.
        if not token.startswith('"') and not scanner.peek():
            raise _BrokenJsonError
        return _unquote(token) if token.startswith('"') else token
    if not depth:
        raise _BrokenJsonError
    closing = {"{": "}", "[": "]"}[token]
    while (first_character := scanner.peek()) != closing:
        if first_character in ("{", "["):
            _read_value(scanner, depth - 1)
        else:
            scanner.next_token()
    scanner.next_token()
    return ""


def _unquote(token: str) -> str:
    if not token.startswith('"'):
        raise _BrokenJsonError
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _PLAIN_ESCAPES.get(match[2], match[2]), token[1:-1]
    )


def _add_document(members: _Members, earlier_texts: dict[tuple[int, str], str], listing: Listing) -> Iterator[int]:
    """Add a document to the listing. Yield the index of each card whose values contradict earlier documents."""
    indices: set[int] = set()
    for name, pairs in members:
        match = _CARD.match(name)
        entries = [Entry(key, text, name) for key, text in pairs]
        if match is None:
            listing.system += entries
            continue
        index = int(match[1])
        if index in indices:  # a repeated index may belong to another card
            listing.add_problem(f"card {index}", listed_twice("the card"))
            continue
        indices.add(index)
        listing.ensure_card(index).extend(entries)
        first_texts = dict(reversed(pairs))
        # A list, because any() would not store the texts after the first contradiction.
        if [key for key, text in first_texts.items() if earlier_texts.setdefault((index, key), text) != text]:
            yield index
