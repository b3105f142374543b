"""Fits lines to a width by cutting, wrapping or omitting parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from telemetry_exporters import human
from telemetry_exporters.terminal.frames.model import Line, Piece
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import clean, cut, display_width
from telemetry_parsers.dataclass import dataclass

_PARTIAL_NUMBER = re.compile(r"[0-9][0-9.,:]*\Z")
_NUMBER_CHARACTERS = frozenset("0123456789.,:")
# Longer texts from tools would fill the terminal.
_MAX_TEXT_LENGTH = 400
_DATE_LENGTH = len("2026-01-01 ")


def line_width(line: Iterable[Piece]) -> int:
    """Return the width of the line in terminal columns."""
    return sum(display_width(piece.text) for piece in line)


def cut_text(text: str, width: int) -> str:
    """Return the text, cut to the width but never within a number."""
    shortened = cut(text, width)
    if shortened == text or not shortened:
        return shortened
    prefix = shortened[:-1]
    if text[len(prefix) : len(prefix) + 1] in _NUMBER_CHARACTERS:
        prefix = _PARTIAL_NUMBER.sub("", prefix)
    return prefix.rstrip() + shortened[-1]


def cut_line(line: Line, width: int) -> Line:
    """Return the line, cut to the width."""
    if line_width(line) <= width:
        return line
    pieces: list[Piece] = []
    free_width = width
    for piece in line:
        if free_width <= 0:
            break
        text = cut_text(piece.text, free_width)
        pieces.append(Piece(text, piece.style))
        free_width = 0 if text != piece.text else free_width - display_width(text)
    return tuple(pieces)


def left_and_right(left: Line, right: Line, width: int) -> Line:
    """Return a line with `left` and `right` at its ends. If the width is too small, `left` is cut first."""
    free_width = width - line_width(right) - 1
    if not right or free_width < 1:
        return cut_line(right or left, width)
    short = cut_line(left, free_width)
    return (*short, Piece(" " * (width - line_width(short) - line_width(right))), *right)


def join_fitting(parts: Iterable[str], width: int, separator: str = ", ") -> str:
    """Join the parts in order, but omit each part that would exceed the width."""
    text = ""
    for part in parts:
        longer = text + separator + part if text else part
        if display_width(longer) <= width:
            text = longer
    return text


def wrapped(
    text: str,
    width: int,
    style: Style = Style.PLAIN,
    indent: str = "",
    prefix: str = "",
    max_width: int = _MAX_TEXT_LENGTH,
) -> Iterator[Line]:
    """Wrap the text into lines. The first line starts with `prefix`, all others with `indent`."""
    line = ""
    for word in cut_text(clean(text), max_width).split(" "):
        longer = f"{line} {word}" if line else word
        if line and display_width(prefix + longer) > width:
            yield from _wrap_word(prefix, line, width, style)
            prefix, line = indent, word
        else:
            line = longer
    yield from _wrap_word(prefix, line, width, style)


def _wrap_word(prefix: str, text: str, width: int, style: Style) -> Iterator[Line]:
    free_width = max(1, width - len(prefix))
    while display_width(text) > free_width:
        end = max(1, len(cut(text, free_width + 1)) - 1)
        yield (Piece(prefix + text[:end], style),)
        text = text[end:]
    yield (Piece(prefix + text, style),)


def wrap_parts(parts: Sequence[str], width: int, separator: str = "   ") -> Iterator[str]:
    """Join parts into lines without splitting a part."""
    line = ""
    for part in parts:
        longer = line + separator + part if line else part
        if line and display_width(longer) > width:
            yield line
            line = part
        else:
            line = longer
    if line:
        yield line


def time_of_day(unix_seconds: float) -> str:
    """Return the time of day in UTC, such as `12:34:56`."""
    return human.utc(unix_seconds)[_DATE_LENGTH : -len(" UTC")]


def in_style(line: Line, style: Style) -> Line:
    """Return the line with all its pieces in this style."""
    return tuple(Piece(piece.text, style) for piece in line)


RenderLines = Callable[[int, int], list[Line]]


@dataclass(frozen=True, slots=True)
class Body:
    """The lines of a view."""

    count: int  # the number of lines below the headings
    render: RenderLines
    heading_count: int = 0
    keys: Sequence[str] = ()  # the keys of the lines, if lines can be chosen
    chosen: int | None = None  # the index of the chosen line
    headings: tuple[str, ...] = ()  # the columns by which the view can be sorted

    def first_visible(self, scroll: int, rows: int) -> int:
        """Return the index of the first visible line, as near to `scroll` as possible."""
        if self.chosen is not None:
            scroll = max(min(scroll, self.chosen), self.chosen - rows + 1)
        return max(0, min(scroll, self.count - rows))


def body_of_lines(lines: Sequence[Line]) -> Body:
    """Return a view of these lines, which cannot be chosen."""
    return Body(len(lines), lambda first, last: list(lines[first:last]))


def message_body(text: str, width: int, style: Style = Style.DIM) -> Body:
    """Return a view that shows a message, wrapped to the width."""
    return body_of_lines(list(wrapped(text, width, style)))
