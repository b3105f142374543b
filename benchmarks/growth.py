"""Measure how the daemon's cost grows with devices, readings, sources and scrapers.

    python benchmarks/growth.py [--quick]

The stages are in CPU milliseconds: ingest one poll of one source (check and merge), build snapshot and page, and compress the
page. Reports are synthetic, so that no parser or tool is measured. Scrapers request pages from a whole daemon over HTTP.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import processes, tables
from side_by_side.contestants import running
from side_by_side.options import parse_extent
from side_by_side.ours import telemetry

from kits.fed_node import Load, MadeUpNode
from telemetry_daemon.site.rendered import GzippedBody
from telemetry_exporters.prometheus.renderer import Renderer

USUAL = Load(devices=8, readings=60, sources=1)
LOADS_BY_VARIED_PART: dict[str, Sequence[Load]] = {
    "devices": [replace(USUAL, devices=count) for count in (1, 8, 16, 32, 64, 128)],
    "readings of each device": [replace(USUAL, readings=count) for count in (10, 20, 40, 80)],
    "sources that all see the 8 devices": [replace(USUAL, sources=count) for count in (1, 2, 4, 8)],
}
SCRAPES_PER_SECOND = (0, 1, 10, 100)


@dataclass(frozen=True, slots=True)
class Stages:
    """CPU milliseconds of one poll and the next scrape."""

    put: float
    snapshot: float
    render: float
    compress: float
    page_kb: float


def main() -> None:
    limits = parse_extent(__doc__ or "")
    tables.print_machine()
    for varied_part, loads in LOADS_BY_VARIED_PART.items():
        print(f"\nGrowth with {varied_part}; CPU ms, the median of {limits.polls} polls\n")
        headings = (varied_part, "ingest", "snapshot", "page", "gzip", "together", "page, kB")
        tables.print_table(headings, [growth_row(varied_part, load, limits.polls) for load in loads])
    with tempfile.TemporaryDirectory() as folder:
        print("\nGrowth with scrapers; a daemon with 8 simulated devices at 1 s\n")
        headings = ("scrapes a second", "CPU, ms a second", "CPU, ms for one scrape more", "RSS, MiB")
        tables.print_table(headings, scraper_rows(Path(folder), limits.seconds(20)))


def growth_row(varied_part: str, load: Load, count: int) -> list[str]:
    varied = {"devices": load.devices, "readings of each device": load.readings}.get(varied_part, load.sources)
    stages = measured(load, count)
    times = (stages.put, stages.snapshot, stages.render, stages.compress)
    return [str(varied), *(tables.number(figure) for figure in (*times, sum(times), stages.page_kb))]


def measured(load: Load, count: int) -> Stages:
    """Return the medians of `count` polls."""
    node, renderer = MadeUpNode(load), Renderer()
    node.poll_all()
    renderer.text(node.store.snapshot())
    gc.collect()
    stages = [measure_poll(node, renderer) for _ in range(count)]
    columns = zip(*((s.put, s.snapshot, s.render, s.compress, s.page_kb) for s in stages), strict=True)
    return Stages(*(statistics.median(column) for column in columns))


def measure_poll(node: MadeUpNode, renderer: Renderer) -> Stages:
    """Return the times of one poll of the first source, and of one scrape."""
    report = node.report(0)
    times = [time.process_time()]
    node.put(0, report)
    times.append(time.process_time())
    snapshot = node.store.snapshot()
    times.append(time.process_time())
    page = renderer.text(snapshot)
    times.append(time.process_time())
    GzippedBody(page)
    times.append(time.process_time())
    return Stages(*(1e3 * (after - before) for before, after in pairwise(times)), len(page) / 1e3)


def scraper_rows(folder: Path, seconds: int) -> Iterator[list[str]]:
    """Yield a row for each number of scrapes per second."""
    config = "[sources.nvml]\ninterval = 1.0\n"
    with running(telemetry(folder, "accelerator_power_watts", config, ("--demo", "8xnvidia"))) as daemon:
        time.sleep(5)
        idle = 0.0
        for pace in SCRAPES_PER_SECOND:
            cpu = cpu_while_scraped(daemon.process.pid, daemon.scraper.scrape, pace, seconds)
            idle = idle or cpu
            more = tables.number((cpu - idle) / pace) if pace else ""
            yield [str(pace), tables.number(cpu), more, tables.number(processes.memory(daemon.process.pid).rss)]


def cpu_while_scraped(pid: int, scrape, pace: int, seconds: int) -> float:
    """Return the CPU milliseconds per second of the daemon, while it is scraped `pace` times per second."""
    before, begin = processes.cpu_seconds(pid), time.perf_counter()
    for turn in range(pace * seconds):
        time.sleep(max(0.0, begin + turn / pace - time.perf_counter()))
        scrape()
    time.sleep(max(0.0, begin + seconds - time.perf_counter()))
    return 1e3 * (processes.cpu_seconds(pid) - before) / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
