"""Makes text safe to print, and cuts, wraps or pads it to a width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

_REPLACEMENT = "\ufffd"
_ELLIPSIS = "…"
_MAX_NAMES = 4

_T = TypeVar("_T")
_TABS_AND_LINE_BREAKS = frozenset("\t\n\v\f\r\x85\u2028\u2029")
# Unicode categories: control, format, surrogate, private use, and unassigned characters.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
# Latin letters, dashes, arrows and block characters are one column wide.
_is_narrow = re.compile("[ -~\u00a0-\u00ac\u00ae-\u02ff\u2010-\u2027\u2190-\u2193\u2580-\u25bf]*").fullmatch


def clean(text: str) -> str:
    """Return the text with unprintable characters and line breaks replaced."""
    if text.isprintable():
        return text
    return "".join(map(_replace_unprintable, text))


def _replace_unprintable(character: str) -> str:
    if character in _TABS_AND_LINE_BREAKS:
        return " "
    return _REPLACEMENT if unicodedata.category(character) in _UNSAFE_CATEGORIES else character


def deep_clean(value: _T) -> _T:
    """Return the value with all its strings cleaned, or the value itself if nothing changes."""
    if isinstance(value, str):
        return clean(value)  # type: ignore[return-value]  # a str returns a str
    if isinstance(value, tuple):
        cleaned = tuple(deep_clean(part) for part in value)
        is_unchanged = all(new is old for new, old in zip(cleaned, value, strict=True))
        return value if is_unchanged else cleaned  # type: ignore[return-value]  # same types in the same order
    if is_dataclass(value) and not isinstance(value, type):
        changes = _changed_fields(value)
        return replace(value, **changes) if changes else value
    return value


def _changed_fields(value: Any) -> dict[str, Any]:
    pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: new for name, old in pairs if (new := deep_clean(old)) is not old}


def first_names(names: Sequence[str], separator: str = " ", limit: int = _MAX_NAMES) -> str:
    """Return the first names and the count of the others: `a b c d and 3 more`."""
    suffix = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separator.join(names[:limit]) + suffix


def display_width(text: str) -> int:
    """Return the width of the text in terminal columns."""
    return len(text) if _is_narrow(text) else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning with an ellipsis if the text is too wide."""
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    if _is_narrow(text):
        return text[: width - 1].rstrip() + _ELLIPSIS
    prefix_widths = accumulate(map(_character_width, text), initial=0)
    length = sum(prefix_width < width for prefix_width in prefix_widths) - 1
    return text[:length].rstrip() + _ELLIPSIS


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return lines of at most `width` columns, or one line if `width` is 0. Continuation lines start with `indent`."""
    if width <= 0 or display_width(text) <= width:
        return [text]
    lines = [text[: len(text) - len(text.lstrip())]]
    later_line_width = max(1, width - display_width(indent))
    for word in text.split():
        separator = "" if not lines[-1].strip() else " "
        if display_width(lines[-1] + separator + word) <= width:
            lines[-1] += separator + word
            continue
        fragments = list(_split_word(word, later_line_width))
        lines += [indent + fragment for fragment in fragments]
    return lines if lines[0].strip() else lines[1:]


def _split_word(word: str, width: int) -> Iterator[str]:
    start = used_columns = 0
    for index, columns in enumerate(map(_character_width, word)):
        if used_columns + columns > width and index > start:
            yield word[start:index]
            start, used_columns = index, 0
        used_columns += columns
    yield word[start:]


def pad_right(text: str, width: int) -> str:
    """Return the text followed by blanks up to `width` columns."""
    return text + " " * (width - display_width(text))


def pad_left(text: str, width: int) -> str:
    """Return the text preceded by blanks up to `width` columns."""
    return " " * (width - display_width(text)) + text


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns. Columns whose index is in `right` are right-aligned."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    pads = [pad_left if index in right else pad_right for index in range(len(widths))]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]
