"""Text from tools, made safe and cut to fit: it never moves a cursor, breaks a line or is invalid UTF-8."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

_REPLACEMENT = "\ufffd"
_ELLIPSIS = "…"
_MOST_NAMED = 4

_T = TypeVar("_T")
_BLANKS = frozenset("\t\n\v\f\r\x85\u2028\u2029")
# Control, format (which can reverse the writing direction), surrogate, private and unassigned code points.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
# Latin letters, dashes, arrows and blocks, each one column wide.
_NARROW = re.compile("[ -~\u00a0-\u00ac\u00ae-\u02ff\u2010-\u2027\u2190-\u2193\u2580-\u25bf]*").fullmatch


def clean(text: str) -> str:
    """Return the text with line breaks and tabs as blanks, and other unprintable characters as U+FFFD."""
    if text.isprintable():
        return text
    return "".join(map(_safe, text))


def _safe(character: str) -> str:
    if character in _BLANKS:
        return " "
    return _REPLACEMENT if unicodedata.category(character) in _UNSAFE else character


def cleaned(thing: _T) -> _T:
    """Return the text, tuple or dataclass with clean texts; the same object if they are clean already."""
    if isinstance(thing, str):
        return clean(thing)  # type: ignore[return-value]  # a str is given and a str comes back
    if isinstance(thing, tuple):
        parts = tuple(cleaned(part) for part in thing)
        same = all(new is old for new, old in zip(parts, thing, strict=True))
        return thing if same else parts  # type: ignore[return-value]  # the same kinds in the same order
    if is_dataclass(thing) and not isinstance(thing, type):
        changes = _changes(thing)
        return replace(thing, **changes) if changes else thing
    return thing


def _changes(thing: Any) -> dict[str, Any]:
    pairs = ((field.name, getattr(thing, field.name)) for field in fields(thing))
    return {name: new for name, old in pairs if (new := cleaned(old)) is not old}


def named(names: Sequence[str], separator: str = " ", most: int = _MOST_NAMED) -> str:
    """Return the first few names, and the number of others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def display_width(text: str) -> int:
    """Return the terminal columns of the text: two for wide characters, none for combining ones."""
    return len(text) if _NARROW(text) else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and an ellipsis if it takes more than `width` columns."""
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    if _NARROW(text):
        return text[: width - 1].rstrip() + _ELLIPSIS
    beginnings = accumulate(map(_columns, text), initial=0)
    kept = sum(columns < width for columns in beginnings) - 1
    return text[:kept].rstrip() + _ELLIPSIS


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return the text in lines of at most `width` columns (0: one line), the later ones indented. Only words wider than a line are broken."""
    if width <= 0 or display_width(text) <= width:
        return [text]
    lines = [text[: len(text) - len(text.lstrip())]]
    room = max(1, width - display_width(indent))
    for word in text.split():
        joint = "" if not lines[-1].strip() else " "
        if display_width(lines[-1] + joint + word) <= width:
            lines[-1] += joint + word
            continue
        parts = list(_broken(word, room))
        lines += [indent + part for part in parts]
    return lines if lines[0].strip() else lines[1:]


def _broken(word: str, width: int) -> Iterator[str]:
    """Yield parts of the word of at most `width` columns."""
    start = taken = 0
    for index, columns in enumerate(map(_columns, word)):
        if taken + columns > width and index > start:
            yield word[start:index]
            start, taken = index, 0
        taken += columns
    yield word[start:]


def pad_right(text: str, width: int) -> str:
    """Return the text padded with blanks after it to `width` columns."""
    return text + " " * (width - display_width(text))


def pad_left(text: str, width: int) -> str:
    """Return the text padded with blanks before it to `width` columns."""
    return " " * (width - display_width(text)) + text


def aligned(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return the rows with columns of equal width. Columns in `numbers` (positions) are aligned to the right."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    pads = [pad_left if index in numbers else pad_right for index in range(len(widths))]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]
