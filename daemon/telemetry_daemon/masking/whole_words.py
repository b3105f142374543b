"""Words that are known, found in a text wherever they are not a part of longer ones: as fast for tens of thousands as for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# A word is looked up by what it begins with: its first letters and digits, or one sign of another script.
_HEAD = re.compile(r"[0-9a-zA-Z]+|(?<![0-9a-zA-Z])[^\x00-\x7f]")
# A log has a line end or tab as two signs, and what comes after it begins a word.
_ESCAPE = re.compile(r"\\[nrt][0-9a-zA-Z]")
_NO_END = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")


class WholeWords:
    """The words, in whatever capitals; more can be added."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._by_head: dict[str, set[str]] = {}
        self._lengths: dict[str, list[int]] = {}
        self.add(words)

    def add(self, words: Iterable[str]) -> None:
        """Find these, too; signs before a word's first letter or digit are no part of it."""
        for word in words:
            if head := _HEAD.search(word):
                self._add(head[0].lower(), word[head.start() :])

    def _add(self, head: str, word: str) -> None:
        self._by_head.setdefault(head, set()).add(word.lower())
        # As it is written: some capitals (İ) are two small letters.
        lengths = self._lengths.setdefault(head, [])
        if len(word) not in lengths:
            lengths.append(len(word))
            lengths.sort(reverse=True)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand in the text, the longest at each place, none within another."""
        end = 0
        for match in _HEAD.finditer(text) if self._lengths else ():
            for start in (
                (match.start(), match.start() + 1) if _ESCAPE.match(text, match.start() - 1) else (match.start(),)
            ):
                head = text[start : match.end()].lower()
                if head in self._lengths and start >= end and (word_end := self._end(head, text, start)):
                    end = word_end
                    yield start, end
                    break

    def _end(self, head: str, text: str, start: int) -> int:
        """Where the word ends that begins there; 0 if none does."""
        for length in self._lengths[head]:
            end = start + length
            is_whole = end <= len(text) and text[end : end + 1].lower() not in _NO_END
            if is_whole and text[start:end].lower() in self._by_head[head]:
                return end
        return 0
