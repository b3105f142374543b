"""Lines that fit: cut, wrapped, or with fewer parts. A number is never cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from telemetry_exporters import human
from telemetry_exporters.terminal.frames.model import Line, Piece
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import clean, cut, display_width
from telemetry_parsers.dataclass import dataclass

_BEGUN_NUMBER = re.compile(r"[0-9][0-9.,:]*\Z")
_OF_NUMBER = frozenset("0123456789.,:")
# A longer text from a tool is of no use in a terminal.
_LONGEST_TEXT = 400
_DATE = len("2026-01-01 ")


def width_of(line: Iterable[Piece]) -> int:
    """Return the columns that the line takes."""
    return sum(display_width(piece.text) for piece in line)


def cut_whole(text: str, width: int) -> str:
    """Return the text, or its beginning and an ellipsis. A number that would be cut is left out."""
    short = cut(text, width)
    if short == text or not short:
        return short
    kept = short[:-1]
    if text[len(kept) : len(kept) + 1] in _OF_NUMBER:
        kept = _BEGUN_NUMBER.sub("", kept)
    return kept.rstrip() + short[-1]


def clipped(line: Line, width: int) -> Line:
    """Return the line cut to the width."""
    if width_of(line) <= width:
        return line
    kept: list[Piece] = []
    room = width
    for piece in line:
        if room <= 0:
            break
        text = cut_whole(piece.text, room)
        kept.append(Piece(text, piece.style))
        room = 0 if text != piece.text else room - display_width(text)
    return tuple(kept)


def spread(left: Line, right: Line, width: int) -> Line:
    """Return a line with both parts at its ends. If they do not fit, the left part is cut."""
    room = width - width_of(right) - 1
    if not right or room < 1:
        return clipped(right or left, width)
    short = clipped(left, room)
    return (*short, Piece(" " * (width - width_of(short) - width_of(right))), *right)


def parts_that_fit(parts: Iterable[str], width: int, between: str = ", ") -> str:
    """Return the parts joined; a part that does not fit is left out."""
    text = ""
    for part in parts:
        longer = text + between + part if text else part
        if display_width(longer) <= width:
            text = longer
    return text


def wrapped(
    text: str,
    width: int,
    style: Style = Style.PLAIN,
    indent: str = "",
    begin: str = "",
    longest: int = _LONGEST_TEXT,
) -> Iterator[Line]:
    """Yield the text in lines, the first behind `begin`, the others behind `indent`. A text beyond `longest` is cut."""
    line = ""
    for word in cut_whole(clean(text), longest).split(" "):
        longer = f"{line} {word}" if line else word
        if line and display_width(begin + longer) > width:
            yield from _broken(begin, line, width, style)
            begin, line = indent, word
        else:
            line = longer
    yield from _broken(begin, line, width, style)


def _broken(begin: str, text: str, width: int, style: Style) -> Iterator[Line]:
    """Yield the line, broken at the width if a word is wider than the terminal."""
    room = max(1, width - len(begin))
    while display_width(text) > room:
        end = max(1, len(cut(text, room + 1)) - 1)
        yield (Piece(begin + text[:end], style),)
        text = text[end:]
    yield (Piece(begin + text, style),)


def wrapped_parts(parts: Sequence[str], width: int, between: str = "   ") -> Iterator[str]:
    """Yield lines of whole parts."""
    line = ""
    for part in parts:
        longer = line + between + part if line else part
        if line and display_width(longer) > width:
            yield line
            line = part
        else:
            line = longer
    if line:
        yield line


def time_of_day(unix_seconds: float) -> str:
    """Return hours, minutes and seconds in UTC."""
    return human.utc(unix_seconds)[_DATE : -len(" UTC")]


def in_style(line: Line, style: Style) -> Line:
    """Return the line in one style."""
    return tuple(Piece(piece.text, style) for piece in line)


Make = Callable[[int, int], list[Line]]


@dataclass(frozen=True, slots=True)
class Body:
    """The lines of a view; `make` returns its headings, and its lines from one position to another."""

    count: int
    make: Make
    heads: int = 0  # lines of headings
    keys: Sequence[str] = ()  # names of the lines that can be chosen
    chosen: int | None = None
    headings: tuple[str, ...] = ()  # columns by which the view can be sorted

    def first(self, scroll: int, room: int) -> int:
        """Return the first line to show: close to the scrolled line, with the chosen line in sight and no room unused."""
        if self.chosen is not None:
            scroll = max(min(scroll, self.chosen), self.chosen - room + 1)
        return max(0, min(scroll, self.count - room))


def of_lines(lines: Sequence[Line]) -> Body:
    """Return a view of these lines, none of which can be chosen."""
    return Body(len(lines), lambda first, last: list(lines[first:last]))


def saying(text: str, width: int, style: Style = Style.DIM) -> Body:
    """Return a view of one sentence."""
    return of_lines(list(wrapped(text, width, style)))
