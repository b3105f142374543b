"""Finds the line of a TOML text that has a setting. The TOML reader itself does not report lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_KEY = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*{_KEY}[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*{_KEY}[ \t]*=")
_PARTS = re.compile(_PART)


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The number of the line that sets the path, or that of the section around it. None if there is neither."""
    best: tuple[int, int] | None = None
    for number, key in _keys(text):
        is_part = list(key) == list(path[: len(key)])
        if is_part and (best is None or len(key) > best[0]):
            best = (len(key), number)
    return None if best is None else best[1]


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each line that names a key, with the key's full path."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        header = _HEADER.match(line)
        if header is not None:
            section = _split(header[1])
            yield number, section
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment is not None:
            yield number, (*section, *_split(assignment[1]))


def _split(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PARTS.findall(key))
