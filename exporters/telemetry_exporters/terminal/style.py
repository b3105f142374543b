"""Emphasis in a terminal: the few styles of the views; none is used if colour is not wanted."""

from __future__ import annotations

import enum

ABSENT = "–"


class Colour(enum.Enum):
    """Whether escape sequences are written."""

    NEVER = "never"
    ANSI = "ansi"


class Style(enum.Enum):
    """What a piece of text means; the value is its escape sequence's parameter."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    BAD = "31"
    GOOD = "32"
    WARNING = "33"
    ACCENT = "36"


def paint(text: str, style: Style, colour: Colour) -> str:
    """The text in that style."""
    if colour is Colour.NEVER or style is Style.PLAIN or not text:
        return text
    return f"\x1b[{style.value}m{text}\x1b[0m"
