"""The table of a contest: what each contestant serves and takes, the others as so many times ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from side_by_side import tables
from side_by_side.contestants import Running


@dataclass(frozen=True, slots=True)
class Row:
    """One line: its words and the number of a contestant."""

    words: str
    number: Callable[[Running], float]


ROWS = (
    Row("series on the page", lambda each: each.scrapes[-1].series),
    Row("page, kB", lambda each: len(each.scrapes[-1].page) / 1000),
    Row("a scrape over the wire, kB", lambda each: each.scrapes[-1].wire / 1000),
    Row("CPU, ms a second", lambda each: each.cpu_per_second * 1e3),
    Row("RSS, MiB", lambda each: each.memory.rss),
    Row("PSS, MiB", lambda each: each.memory.pss),
    Row("scrape p50, ms", lambda each: each.scrape_ms(50)),
    Row("scrape p99, ms", lambda each: each.scrape_ms(99)),
    Row("100 scrapers at once: p50, ms", lambda each: each.burst_ms(50)),
    Row("100 scrapers at once: p99, ms", lambda each: each.burst_ms(99)),
    Row("of these refused or not answered in 10 s", lambda each: each.unanswered),
)


def print_contest(found: Sequence[Running], starts: Mapping[str, float], more: Sequence[Row] = ()) -> None:
    """Print one table; the first contestant is ours."""
    start = Row("start to first readings, s", lambda each: starts[each.contestant.name])
    names = [each.contestant.name for each in found]
    tables.print_table(("", *names), [_line(row, found) for row in (*ROWS, start, *more)])


def _line(row: Row, found: Sequence[Running]) -> list[str]:
    ours, *others = (row.number(each) for each in found)
    return [
        row.words,
        tables.number(ours),
        *(f"{tables.number(their)} ({tables.ratio(their, ours)})" for their in others),
    ]
