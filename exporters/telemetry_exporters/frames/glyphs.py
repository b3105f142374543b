"""The characters that are drawn with: one set for terminals that know Unicode, one for those that do not."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_exporters.text import display_width

# One character each, or none: a text never grows by it.
_IN_ASCII = str.maketrans(
    {
        "–": "-",
        "…": "~",
        "×": "x",
        "→": ">",
        "←": "<",
        "°": None,
        "·": "-",
        "▸": ">",
        "▲": "^",
        "▼": "v",
        "✗": "x",
        "│": "|",
    }
)


@dataclass(frozen=True, slots=True)
class Glyphs:
    """`levels` are the eight of sparklines and charts, lowest first; a `gap` has no number; bars are `full` and `empty`."""

    levels: str
    gap: str
    full: str
    empty: str
    is_ascii: bool

    def plain(self, text: str) -> str:
        """The text as it can be shown; never wider than before."""
        if not self.is_ascii or text.isascii():
            return text
        seen = "".join(one for one in text.translate(_IN_ASCII) if display_width(one))
        return seen.encode("ascii", "replace").decode("ascii")


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "█", "░", is_ascii=False)
ASCII = Glyphs("_,-~=+*#", ".", "#", "-", is_ascii=True)
