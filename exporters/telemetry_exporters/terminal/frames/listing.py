"""A list in columns that can be filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from telemetry_exporters.terminal.columns import FIRST_OPTIONAL, GAP, Cell, Column, SortKey, fit_columns
from telemetry_exporters.terminal.frames.drawing import Glyphs
from telemetry_exporters.terminal.frames.lines import Body, cut_text, in_style
from telemetry_exporters.terminal.frames.model import NOT_KEPT, Line, Piece, ViewOptions
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_exporters.text import clean, display_width
from telemetry_parsers.dataclass import dataclass, replace

_T = TypeVar("_T")
_NARROW = 60
_MIN_INFIX_LENGTH = 4
_CHOICE_MARK = "▸"
# (cell, display width of its text)
_MeasuredCell = tuple[Cell, int]


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """Defines a list by its columns, and by functions that describe its items."""

    columns: tuple[Column[_T], ...]
    key: Callable[[_T], str]
    search_text: Callable[[_T], str]
    severity_rank: Callable[[_T], int]
    style: Callable[[_T], Style] = lambda _: Style.PLAIN

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the columns by which items can be sorted."""
        by_group = {column.group or column.heading: column.heading for column in self.columns if not column.max_width}
        return tuple(by_group.values())

    def body(self, items: Iterable[_T], options: ViewOptions, chosen: str | None, width: int, glyphs: Glyphs) -> Body:
        """Return a view of the filtered, sorted items. The item `chosen` is highlighted."""
        shown_items = self._sort(self._filter(items, options.filter), options)
        keys = [self.key(item) for item in shown_items]
        index = None if chosen is None or not keys else keys.index(chosen) if chosen in keys else 0
        renderer = _ListRenderer(self, shown_items, width, glyphs, index, self._headings_with_arrow(options))
        return Body(len(shown_items), renderer.render, 1, keys, index, self.headings())

    def _filter(self, items: Iterable[_T], filter_text: str) -> list[_T]:
        words = filter_text.lower().split()
        return [item for item in items if all(_matches(word, f" {self.search_text(item)}".lower()) for word in words)]

    def _headings_with_arrow(self, options: ViewOptions) -> Mapping[str, str]:
        """Map the headings of the sorted column and of its group to headings with an arrow."""
        column = self._sorted_column(options)
        if column is None:
            return {}
        arrow = "▼" if options.is_reversed == column.is_text else "▲"
        group = [other for other in self.columns if other is column or (column.group and other.group == column.group)]
        return {other.heading: other.heading + arrow for other in group}

    def _sort(self, items: list[_T], options: ViewOptions) -> list[_T]:
        """Return the items sorted by the chosen column, by default the worst first."""
        column = self._sorted_column(options)
        if column is None:
            return sorted(items, key=self.severity_rank, reverse=options.is_reversed)
        keyed_items = [(column.sort_key(item), item) for item in items]
        numbers = [pair for pair in keyed_items if isinstance(pair[0], float | int)]
        texts = [pair for pair in keyed_items if isinstance(pair[0], tuple)]
        without_value = [item for key, item in keyed_items if key is None]
        numbers.sort(key=_first, reverse=not options.is_reversed)
        texts.sort(key=_first, reverse=options.is_reversed)
        return [item for _, item in (*numbers, *texts)] + without_value

    def _sorted_column(self, options: ViewOptions) -> Column[_T] | None:
        return next((column for column in self.columns if options.sort and column.heading == options.sort), None)


def _matches(word: str, text: str) -> bool:
    """Return whether a word in the text starts with `word`. A long `word` may also be inside a word of the text."""
    return f" {word}" in text or (len(word) >= _MIN_INFIX_LENGTH and word in text)


def _first(pair: tuple[SortKey | None, object]) -> SortKey:
    return 0.0 if pair[0] is None else pair[0]


@dataclass(frozen=True, slots=True)
class _ListRenderer(Generic[_T]):
    listing: Listing[_T]
    items: Sequence[_T]
    width: int
    glyphs: Glyphs
    chosen_index: int | None
    headings_with_arrow: Mapping[str, str]

    def render(self, first: int, last: int) -> list[Line]:
        """Return the headings and the lines of `items[first:last]`."""
        shown = self.items[first:last]
        gap = " " if self.width < _NARROW else GAP
        cells_by_column: dict[int, list[_MeasuredCell]] = {}
        absent_text = self.glyphs.displayable(ABSENT)

        def full_width(index: int) -> int:
            column = self.listing.columns[index]
            if column.draw is not None:
                return column.max_width
            cells = cells_by_column[index] = [self._measure(column.cell(item)) for item in shown]
            if column.priority >= FIRST_OPTIONAL and all(cell.text == absent_text for cell, _ in cells):
                return 0
            return max(column.usual_width, len(self._heading(column).text), *(width for _, width in cells), 0)

        widths = fit_columns(self.listing.columns, full_width, self.width - 1, len(gap))
        parts = [
            (
                self.listing.columns[index],
                width,
                cells_by_column[index] if index in cells_by_column else self._measured_drawings(index, width, shown),
            )
            for index, width in widths.items()
        ]
        heading_cells = [(column, width, self._measure(self._heading(column))) for column, width, _ in parts]
        lines = [_join_cells(" ", gap, heading_cells)]
        for row, item in enumerate(shown):
            mark = self.glyphs.displayable(_CHOICE_MARK) if first + row == self.chosen_index else " "
            line = _join_cells(mark, gap, [(column, width, cells[row]) for column, width, cells in parts])
            style = self.listing.style(item)
            lines.append(line if style is Style.PLAIN else in_style(line, style))
        return lines

    def _heading(self, column: Column[_T]) -> Cell:
        heading = self.headings_with_arrow.get(column.heading)
        return Cell(column.heading, Style.BOLD) if heading is None else Cell(heading, Style.ACCENT)

    def _measure(self, cell: Cell) -> _MeasuredCell:
        text = self.glyphs.displayable(clean(cell.text))
        return (cell if text == cell.text else Cell(text, cell.style)), display_width(text)

    def _measured_drawings(self, index: int, width: int, items: Sequence[_T]) -> list[_MeasuredCell]:
        draw = self.listing.columns[index].draw
        return [] if draw is None else [self._measure(draw(item, width)) for item in items]


def _join_cells(line_prefix: str, gap: str, cells: Iterable[tuple[Column[_T], int, _MeasuredCell]]) -> Line:
    pieces: list[Piece] = []
    text, style, separator = line_prefix, Style.PLAIN, ""
    for column, width, measured in cells:
        cell, _ = measured
        padded_text = _pad(measured, width, is_left_aligned=column.is_text or bool(column.max_width))
        if cell.style is not style:
            pieces.append(Piece(text + separator, style))
            text, style, separator = "", cell.style, ""
        text += separator + padded_text
        separator = gap
    return (*pieces, Piece(text, style))


def _pad(measured: _MeasuredCell, width: int, *, is_left_aligned: bool) -> str:
    cell, cell_width = measured
    if cell_width > width:
        short = cut_text(cell.text, width)
        return short + " " * (width - display_width(short))
    blanks = " " * (width - cell_width)
    return cell.text + blanks if is_left_aligned else blanks + cell.text


def past_columns(columns: Iterable[Column[_T]]) -> tuple[Column[_T], ...]:
    """Return columns for the past, with `not kept` for values without history."""
    not_kept = Cell(NOT_KEPT.word, Style.DIM)
    return tuple(
        column if column.has_history else replace(column, cell=lambda _: not_kept, sort_key=lambda _: None, min_width=0)
        for column in columns
    )
