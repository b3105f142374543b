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
class Server:
    """What a server takes, as docs/fleet.md measured it; the rules are those of a thousand cards."""

    title: str
    bytes_per_series: float
    cpu_per_sample: float
    rules_seconds: float
    bytes_per_sample: float
    planned_bytes_per_sample: float

    def memory_mib(self, series: float) -> float:
        """Its memory, above that of a server without targets."""
        return series * self.bytes_per_series / MIB

    def cpu_ratio(self, samples: float) -> float:
        """The share of a core for so many samples a second."""
        return samples * self.cpu_per_sample + self.rules_seconds / SCRAPE_SECONDS

    def disk_gb(self, samples: float) -> float:
        """What so many samples a second take on disk in a day."""
        return samples * DAY_SECONDS * self.bytes_per_sample / 1e9


SERVERS = (
    Server("Prometheus with our rules", 5350, 2.1e-6, MANY_CARDS * 0.67e-3, 1.22, 3.0),
    Server("VictoriaMetrics", 2244, 3.9e-6, 0.0, 0.46, 1.5),
)


def sizes(rows: Sequence[VendorSeries]) -> str:
    """For each server a table of the vendors with the most cards, and below the first how it was worked out."""
    prometheus, *others = (f"{server.title}:\n\n{_table(server, rows[:MOST_SHOWN])}" for server in SERVERS)
    return "\n".join((prometheus, _worked_out(SERVERS[0], rows[0]), *others, _kept(rows[0])))


def _table(server: Server, rows: Sequence[VendorSeries]) -> str:
    heads = [f"{MANY_CARDS:,} cards", "series", "samples/s", "memory", "CPU of a core", "disk a day"]
    return table(heads, [_row(server, row) for row in rows])


def _row(server: Server, row: VendorSeries) -> list[str]:
    series = row.of(MANY_CARDS)
    samples = series / SCRAPE_SECONDS
    memory, cpu, disk = server.memory_mib(series), server.cpu_ratio(samples), server.disk_gb(samples)
    return [
        row.vendor,
        f"{series:,.0f}",
        f"{samples:,.0f}",
        f"{memory:.0f} MiB",
        f"{cpu:.1%}".replace("%", " %"),
        f"{disk:.2f} GB",
    ]


def _worked_out(server: Server, row: VendorSeries) -> str:
    series = row.of(MANY_CARDS)
    samples = series / SCRAPE_SECONDS
    nodes = MANY_CARDS // CARDS_PER_NODE
    besides = f"{nodes} nodes × ({row.per_node:.0f} + {SERIES_OF_A_SCRAPE} of the scrape)"
    rules = f"{MANY_CARDS:,} × {server.rules_seconds * 1e3 / MANY_CARDS:.2f} ms for rules ÷ {SCRAPE_SECONDS} s"
    return (
        "```\n"
        f"The first line: series = {MANY_CARDS:,} × {row.per_card:.0f} + {besides} = {series:,.0f}\n"
        f"samples/s = {series:,.0f} ÷ {SCRAPE_SECONDS} s = {samples:,.0f}\n"
        f"memory = {series:,.0f} × {server.bytes_per_series:,.0f} bytes = {server.memory_mib(series):.0f} MiB, "
        "on top of a server without targets\n"
        f"CPU = {samples:,.0f} × {server.cpu_per_sample * 1e6:.1f} s ÷ 1,000,000 + {rules} = {server.cpu_ratio(samples):.3f}\n"
        f"disk = {samples:,.0f} × {DAY_SECONDS:,} s × {server.bytes_per_sample:.2f} bytes = {server.disk_gb(samples):.2f} GB\n"
        "```\n"
    )


def _kept(row: VendorSeries) -> str:
    samples = row.of(MANY_CARDS) / SCRAPE_SECONDS
    planned = [
        f"{samples * DAY_SECONDS * KEPT_DAYS * server.planned_bytes_per_sample / 1e9:.0f} GB with {server.title.split()[0]}"
        for server in SERVERS
    ]
    return f"With the bytes per sample to plan with, {KEPT_DAYS} days of the first line take {' and '.join(planned)}.\n"
