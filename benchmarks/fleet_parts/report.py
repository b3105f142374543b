"""The tables of measurements, and the extrapolation to a thousand cards with its arithmetic."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet_parts.measure import PageSize, ServerCost, quantile
from fleet_parts.nodes import STEP_SECONDS
from fleet_parts.series import VendorSeries, table
from fleet_parts.servers import EVALUATION_SECONDS, SERVERS, Disk
from fleet_parts.sizes import Cost, arithmetic, cost_table

_MIB = 2**20


def machine() -> str:
    """Return a description of the machine."""
    cpu = _first_value("/proc/cpuinfo", "model name")
    memory = int(_first_value("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    system = _os_name()
    versions = ", ".join(
        f"{command} {server.version()}"
        for command, server in {server.command: server for server in SERVERS}.items()
        if server.is_installed()
    )
    return (
        f"{os.cpu_count()} × {cpu}, {memory:.0f} GiB, {system}, Linux {platform.release()}, "
        f"Python {platform.python_version()}; {versions}; load average at the start {os.getloadavg()[0]:.1f}"
    )


def _first_value(file: str, key: str) -> str:
    values = (line.partition(":")[2].strip() for line in Path(file).read_text().splitlines() if line.startswith(key))
    return next(values, "unknown")


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # The report continues without the name.
        return "unknown system"


def page_table(sizes: Mapping[str, PageSize]) -> str:
    """Return a table of the bytes of a scrape by kind of node."""
    headings = ["node", "series", "page", "gzip", "gzip at a scrape each 15 s"]
    return table(
        headings,
        [
            [
                kind,
                f"{size.series:.0f}",
                f"{size.plain_bytes / 1000:.1f} kB",
                f"{size.gzip_bytes / 1000:.1f} kB",
                f"{size.gzip_bytes / STEP_SECONDS / 1000:.2f} kB/s",
            ]
            for kind, size in sizes.items()
        ],
    )


def outcome_table(outcomes: Sequence[ServerCost]) -> str:
    """Return a table with a column for each run."""
    columns = [_column(outcome) for outcome in outcomes]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]] if columns else []
    return table(["", *(outcome.title for outcome in outcomes)], rows)


def _column(outcome: ServerCost) -> Mapping[str, str]:
    load, scrapes = outcome.load, outcome.scrape_seconds
    return {
        "nodes, cards, scraped every": f"{load.nodes}, {load.cards:,}, {load.interval_seconds:g} s",
        "watched": f"{outcome.seconds:.0f} s",
        "nodes up at the end": f"{outcome.up_nodes}",
        "series": f"{outcome.series:,}",
        "samples/s": f"{outcome.samples_per_second:,.0f}",
        "CPU": f"{outcome.cpu_seconds / outcome.seconds * 100:.0f} % of a core",
        "CPU s per million samples": f"{outcome.cpu_seconds_per_million:.1f}",
        "RSS without targets": _mib(outcome.idle_rss_bytes),
        "RSS at the end": _mib(outcome.rss_bytes),
        "RSS, highest": _mib(outcome.peak_rss_bytes),
        "(highest − without) ÷ series": f"{outcome.load_bytes / outcome.series:,.0f} bytes",
        "scrapes, of them failed": f"{len(scrapes):,}, {outcome.failed_scrapes:,}",
        "scrape p50": f"{quantile(scrapes, 0.5) * 1e3:.1f} ms",
        "scrape p99": f"{quantile(scrapes, 0.99) * 1e3:.1f} ms",
        "written out: bytes per sample": _bytes_by_part(outcome.disk),
        "besides, not yet written out": ", ".join(f"{name} {_mib(v)}" for name, v in outcome.unwritten_bytes.items())
        or "–",
    }


def density_table(disks: Mapping[str, Disk], pages: int) -> str:
    """Return a table of the disk usage of a node of each kind, in finished blocks."""
    headings = [
        f"{pages * STEP_SECONDS / 60:.0f} minutes at 15 s",
        "samples",
        "series",
        "bytes per sample",
        "index per series",
    ]
    return table(
        headings,
        [
            [
                name,
                f"{disk.samples:,}",
                f"{disk.series:,}",
                _bytes_by_part(disk),
                f"{disk.bytes_by_part['index'] / disk.series:.0f} bytes",
            ]
            for name, disk in disks.items()
        ],
    )


def bytes_per_sample(disk: Disk) -> float:
    return sum(disk.bytes_by_part.values()) / disk.samples


def cost(plain: ServerCost, disk: Disk, with_rules: ServerCost | None = None) -> Cost:
    """Return the cost per series and sample from the run without rules, and the cost of the rules from the run with rules."""
    rules = 0.0
    if with_rules is not None:
        cpu_of_rules = with_rules.cpu_seconds - with_rules.samples * plain.cpu_seconds / plain.samples
        rules = max(0.0, cpu_of_rules) / (with_rules.seconds / EVALUATION_SECONDS) / with_rules.load.cards
    memory = (with_rules or plain).load_bytes / plain.series
    return Cost(memory, plain.cpu_seconds_per_million, rules, bytes_per_sample(disk))


def extrapolated(cost: Cost, rows: Sequence[VendorSeries]) -> str:
    """Return the extrapolation to a thousand cards of each vendor in nodes of eight, scraped every 15 s."""
    return f"{cost_table(cost, rows)}\n{arithmetic(cost, rows[0])}"


def _bytes_by_part(disk: Disk) -> str:
    parts = ", ".join(f"{name} {size / disk.samples:.2f}" for name, size in disk.bytes_by_part.items())
    return f"{bytes_per_sample(disk):.2f} ({parts})"


def _mib(size: float) -> str:
    return f"{size / _MIB:,.0f} MiB"
