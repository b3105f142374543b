"""Lines, quotes and bus addresses for all parsers of text."""

from __future__ import annotations

import re

from telemetry_parsers.dataclass import dataclass

# All counts are bounded, so that no input makes these patterns backtrack.
_COLOUR = re.compile(r"\x1b\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]")
# sudo's prompt precedes the first line, since the line end of the password is not echoed: `[sudo] password for joe: GPU: 0`.
_PROMPT = re.compile(r"^\[sudo\] [^:：\n]{1,80}[:：] {0,4}", re.MULTILINE)
_BUS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_QUOTE_LENGTH = 160
# No tool prints more lines for one node. A longer text is not read.
MOST_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end and colours, as `plain` returns it; `ended` is False if the text stops inside the line."""

    number: int
    text: str
    ended: bool = True
    stream: str = ""

    @property
    def where(self) -> str:
        """Return the position of this line for problems."""
        return f"{self.stream} line {self.number}".strip()


def plain(text: str) -> str:
    """Return the text without colours, byte order mark, sudo's prompt, and the non-breaking blanks of web pages."""
    text = _COLOUR.sub("", text).removeprefix("\ufeff").replace("\u00a0", " ")
    return _PROMPT.sub("", text) if "[sudo]" in text else text


def lines(text: str, stream: str = "") -> list[Line]:
    """Return the lines of a text, numbered from 1; `stream` is its name if it is not the standard output."""
    parts = plain(text).split("\n")
    last = parts.pop()
    listed = [Line(number, part.rstrip("\r"), stream=stream) for number, part in enumerate(parts, 1)]
    if last.strip():
        listed.append(Line(len(parts) + 1, last.rstrip("\r"), ended=False, stream=stream))
    return listed


def quote(text: str) -> str:
    """Return a piece of foreign text, short and printable, for a problem."""
    piece = " ".join(text.lstrip()[: 4 * _QUOTE_LENGTH].split())
    piece = "".join(sign if sign.isprintable() else "?" for sign in piece)
    return piece if len(piece) <= _QUOTE_LENGTH else piece[: _QUOTE_LENGTH - 1] + "…"


def bus_address(text: str) -> str | None:
    """Return a PCI address as `dddd:bb:dd.f` in lower case. Tools print the domain with four or eight digits."""
    match = _BUS.match(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()
