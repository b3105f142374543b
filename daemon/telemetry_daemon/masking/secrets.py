"""Finds the identities in a text, in this order: known ones, values after a key, shapes, and words that look like one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from telemetry_daemon.masking import columns, words
from telemetry_daemon.masking.shapes import FIRST_SHAPES, SHAPES, Shape, Treatment, is_telling
from telemetry_daemon.masking.whole_words import WholeWords

Kind = Literal["whole", "whole_number", "address"]

# These treatments also apply to a place of which a part was judged before.
_WORD_BY_WORD = ("names", "odd")
_WORD = re.compile(r"\S+")
# Keys and words of documents stand in each capture again.
_SHORT = 80
_AFTER_A_KEY = re.compile(r"[:=>][ \t]{0,80}[\"']?\Z")


@dataclass(frozen=True, slots=True)
class Secret:
    """A part of a text that identifies a machine, card or person."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides the text: identities and names, processes with their pids, harmless numbers, models' words."""

    ids: WholeWords = field(default_factory=WholeWords)
    names: WholeWords = field(default_factory=WholeWords)
    processes: tuple[tuple[str, str], ...] = ()
    harmless: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()

    def may_be_in(self, text: str) -> bool:
        """Whether an identity, a name or a process that is known stands in the text."""
        found = (place for known in (self.ids, self.names) for place in known.find(text))
        return any(found) or any(name in text for _, name in self.processes)


def secrets(text: str, known: Known, announced: Treatment | None = None) -> list[Secret]:
    """The secrets of a text in order, none within another; `announced` is the treatment that the text's key asks for."""
    if len(text) <= _SHORT and _is_nothing(text, announced) and not known.may_be_in(text):
        return []
    return sorted(_searched(text, known, announced).found, key=lambda secret: secret.start)


@lru_cache(maxsize=1 << 14)
def _is_nothing(text: str, announced: Treatment | None) -> bool:
    """Whether nothing in the text is judged by its key or shape: what is harmless does not matter there, either."""
    search = _searched(text, Known(), announced)
    return not search.found and not search.has_judged


def _searched(text: str, known: Known, announced: Treatment | None) -> _Search:
    search = _Search(text)
    search.take((start, end, "whole") for start, end in known.ids.find(text))
    names = known.names.find(text)
    search.take((start, end, "whole") for start, end in names if text[start:end] not in known.models)
    for shape in FIRST_SHAPES:
        search.take(_of_shape(text, shape, known.harmless))
    if announced == "each" and is_telling(text):
        search.take([(0, len(text), announced)])
    search.take(
        (start, end, treatment) for start, end, treatment in columns.announced(text) if is_telling(text[start:end])
    )
    lower = text.lower()
    for shape in SHAPES:
        if shape.may_be_in(lower):
            search.take(_of_shape(text, shape, known.harmless))
    search.take(_of_processes(text, known.processes))
    if announced == "names":
        search.take([(0, len(text), announced)])
    search.keep((start, end, "whole") for start, end in words.odd(text, known.harmless))
    return search


class _Search:
    """The secrets found so far in a text; each part of the text is judged once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._judged = bytearray(len(text))
        self.found: list[Secret] = []

    @property
    def has_judged(self) -> bool:
        """Whether any part of the text was judged."""
        return any(self._judged)

    def take(self, places: Iterable[tuple[int, int, Treatment]]) -> None:
        """Keep the secrets in these places, unless they were judged before, and mark the places as judged."""
        for start, end, treatment in places:
            if treatment in _WORD_BY_WORD or not any(self._judged[start:end]):
                self.keep(self._parts(start, end, treatment))
                self._judged[start:end] = b"\1" * (end - start)

    def keep(self, parts: Iterable[tuple[int, int, Kind]]) -> None:
        """Keep the parts that were not judged before."""
        for start, end, kind in parts:
            if not any(self._judged[start:end]):
                self.found.append(Secret(start, end, kind))
                self._judged[start:end] = b"\1" * (end - start)

    def _parts(self, start: int, end: int, treatment: Treatment) -> Iterator[tuple[int, int, Kind]]:
        part = self._text[start:end]
        if treatment in ("whole", "whole_number", "address"):
            yield start, end, treatment
        if treatment == "each":
            yield from ((*match.span(), "whole") for match in _WORD.finditer(self._text, start, end))
        if treatment in _WORD_BY_WORD:
            yield from ((start + begin, start + stop, "whole") for begin, stop in words.odd(part, frozenset()))
        if treatment == "names":
            yield from ((start + begin, start + stop, "whole") for begin, stop in words.names(part))


def _of_shape(text: str, shape: Shape, harmless: frozenset[str]) -> Iterator[tuple[int, int, Treatment]]:
    for match in shape.pattern.finditer(text):
        if shape.counts(match) and match["value"] not in harmless:
            yield *match.span("value"), shape.treatment


def _of_processes(text: str, processes: Iterable[tuple[str, str]]) -> Iterator[tuple[int, int, Treatment]]:
    """The places of process names that have their pid in the same line, or a key directly before them."""
    for pid, name in processes:
        start = text.find(name)
        while start >= 0:
            end = start + len(name)
            before = text[text.rfind("\n", 0, start) + 1 : start]
            after = text[end : max(text.find("\n", end), end)]
            if _AFTER_A_KEY.search(before[-90:]) or re.search(rf"(?<![0-9]){pid}(?![0-9])", f"{before} {after}"):
                yield start, end, "names"
            start = text.find(name, end)
