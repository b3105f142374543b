"""The number of series per card and per node, counted on simulated pages or measured."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet_parts.nodes import Course, lines
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_parsers.vendors import VENDOR_WORDS

CARDS_PER_NODE = 8
MANY_CARDS = 1000
# Prometheus adds up, scrape_duration_seconds and three counts of samples to each target.
SERIES_OF_A_SCRAPE = 5
# Eight H100 through NVML have 1,760 series (docs/performance.md), because they report more throttle reasons than simulated cards.
_MEASURED_SERIES_PER_CARD = {"nvidia": 190.0}


@dataclass(frozen=True)
class VendorSeries:
    """The series of a vendor's nodes: per card, and per node without its cards."""

    vendor: str
    per_card: float
    per_node: float

    def total(self, cards: int) -> float:
        """Return all series of a number of cards in full nodes, including those that a scrape adds."""
        return cards * self.per_card + cards / CARDS_PER_NODE * (self.per_node + SERIES_OF_A_SCRAPE)


@functools.cache
def vendor_series() -> tuple[VendorSeries, ...]:
    """Return the counts from simulated pages: a node of eight cards has seven cards more than a node of one card."""
    rows = []
    for vendor in VENDOR_WORDS:
        one_card, all_cards = (_series_of(f"{count}x{vendor}") for count in (1, CARDS_PER_NODE))
        per_card = (all_cards - one_card) / (CARDS_PER_NODE - 1)
        rows.append(VendorSeries(vendor, _MEASURED_SERIES_PER_CARD.get(vendor, per_card), one_card - per_card))
    return tuple(rows)


def _series_of(kind: str) -> int:
    return sum(1 for _ in lines(Course(parse_demo(kind), seed=1).pages[-1].body(Syntax.TEXT)))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [headings, ["---"] * len(headings), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def series_table(rows: Sequence[VendorSeries]) -> str:
    headings = [
        "vendor",
        "series per card",
        "additional series per node",
        f"{MANY_CARDS:,} cards in nodes of {CARDS_PER_NODE}",
    ]
    return table(
        headings,
        [[row.vendor, f"{row.per_card:.0f}", f"{row.per_node:.0f}", f"{row.total(MANY_CARDS):,.0f}"] for row in rows],
    )
