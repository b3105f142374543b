"""The requirements of a server for a number of cards, calculated from the series on their pages and planning figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet_parts.series import CARDS_PER_NODE, MANY_CARDS, SERIES_OF_A_SCRAPE, VendorSeries, table

SCRAPE_SECONDS = 15
DAY_SECONDS = 86_400
RETENTION_DAYS = 90
MAX_VENDORS = 5
ONE_PROMETHEUS_CARDS = 10_000


@dataclass(frozen=True)
class Cost:
    """The cost of a series, a sample and a card on one server. Rules are per card and are evaluated with each scrape."""

    memory_per_series: float
    cpu_per_million: float
    cpu_per_card_evaluation: float
    disk_per_sample: float
    # Rules that are evaluated once a minute need this CPU time.
    cpu_per_card_minute: float = 0.0

    def memory(self, series: float) -> str:
        """Return the memory for the series, in addition to that of a server without targets."""
        return f"{series * self.memory_per_series / 1e9:.2g} GB"

    def rules(self, cards: int) -> float:
        """Return the share of a core for the rules of a number of cards."""
        return cards * (self.cpu_per_card_evaluation / SCRAPE_SECONDS + self.cpu_per_card_minute / 60)

    def cores(self, samples_per_second: float) -> float:
        """Return the share of a core for samples per second, and for the rules of a thousand cards."""
        return samples_per_second * self.cpu_per_million / 1e6 + self.rules(MANY_CARDS)

    def disk_per_day(self, samples_per_second: float) -> str:
        return f"{samples_per_second * DAY_SECONDS * self.disk_per_sample / 1e9:.2f} GB"


@dataclass(frozen=True)
class Server:
    """A server and its planning figures, which exceed all measurements in docs/fleet.md."""

    title: str
    plan: Cost


SERVERS = (
    Server("Prometheus with our rules", Cost(8000, 1.9, 0.67e-3, 3.0, 2.6e-3)),
    Server("VictoriaMetrics", Cost(2500, 2.5, 0.0, 1.5)),
)

# benchmarks/agents.py measured these maxima per unsent sample.
QUEUED_BYTES_PER_SAMPLE = {"Prometheus": 5.1, "vmagent": 19.2}


def queue_table(rows: Sequence[VendorSeries]) -> str:
    """Return a table of the disk space that an agent needs for a node of each main vendor while its store is away."""
    headings = ["node", "series"]
    headings += [head for agent in QUEUED_BYTES_PER_SAMPLE for head in (f"{agent}, per day", "1 GB lasts")]
    return table(headings, [_queue_row(row) for row in rows[:MAX_VENDORS]])


def _queue_row(row: VendorSeries) -> list[str]:
    series = CARDS_PER_NODE * row.per_card + row.per_node + SERIES_OF_A_SCRAPE
    days = [
        series * bytes_per_sample * DAY_SECONDS / SCRAPE_SECONDS
        for bytes_per_sample in QUEUED_BYTES_PER_SAMPLE.values()
    ]
    cells = [cell for day in days for cell in (f"{day / 1e6:.0f} MB", f"{1e9 / day * 24:,.0f} h")]
    return [f"{CARDS_PER_NODE} × {row.vendor}", f"{series:,.0f}", *cells]


def size_tables(rows: Sequence[VendorSeries]) -> str:
    """Return the planning figures, a table of costs for each server, an example, and the formula for any fleet."""
    tables = [f"{server.title}:\n\n{cost_table(server.plan, rows[:MAX_VENDORS])}" for server in SERVERS]
    first, *other_tables = tables
    example = f"```\n{arithmetic(SERVERS[0].plan, rows[0])}```\n"
    return "\n".join((planning_table(), first, example, *other_tables, _disk_usage(rows[0]), _formula()))


def planning_table() -> str:
    headings = ["server", "memory per series", "disk per sample", "CPU per million samples", "CPU for rules, per card"]
    return table(headings, [_planning_row(server.title, server.plan) for server in SERVERS])


def _planning_row(title: str, plan: Cost) -> list[str]:
    cpu_of_rules = f"{plan.cpu_per_card_evaluation * 1e3:.2f} ms every {SCRAPE_SECONDS} s, {plan.cpu_per_card_minute * 1e3:.1f} ms a minute"
    return [
        title,
        f"{plan.memory_per_series / 1000:g} kB",
        f"{plan.disk_per_sample:g} bytes",
        f"{plan.cpu_per_million:g} s",
        cpu_of_rules if plan.cpu_per_card_minute else "used by vmalert",
    ]


def scaling_table(rows: Sequence[VendorSeries]) -> str:
    """Return a table of the setups for small and large fleets."""
    plan, max_series = SERVERS[0].plan, max(row.total(ONE_PROMETHEUS_CARDS) for row in rows)
    needs = (
        f"at most {max_series / 1e6:.1f} million series, {plan.memory(max_series)} of memory, "
        f"{plan.rules(ONE_PROMETHEUS_CARDS):.1f} of a core for rules"
    )
    cards, nodes = f"up to {ONE_PROMETHEUS_CARDS:,}", f"up to {ONE_PROMETHEUS_CARDS // CARDS_PER_NODE:,}"
    return table(
        ["cards", f"nodes of {CARDS_PER_NODE}", "use"],
        [
            [cards, nodes, f"one Prometheus (`file-sd.yml`): {needs}"],
            [f"{cards}, at several sites", "", "[an agent](agents.md) at each site, one `central.yml`"],
            [
                "up to 50,000",
                "up to 6,250",
                "two to six shards (`shard.yml`), and a long-term store that accepts remote write and runs the rules",
            ],
            [
                "more",
                "",
                "a store that shards itself (VictoriaMetrics cluster, Mimir, Thanos); the scrape configurations stay the same",
            ],
        ],
    )


def cost_table(cost: Cost, rows: Sequence[VendorSeries]) -> str:
    """Return the cost of a thousand cards of each vendor in nodes of eight, scraped every 15 s."""
    headings = [f"{MANY_CARDS:,} cards", "series", "samples/s", "memory", "CPU, of one core", "disk per day"]
    return table(headings, [_cost_row(cost, row.vendor, row.total(MANY_CARDS)) for row in rows])


def _cost_row(cost: Cost, vendor: str, series: float) -> list[str]:
    samples = series / SCRAPE_SECONDS
    cpu = f"{cost.cores(samples) * 100:.1f} %"
    return [vendor, f"{series:,.0f}", f"{samples:,.0f}", cost.memory(series), cpu, cost.disk_per_day(samples)]


def arithmetic(cost: Cost, row: VendorSeries) -> str:
    """Return the calculation of a vendor's row in `cost_table`."""
    series = row.total(MANY_CARDS)
    samples = series / SCRAPE_SECONDS
    nodes = MANY_CARDS // CARDS_PER_NODE
    node_series = f"{nodes} nodes × ({row.per_node:.0f} + {SERIES_OF_A_SCRAPE} per scrape)"
    rules = f"{MANY_CARDS:,} × ({cost.cpu_per_card_evaluation * 1e3:.2f} ms ÷ {SCRAPE_SECONDS} s + {cost.cpu_per_card_minute * 1e3:.1f} ms ÷ 60 s)"
    return (
        f"The first row: series = {MANY_CARDS:,} × {row.per_card:.0f} + {node_series} = {series:,.0f}\n"
        f"samples/s = {series:,.0f} ÷ {SCRAPE_SECONDS} s = {samples:,.0f}\n"
        f"memory = {series:,.0f} × {cost.memory_per_series:,.0f} bytes = {cost.memory(series)}, "
        "in addition to the memory of a server without targets\n"
        f"CPU = {samples:,.0f} × {cost.cpu_per_million:.1f} s ÷ 1,000,000 + {rules} = {cost.cores(samples):.3f}\n"
        f"disk = {samples:,.0f} × {DAY_SECONDS:,} s × {cost.disk_per_sample:.2f} bytes = {cost.disk_per_day(samples)}\n"
    )


def _disk_usage(row: VendorSeries) -> str:
    samples = row.total(MANY_CARDS) / SCRAPE_SECONDS
    disks = [
        f"{samples * DAY_SECONDS * RETENTION_DAYS * server.plan.disk_per_sample / 1e9:.0f} GB with {server.title.split()[0]}"
        for server in SERVERS
    ]
    return f"{RETENTION_DAYS} days of samples from the NVIDIA cards take {' and '.join(disks)}.\n"


def _formula() -> str:
    plan = SERVERS[0].plan
    return (
        "To calculate the sizes for your own fleet, with Prometheus:\n\n```\n"
        f"series    = cards × series per card + nodes × (series per node + {SERIES_OF_A_SCRAPE})\n"
        f"samples/s = series ÷ {SCRAPE_SECONDS}\n"
        f"memory    = series × {plan.memory_per_series / 1000:g} kB\n"
        f"disk      = samples/s × {DAY_SECONDS:,} × days × {plan.disk_per_sample:g} bytes\n```\n"
    )
