"""The characters that are no text: one set for terminals that know Unicode, one for those that do not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """`levels` are those of sparklines and charts, lowest first; `texts` are what else is written differently."""

    levels: str
    gap: str
    full: str
    empty: str
    chosen: str
    above: str
    below: str
    bad: str
    texts: tuple[tuple[str, str], ...] = ()
    is_ascii: bool = False


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "█", "░", "▸", "▲", "▼", "✗")
ASCII = Glyphs(
    "_,-~=+*#",
    ".",
    "#",
    ".",
    ">",
    "^",
    "v",
    "x",
    (("–", "-"), ("…", "..."), ("×", "x"), ("→", "->"), ("°", ""), ("←", "<-"), ("·", "-")),
    is_ascii=True,
)
