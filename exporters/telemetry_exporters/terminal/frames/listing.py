"""A list in columns: its rows, their order, and the columns that fit the width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from telemetry_exporters.terminal.columns import GAP, OPTIONAL, Cell, Column, Rank, fitted
from telemetry_exporters.terminal.frames.drawing import Glyphs
from telemetry_exporters.terminal.frames.lines import Body, cut_whole, in_style
from telemetry_exporters.terminal.frames.model import NOT_KEPT, Line, Look, Piece
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_exporters.text import clean, display_width
from telemetry_parsers.dataclass import dataclass, replace

_T = TypeVar("_T")
_NARROW = 60
_LONG_WORD = 4
_MARK = "▸"
# A cell and the columns that it takes.
_Measured = tuple[Cell, int]


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """How to list things: columns, the key of a line, the text for the filter, the severity (0 is the worst), and the style of a line."""

    columns: tuple[Column[_T], ...]
    key: Callable[[_T], str]
    text: Callable[[_T], str]
    badness: Callable[[_T], int]
    style: Callable[[_T], Style] = lambda _: Style.PLAIN

    def headings(self) -> tuple[str, ...]:
        """Return the headings that can be sorted by. Of alternative columns, only the last is named."""
        named = {column.slot or column.heading: column.heading for column in self.columns if not column.most}
        return tuple(named.values())

    def body(self, things: Iterable[_T], look: Look, chosen: str | None, width: int, glyphs: Glyphs) -> Body:
        """Return the things that match the filter, in order. The line with the key `chosen` is chosen, else the first; None chooses no line."""
        shown = self._ordered(self._filtered(things, look.filter), look)
        keys = [self.key(thing) for thing in shown]
        index = None if chosen is None or not keys else keys.index(chosen) if chosen in keys else 0
        painter = _Painter(self, shown, width, glyphs, index, self._sort_mark(look))
        return Body(len(shown), painter.lines, 1, keys, index, self.headings())

    def _filtered(self, things: Iterable[_T], wanted: str) -> list[_T]:
        words = wanted.lower().split()
        return [thing for thing in things if all(_is_in(word, f" {self.text(thing)}".lower()) for word in words)]

    def _sort_mark(self, look: Look) -> Mapping[str, str]:
        """Return the headings with an arrow: of the sorted column, and of its alternatives."""
        chosen = next((column for column in self.columns if look.sort and column.heading == look.sort), None)
        if chosen is None:
            return {}
        mark = "▼" if look.is_reversed == chosen.is_text else "▲"
        same = (column for column in self.columns if column is chosen or (chosen.slot and column.slot == chosen.slot))
        return {column.heading: column.heading + mark for column in same}

    def _ordered(self, things: list[_T], look: Look) -> list[_T]:
        """Return the things by a column: highest numbers and first texts first, missing values last; without a column worst first."""
        column = next((column for column in self.columns if look.sort and column.heading == look.sort), None)
        if column is None:
            return sorted(things, key=self.badness, reverse=look.is_reversed)
        ranked = [(column.rank(thing), thing) for thing in things]
        numbers = [pair for pair in ranked if isinstance(pair[0], float | int)]
        texts = [pair for pair in ranked if isinstance(pair[0], tuple)]
        without = [thing for rank, thing in ranked if rank is None]
        numbers.sort(key=_rank, reverse=not look.is_reversed)
        texts.sort(key=_rank, reverse=look.is_reversed)
        return [thing for _, thing in (*numbers, *texts)] + without


def _is_in(word: str, text: str) -> bool:
    """Return whether a word of the text begins so. A long word may be anywhere, as in an id."""
    return f" {word}" in text or (len(word) >= _LONG_WORD and word in text)


def _rank(pair: tuple[Rank | None, object]) -> Rank:
    return 0.0 if pair[0] is None else pair[0]


@dataclass(frozen=True, slots=True)
class _Painter(Generic[_T]):
    """Makes the lines that are in sight."""

    listing: Listing[_T]
    things: Sequence[_T]
    width: int
    glyphs: Glyphs
    chosen: int | None
    sorted_by: Mapping[str, str]

    def lines(self, first: int, last: int) -> list[Line]:
        """Return the headings, and a line for each of these things."""
        shown = self.things[first:last]
        gap = " " if self.width < _NARROW else GAP
        made: dict[int, list[_Measured]] = {}
        absent = self.glyphs.plain(ABSENT)

        def natural(index: int) -> int:
            column = self.listing.columns[index]
            if column.draw is not None:
                return column.most
            cells = made[index] = [self._measured(column.cell(thing)) for thing in shown]
            if column.priority >= OPTIONAL and all(cell.text == absent for cell, _ in cells):
                return 0
            return max(column.usual, len(self._heading(column).text), *(width for _, width in cells), 0)

        widths = fitted(self.listing.columns, natural, self.width - 1, len(gap))
        parts = [
            (
                self.listing.columns[index],
                width,
                made[index] if index in made else self._drawn(index, width, shown),
            )
            for index, width in widths.items()
        ]
        lines = [
            _line(" ", gap, [(column, width, self._measured(self._heading(column))) for column, width, _ in parts])
        ]
        for number, thing in enumerate(shown):
            mark = self.glyphs.plain(_MARK) if first + number == self.chosen else " "
            line = _line(mark, gap, [(column, width, cells[number]) for column, width, cells in parts])
            style = self.listing.style(thing)
            lines.append(line if style is Style.PLAIN else in_style(line, style))
        return lines

    def _heading(self, column: Column[_T]) -> Cell:
        marked = self.sorted_by.get(column.heading)
        return Cell(column.heading, Style.BOLD) if marked is None else Cell(marked, Style.ACCENT)

    def _measured(self, cell: Cell) -> _Measured:
        text = self.glyphs.plain(clean(cell.text))
        return (cell if text == cell.text else Cell(text, cell.style)), display_width(text)

    def _drawn(self, index: int, width: int, shown: Sequence[_T]) -> list[_Measured]:
        draw = self.listing.columns[index].draw
        return [] if draw is None else [self._measured(draw(thing, width)) for thing in shown]


def _line(mark: str, gap: str, parts: Iterable[tuple[Column[_T], int, _Measured]]) -> Line:
    """Return the cells in their columns. Neighbouring cells of one style are one piece."""
    pieces: list[Piece] = []
    text, style, between = mark, Style.PLAIN, ""
    for column, width, measured in parts:
        cell, _ = measured
        shown = _padded(measured, width, is_left=column.is_text or bool(column.most))
        if cell.style is not style:
            pieces.append(Piece(text + between, style))
            text, style, between = "", cell.style, ""
        text += between + shown
        between = gap
    return (*pieces, Piece(text, style))


def _padded(measured: _Measured, width: int, *, is_left: bool) -> str:
    cell, taken = measured
    if taken > width:
        short = cut_whole(cell.text, width)
        return short + " " * (width - display_width(short))
    blanks = " " * (width - taken)
    return cell.text + blanks if is_left else blanks + cell.text


def past_columns(columns: Iterable[Column[_T]]) -> tuple[Column[_T], ...]:
    """Return the columns for the past: a column that history does not keep shows `not kept`."""
    not_kept = Cell(NOT_KEPT.word, Style.DIM)
    return tuple(
        column if column.is_kept else replace(column, cell=lambda _: not_kept, rank=lambda _: None, least=0)
        for column in columns
    )
