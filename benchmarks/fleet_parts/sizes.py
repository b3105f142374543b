"""What a server takes for a thousand cards, worked out from the series on their pages and what was measured for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet_parts.series import CARDS_PER_NODE, MANY_CARDS, SERIES_OF_A_SCRAPE, VendorSeries, table

SCRAPE_SECONDS = 15
DAY_SECONDS = 86_400
KEPT_DAYS = 90
MOST_SHOWN = 5
MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What one server needs for a series, a sample and a card; rules are per card, evaluated as often as scraped."""

    memory_per_series: float
    cpu_per_million: float
    cpu_per_card_evaluation: float
    disk_per_sample: float

    def memory(self, series: float) -> str:
        """Its memory, above that of a server without targets."""
        return f"{series * self.memory_per_series / MIB:,.0f} MiB"

    def cores(self, samples_per_second: float) -> float:
        """The share of a core for so many samples a second, and the rules of a thousand cards."""
        rules = MANY_CARDS * self.cpu_per_card_evaluation / SCRAPE_SECONDS
        return samples_per_second * self.cpu_per_million / 1e6 + rules

    def disk_a_day(self, samples_per_second: float) -> str:
        """What so many samples a second take on disk in a day."""
        return f"{samples_per_second * DAY_SECONDS * self.disk_per_sample / 1e9:.2f} GB"


@dataclass(frozen=True)
class Server:
    """A server as docs/fleet.md measured it, and the bytes of a sample to plan with."""

    title: str
    cost: Cost
    planned_bytes_per_sample: float


SERVERS = (
    Server("Prometheus with our rules", Cost(5350, 2.1, 0.67e-3, 1.22), 3.0),
    Server("VictoriaMetrics", Cost(2244, 3.9, 0.0, 0.46), 1.5),
)


def sizes(rows: Sequence[VendorSeries]) -> str:
    """For each server a table of the vendors with the most cards, and below the first how it was worked out."""
    prometheus, *others = (f"{server.title}:\n\n{cost_table(server.cost, rows[:MOST_SHOWN])}" for server in SERVERS)
    worked_out = f"```\n{arithmetic(SERVERS[0].cost, rows[0])}```\n"
    return "\n".join((prometheus, worked_out, *others, _kept(rows[0])))


def cost_table(cost: Cost, rows: Sequence[VendorSeries]) -> str:
    """A thousand cards of each vendor in nodes of eight, scraped every 15 s."""
    heads = [f"{MANY_CARDS:,} cards", "series", "samples/s", "memory", "CPU of a core", "disk a day"]
    return table(heads, [_row(cost, row.vendor, row.of(MANY_CARDS)) for row in rows])


def _row(cost: Cost, vendor: str, series: float) -> list[str]:
    samples = series / SCRAPE_SECONDS
    cpu = f"{cost.cores(samples) * 100:.1f} %"
    return [vendor, f"{series:,.0f}", f"{samples:,.0f}", cost.memory(series), cpu, cost.disk_a_day(samples)]


def arithmetic(cost: Cost, row: VendorSeries) -> str:
    """How the line of a vendor comes about."""
    series = row.of(MANY_CARDS)
    samples = series / SCRAPE_SECONDS
    nodes = MANY_CARDS // CARDS_PER_NODE
    besides = f"{nodes} nodes × ({row.per_node:.0f} + {SERIES_OF_A_SCRAPE} of the scrape)"
    rules = f"{MANY_CARDS:,} × {cost.cpu_per_card_evaluation * 1e3:.2f} ms for rules ÷ {SCRAPE_SECONDS} s"
    return (
        f"The first line: series = {MANY_CARDS:,} × {row.per_card:.0f} + {besides} = {series:,.0f}\n"
        f"samples/s = {series:,.0f} ÷ {SCRAPE_SECONDS} s = {samples:,.0f}\n"
        f"memory = {series:,.0f} × {cost.memory_per_series:,.0f} bytes = {cost.memory(series)}, "
        "on top of a server without targets\n"
        f"CPU = {samples:,.0f} × {cost.cpu_per_million:.1f} s ÷ 1,000,000 + {rules} = {cost.cores(samples):.3f}\n"
        f"disk = {samples:,.0f} × {DAY_SECONDS:,} s × {cost.disk_per_sample:.2f} bytes = {cost.disk_a_day(samples)}\n"
    )


def _kept(row: VendorSeries) -> str:
    samples = row.of(MANY_CARDS) / SCRAPE_SECONDS
    planned = [
        f"{samples * DAY_SECONDS * KEPT_DAYS * server.planned_bytes_per_sample / 1e9:.0f} GB with {server.title.split()[0]}"
        for server in SERVERS
    ]
    return f"With the bytes per sample to plan with, {KEPT_DAYS} days of the first line take {' and '.join(planned)}.\n"
