"""A list in columns: filters and sorts its items, and selects the columns that fit the width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from telemetry_exporters.terminal.columns import GAP, OPTIONAL, Cell, Column, Rank, fit_columns
from telemetry_exporters.terminal.frames.drawing import Glyphs
from telemetry_exporters.terminal.frames.lines import Body, cut_text, in_style
from telemetry_exporters.terminal.frames.model import NOT_KEPT, Line, Piece, ViewOptions
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_exporters.text import clean, display_width
from telemetry_parsers.dataclass import dataclass, replace

_T = TypeVar("_T")
_NARROW = 60
_LONG_WORD = 4
_MARK = "▸"
# A cell and its width.
_Measured = tuple[Cell, int]


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """Defines a list by functions of its items: key, text for the filter, severity rank (0 is the worst), and style."""

    columns: tuple[Column[_T], ...]
    key: Callable[[_T], str]
    text: Callable[[_T], str]
    severity_rank: Callable[[_T], int]
    style: Callable[[_T], Style] = lambda _: Style.PLAIN

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the columns that can be sorted. Of alternative columns, only the last is returned."""
        by_group = {column.group or column.heading: column.heading for column in self.columns if not column.max_width}
        return tuple(by_group.values())

    def body(self, items: Iterable[_T], options: ViewOptions, chosen: str | None, width: int, glyphs: Glyphs) -> Body:
        """Return the filtered and sorted items. The item with the key `chosen` is chosen, by default the first; None: no item."""
        shown = self._ordered(self._filtered(items, options.filter), options)
        keys = [self.key(item) for item in shown]
        index = None if chosen is None or not keys else keys.index(chosen) if chosen in keys else 0
        painter = _ListRenderer(self, shown, width, glyphs, index, self._sort_mark(options))
        return Body(len(shown), painter.lines, 1, keys, index, self.headings())

    def _filtered(self, items: Iterable[_T], filter_text: str) -> list[_T]:
        words = filter_text.lower().split()
        return [item for item in items if all(_matches(word, f" {self.text(item)}".lower()) for word in words)]

    def _sort_mark(self, options: ViewOptions) -> Mapping[str, str]:
        """Return the headings of the sorted column and its alternatives, each with an arrow."""
        chosen = next((column for column in self.columns if options.sort and column.heading == options.sort), None)
        if chosen is None:
            return {}
        mark = "▼" if options.is_reversed == chosen.is_text else "▲"
        alternatives = (
            column for column in self.columns if column is chosen or (chosen.group and column.group == chosen.group)
        )
        return {column.heading: column.heading + mark for column in alternatives}

    def _ordered(self, items: list[_T], options: ViewOptions) -> list[_T]:
        """Return the items sorted by the chosen column, missing values last. Without a column, the worst are first."""
        column = next((column for column in self.columns if options.sort and column.heading == options.sort), None)
        if column is None:
            return sorted(items, key=self.severity_rank, reverse=options.is_reversed)
        ranked = [(column.rank(item), item) for item in items]
        numbers = [pair for pair in ranked if isinstance(pair[0], float | int)]
        texts = [pair for pair in ranked if isinstance(pair[0], tuple)]
        without = [item for rank, item in ranked if rank is None]
        numbers.sort(key=_rank, reverse=not options.is_reversed)
        texts.sort(key=_rank, reverse=options.is_reversed)
        return [item for _, item in (*numbers, *texts)] + without


def _matches(word: str, text: str) -> bool:
    """Return whether a word of the text begins with `word`. A long word may be anywhere, such as in an id."""
    return f" {word}" in text or (len(word) >= _LONG_WORD and word in text)


def _rank(pair: tuple[Rank | None, object]) -> Rank:
    return 0.0 if pair[0] is None else pair[0]


@dataclass(frozen=True, slots=True)
class _ListRenderer(Generic[_T]):
    """Renders the visible lines of a list."""

    listing: Listing[_T]
    items: Sequence[_T]
    width: int
    glyphs: Glyphs
    chosen: int | None
    sorted_by: Mapping[str, str]

    def lines(self, first: int, last: int) -> list[Line]:
        """Return the headings, and a line for each item from position `first` to `last`."""
        shown = self.items[first:last]
        gap = " " if self.width < _NARROW else GAP
        cells_by_column: dict[int, list[_Measured]] = {}
        absent = self.glyphs.plain(ABSENT)

        def full_width(index: int) -> int:
            column = self.listing.columns[index]
            if column.draw is not None:
                return column.max_width
            cells = cells_by_column[index] = [self._measured(column.cell(item)) for item in shown]
            if column.priority >= OPTIONAL and all(cell.text == absent for cell, _ in cells):
                return 0
            return max(column.usual_width, len(self._heading(column).text), *(width for _, width in cells), 0)

        widths = fit_columns(self.listing.columns, full_width, self.width - 1, len(gap))
        parts = [
            (
                self.listing.columns[index],
                width,
                cells_by_column[index] if index in cells_by_column else self._drawings(index, width, shown),
            )
            for index, width in widths.items()
        ]
        lines = [
            _line(" ", gap, [(column, width, self._measured(self._heading(column))) for column, width, _ in parts])
        ]
        for number, item in enumerate(shown):
            mark = self.glyphs.plain(_MARK) if first + number == self.chosen else " "
            line = _line(mark, gap, [(column, width, cells[number]) for column, width, cells in parts])
            style = self.listing.style(item)
            lines.append(line if style is Style.PLAIN else in_style(line, style))
        return lines

    def _heading(self, column: Column[_T]) -> Cell:
        heading = self.sorted_by.get(column.heading)
        return Cell(column.heading, Style.BOLD) if heading is None else Cell(heading, Style.ACCENT)

    def _measured(self, cell: Cell) -> _Measured:
        text = self.glyphs.plain(clean(cell.text))
        return (cell if text == cell.text else Cell(text, cell.style)), display_width(text)

    def _drawings(self, index: int, width: int, shown: Sequence[_T]) -> list[_Measured]:
        draw = self.listing.columns[index].draw
        return [] if draw is None else [self._measured(draw(item, width)) for item in shown]


def _line(mark: str, gap: str, parts: Iterable[tuple[Column[_T], int, _Measured]]) -> Line:
    """Return the cells as a line. Adjacent cells with the same style become one piece."""
    pieces: list[Piece] = []
    text, style, between = mark, Style.PLAIN, ""
    for column, width, measured in parts:
        cell, _ = measured
        shown = _padded(measured, width, is_left=column.is_text or bool(column.max_width))
        if cell.style is not style:
            pieces.append(Piece(text + between, style))
            text, style, between = "", cell.style, ""
        text += between + shown
        between = gap
    return (*pieces, Piece(text, style))


def _padded(measured: _Measured, width: int, *, is_left: bool) -> str:
    cell, cell_width = measured
    if cell_width > width:
        short = cut_text(cell.text, width)
        return short + " " * (width - display_width(short))
    blanks = " " * (width - cell_width)
    return cell.text + blanks if is_left else blanks + cell.text


def past_columns(columns: Iterable[Column[_T]]) -> tuple[Column[_T], ...]:
    """Return the columns for the past. Columns without history show `not kept`."""
    not_kept = Cell(NOT_KEPT.word, Style.DIM)
    return tuple(
        column if column.has_history else replace(column, cell=lambda _: not_kept, rank=lambda _: None, min_width=0)
        for column in columns
    )
