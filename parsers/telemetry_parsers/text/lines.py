"""What every text parser needs before it looks at its own tool: lines, quotes, bus addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

# All counts are bounded, so that no input makes these backtrack.
_COLOUR = re.compile(r"\x1b\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]")
# What sudo asks stands before the first line, since the password's end is not echoed: `[sudo] password for joe: GPU: 0`.
_PROMPT = re.compile(r"^\[sudo\] [^:：\n]{1,80}[:：] {0,4}", re.MULTILINE)
_BUS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_QUOTE_LENGTH = 160
# No tool prints as many lines for one node; a text that has more is not worth the time of the rest.
MOST_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end and its colours, as `plain` leaves it; `ended` is False where the text stops inside it."""

    number: int
    text: str
    ended: bool = True
    stream: str = ""

    @property
    def where(self) -> str:
        """How a problem names this line."""
        return f"{self.stream} line {self.number}".strip()


def plain(text: str) -> str:
    """The text without the colours that some tools print even when nobody watches, and without what copying adds.

    That is a byte order mark before it, what sudo asks, and the blanks of web pages that keep a line from breaking.
    """
    text = _COLOUR.sub("", text).removeprefix("\ufeff").replace("\u00a0", " ")
    return _PROMPT.sub("", text) if "[sudo]" in text else text


def lines(text: str, stream: str = "") -> list[Line]:
    """The lines of a text, numbered from 1; `stream` names it where it is not the standard output."""
    parts = plain(text).split("\n")
    last = parts.pop()
    listed = [Line(number, part.rstrip("\r"), stream=stream) for number, part in enumerate(parts, 1)]
    if last.strip():
        listed.append(Line(len(parts) + 1, last.rstrip("\r"), ended=False, stream=stream))
    return listed


def quote(text: str) -> str:
    """A piece of foreign text, short and printable, as a problem shows it."""
    piece = " ".join(text.lstrip()[: 4 * _QUOTE_LENGTH].split())
    piece = "".join(sign if sign.isprintable() else "?" for sign in piece)
    return piece if len(piece) <= _QUOTE_LENGTH else piece[: _QUOTE_LENGTH - 1] + "…"


def bus_address(text: str) -> str | None:
    """A PCI address as `dddd:bb:dd.f` in lower case; tools print the domain with four or eight digits."""
    match = _BUS.match(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()
