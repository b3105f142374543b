"""What a view puts between header and footer: lines that are made when they are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from telemetry_exporters.frames.lines import wrapped
from telemetry_exporters.frames.model import Line
from telemetry_exporters.style import Style

Make = Callable[[int, int], list[Line]]


@dataclass(frozen=True, slots=True)
class Body:
    """So many lines below `heads` that stay; `make(first, last)` gives the heads and those lines.

    `keys` name the lines that can be chosen, one a line; `chosen` is the place of the chosen one. `headings` are what it can be sorted by.
    """

    count: int
    make: Make
    heads: int = 0
    keys: Sequence[str] = ()
    chosen: int | None = None
    headings: tuple[str, ...] = ()

    def first(self, scroll: int, room: int) -> int:
        """The first line that is shown: near the scrolled one, the chosen one in sight, no room unused."""
        if self.chosen is not None:
            scroll = max(min(scroll, self.chosen), self.chosen - room + 1)
        return max(0, min(scroll, self.count - room))


def of_lines(lines: Sequence[Line]) -> Body:
    """These lines, none of which can be chosen."""
    return Body(len(lines), lambda first, last: list(lines[first:last]))


def saying(text: str, width: int, style: Style = Style.DIM) -> Body:
    """A sentence in place of a list."""
    return of_lines(list(wrapped(text, width, style)))
