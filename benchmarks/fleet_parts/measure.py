"""Run one server over one fleet for a while, and measure its cost."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet_parts.nodes import STEP_SECONDS, lines
from fleet_parts.servers import JOB, Disk, Server, Usage
from fleet_parts.serving import put_targets

_IDLE_SECONDS = 3.0
_OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@dataclass(frozen=True)
class Load:
    """The parameters of a run."""

    nodes: int
    kinds: tuple[str, ...]
    interval_seconds: float
    seconds: float

    @property
    def cards(self) -> int:
        """Return the number of cards of all nodes. A kind is `8xnvidia`, or several joined by commas."""
        per_kind = [sum(int(part.split("x")[0]) for part in kind.split(",")) for kind in self.kinds]
        return sum(per_kind[number % len(per_kind)] for number in range(self.nodes))


@dataclass(frozen=True)
class ServerCost:
    """The cost of one server under one load, after all nodes were discovered."""

    title: str
    load: Load
    seconds: float
    up_nodes: int
    samples: float
    series: int
    cpu_seconds: float
    idle_rss_bytes: int
    rss_bytes: int
    peak_rss_bytes: int
    scrape_seconds: Sequence[float]
    failed_scrapes: int
    unwritten_bytes: Mapping[str, int]
    disk: Disk

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def cpu_seconds_per_million(self) -> float:
        return self.cpu_seconds / self.samples * 1e6

    @property
    def load_bytes(self) -> int:
        """Return the peak memory that the fleet adds, which is the figure for a memory limit."""
        return self.peak_rss_bytes - self.idle_rss_bytes


@contextlib.contextmanager
def running_fleet(script: Path, load: Load, folder: Path) -> Iterator[Sequence[str]]:
    """Run the fleet in a child process, with 15 simulated seconds between scrapes, and yield its targets."""
    file = folder / "fleet.json"
    file.unlink(missing_ok=True)
    step = f"--speed={STEP_SECONDS / load.interval_seconds}"
    kinds = [f"--node={kind}" for kind in load.kinds]
    fleet = subprocess.Popen([sys.executable, str(script), "serve", f"--nodes={load.nodes}", step, *kinds, str(file)])
    try:
        while not file.exists():
            if fleet.poll() is not None:
                raise SystemExit(f"The fleet's process exited with status {fleet.returncode}.")
            time.sleep(0.1)
        yield read_targets(file)
    finally:
        fleet.terminate()
        fleet.wait(timeout=20)


def read_targets(file: Path) -> list[str]:
    groups = json.loads(file.read_text("utf-8"))
    return [target for group in groups for target in group["targets"]]


@contextlib.contextmanager
def watched(server: Server, load: Load, targets: Sequence[str]) -> Iterator[ServerCost]:
    """Start the server without targets, add the nodes, and measure once all were scraped. The server runs in the context."""
    put_targets(server.targets_file, [])
    server.start(load.interval_seconds)
    with contextlib.closing(server):
        time.sleep(min(_IDLE_SECONDS, load.seconds))
        idle = server.usage()
        put_targets(server.targets_file, targets)
        up = f'count(up{{job="{JOB}"}} == 1)'
        server.wait_until(
            lambda: server.query_number(up) >= len(targets), "all nodes are scraped", 60 + 3 * load.interval_seconds
        )
        time.sleep(2 * load.interval_seconds)
        yield _measure(server, load, idle)


def _measure(server: Server, load: Load, idle: Usage) -> ServerCost:
    before, samples_before, start = server.usage(), server.ingested_samples(), time.monotonic()
    time.sleep(load.seconds)
    after, seconds = server.usage(), time.monotonic() - start
    return ServerCost(
        title=server.title,
        load=load,
        seconds=seconds,
        up_nodes=int(server.query_number(f'count(up{{job="{JOB}"}} == 1)')),
        samples=server.ingested_samples() - samples_before,
        series=_series_count(server),
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        idle_rss_bytes=idle.rss_bytes,
        rss_bytes=after.rss_bytes,
        peak_rss_bytes=after.peak_rss_bytes,
        scrape_seconds=sorted(_values_of_scrapes(server, "scrape_duration_seconds", seconds)),
        failed_scrapes=_values_of_scrapes(server, "up", seconds).count(0.0),
        unwritten_bytes=server.unwritten_bytes(),
        disk=server.flush(),
    )


def _series_count(server: Server) -> int:
    """Return the number of series in memory, including results of rules and series that have ended."""
    head = server.sum_own_metrics("prometheus_tsdb_head_series")
    return int(head or server.sum_own_metrics("vm_new_timeseries_created_total"))


def _values_of_scrapes(server: Server, metric: str, seconds: float) -> list[float]:
    """Return the values that the server recorded for the scrapes of the last seconds."""
    results = server.query(f'{metric}{{job="{JOB}"}}[{math.ceil(seconds)}s]')
    return [float(value) for result in results for _, value in result["values"]]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the sorted values is."""
    return values[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True)
class PageSize:
    """The size of a scraped page, as means over several nodes."""

    series: float
    plain_bytes: float
    gzip_bytes: float


def page_size(targets: Sequence[str]) -> PageSize:
    """Return the page sizes of these targets, requested as Prometheus requests them."""
    sizes = []
    for target in targets:
        headers = {"Accept": _OPENMETRICS, "Accept-Encoding": "gzip"}
        request = urllib.request.Request(f"http://{target}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            packed = response.read()
        page = gzip.decompress(packed)
        sizes.append((sum(1 for _ in lines(page)), len(page), len(packed)))
    return PageSize(*(statistics.fmean(column) for column in zip(*sizes, strict=True)))
