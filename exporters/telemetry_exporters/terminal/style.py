"""Text styles in a terminal."""

from __future__ import annotations

import enum

ABSENT = "–"


class Colour(enum.Enum):
    """Whether and how text is coloured."""

    NEVER = "never"
    ANSI = "ansi"


class Style(enum.Enum):
    """A text style. Its value is the parameter of the escape sequence."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    BAD = "31"
    GOOD = "32"
    WARNING = "33"
    ACCENT = "36"


def paint(text: str, style: Style, colour: Colour) -> str:
    """Return the text with the escape sequences of the style."""
    if colour is Colour.NEVER or style is Style.PLAIN or not text:
        return text
    return f"\x1b[{style.value}m{text}\x1b[0m"
