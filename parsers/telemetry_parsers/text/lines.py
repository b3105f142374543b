"""Splits text into lines, shortens quoted text for messages, and parses bus addresses."""

from __future__ import annotations

import re

from telemetry_parsers.dataclass import dataclass

# All repetitions are bounded, so that these patterns do not backtrack.
_COLOUR = re.compile(r"\x1b\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]")
# The prompt of sudo, which has no line end: `[sudo] password for joe: GPU: 0`.
_PROMPT = re.compile(r"^\[sudo\] [^:：\n]{1,80}[:：] {0,4}", re.MULTILINE)
_BUS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_QUOTE_LENGTH = 160
# No tool prints more lines.
MAX_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line without line end or colours."""

    number: int
    text: str
    ended: bool = True  # False if the text is truncated inside the line
    stream: str = ""

    @property
    def where(self) -> str:
        """Return this line's position, such as `line 7`, for use in a message."""
        return f"{self.stream} line {self.number}".strip()


def plain(text: str) -> str:
    """Return the text without colours, a byte order mark or sudo's prompt."""
    text = _COLOUR.sub("", text).removeprefix("\ufeff").replace("\u00a0", " ")
    return _PROMPT.sub("", text) if "[sudo]" in text else text


def lines(text: str, stream: str = "") -> list[Line]:
    """Return the lines of a string, numbered from 1. `stream` is empty for standard output."""
    rows = plain(text).split("\n")
    last_row = rows.pop()
    result = [Line(number, row.rstrip("\r"), stream=stream) for number, row in enumerate(rows, 1)]
    if last_row.strip():
        result.append(Line(len(rows) + 1, last_row.rstrip("\r"), ended=False, stream=stream))
    return result


def quote(text: str) -> str:
    """Return the beginning of a text as one line of printable characters, to quote it in a message."""
    line = " ".join(text.lstrip()[: 4 * _QUOTE_LENGTH].split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= _QUOTE_LENGTH else line[: _QUOTE_LENGTH - 1] + "…"


def bus_address(text: str) -> str | None:
    """Return a PCI address as `dddd:bb:dd.f` in lower case, or None if the text is not a PCI address."""
    match = _BUS.match(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()
