"""Runs one server over one fleet for a while, and says what that took."""

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
    """What a run is made of."""

    nodes: int
    kinds: tuple[str, ...]
    interval_seconds: float
    seconds: float

    @property
    def cards(self) -> int:
        """The cards of all nodes; a kind is written `8xnvidia`, or several with commas between."""
        per_kind = [sum(int(part.split("x")[0]) for part in kind.split(",")) for kind in self.kinds]
        return sum(per_kind[number % len(per_kind)] for number in range(self.nodes))


@dataclass(frozen=True)
class Outcome:
    """One server under one load, once all nodes were known."""

    title: str
    load: Load
    seconds: float
    up: int
    samples: float
    series: int
    cpu_seconds: float
    idle_rss_bytes: int
    rss_bytes: int
    peak_rss_bytes: int
    scrape_seconds: Sequence[float]
    failed_scrapes: int
    unwritten: Mapping[str, int]
    disk: Disk

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def cpu_seconds_per_million(self) -> float:
        return self.cpu_seconds / self.samples * 1e6

    @property
    def load_bytes(self) -> int:
        """The memory that the fleet takes, by the highest: that is what a limit must leave room for."""
        return self.peak_rss_bytes - self.idle_rss_bytes


@contextlib.contextmanager
def running_fleet(script: Path, load: Load, folder: Path) -> Iterator[Sequence[str]]:
    """The fleet in a process of its own, a simulated 15 s further at each scrape; gives its targets."""
    file = folder / "fleet.json"
    file.unlink(missing_ok=True)
    step = f"--speed={STEP_SECONDS / load.interval_seconds}"
    kinds = [f"--node={kind}" for kind in load.kinds]
    fleet = subprocess.Popen([sys.executable, str(script), "serve", f"--nodes={load.nodes}", step, *kinds, str(file)])
    try:
        while not file.exists():
            if fleet.poll() is not None:
                raise SystemExit(f"the fleet ended with {fleet.returncode}")
            time.sleep(0.1)
        yield targets_of(file)
    finally:
        fleet.terminate()
        fleet.wait(timeout=20)


def targets_of(file: Path) -> list[str]:
    """The targets of a file for file_sd."""
    groups = json.loads(file.read_text("utf-8"))
    return [target for group in groups for target in group["targets"]]


@contextlib.contextmanager
def watched(server: Server, load: Load, targets: Sequence[str]) -> Iterator[Outcome]:
    """Start it empty, give it the nodes, and watch it from when it has scraped all of them; then it goes on."""
    put_targets(server.targets_file, [])
    server.start(load.interval_seconds)
    with contextlib.closing(server):
        time.sleep(min(_IDLE_SECONDS, load.seconds))
        idle = server.usage()
        put_targets(server.targets_file, targets)
        up = f'count(up{{job="{JOB}"}} == 1)'
        server.until(lambda: server.number(up) >= len(targets), "all nodes are scraped", 60 + 3 * load.interval_seconds)
        time.sleep(2 * load.interval_seconds)
        yield _watched(server, load, idle)


def _watched(server: Server, load: Load, idle: Usage) -> Outcome:
    before, samples_before, start = server.usage(), server.ingested_samples(), time.monotonic()
    time.sleep(load.seconds)
    after, seconds = server.usage(), time.monotonic() - start
    return Outcome(
        title=server.title,
        load=load,
        seconds=seconds,
        up=int(server.number(f'count(up{{job="{JOB}"}} == 1)')),
        samples=server.ingested_samples() - samples_before,
        series=_series(server),
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        idle_rss_bytes=idle.rss_bytes,
        rss_bytes=after.rss_bytes,
        peak_rss_bytes=after.peak_rss_bytes,
        scrape_seconds=sorted(_of_each_scrape(server, "scrape_duration_seconds", seconds)),
        failed_scrapes=_of_each_scrape(server, "up", seconds).count(0.0),
        unwritten=server.unwritten(),
        disk=server.flushed(),
    )


def _series(server: Server) -> int:
    """The series that it holds by now, rules' results and those that have ended included."""
    head = server.own("prometheus_tsdb_head_series")
    return int(head or server.own("vm_new_timeseries_created_total"))


def _of_each_scrape(server: Server, metric: str, seconds: float) -> list[float]:
    """What the server noted of each scrape of a node in the last seconds."""
    found = server.query(f'{metric}{{job="{JOB}"}}[{math.ceil(seconds)}s]')
    return [float(value) for each in found for _, value in each["values"]]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True)
class PageSize:
    """A page as a scrape gets it; means over several nodes."""

    series: float
    plain_bytes: float
    gzip_bytes: float


def page_size(targets: Sequence[str]) -> PageSize:
    """The pages of these targets, fetched as Prometheus does."""
    sizes = []
    for target in targets:
        headers = {"Accept": _OPENMETRICS, "Accept-Encoding": "gzip"}
        request = urllib.request.Request(f"http://{target}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            packed = response.read()
        page = gzip.decompress(packed)
        sizes.append((sum(1 for _ in lines(page)), len(page), len(packed)))
    return PageSize(*(statistics.fmean(column) for column in zip(*sizes, strict=True)))
