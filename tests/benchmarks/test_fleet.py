"""The simulated fleet: nodes that differ, valid pages that change, and servers that scrape it."""

import gzip
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_parts.density import prometheus_disk
from fleet_parts.report import bytes_per_sample

from kits.captures import ROOT
from kits.page_lint import complaints
from kits.waiting import until

FLEET = ROOT / "benchmarks" / "fleet.py"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
NODES = 14


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Yield the targets of a fleet with two kinds of nodes, whose time advances by 15 s every half second."""
    file = tmp_path_factory.mktemp("fleet") / "targets.json"
    kinds = ("--node", "2xnvidia", "--node", "1xascend,1xhygon")
    command = [sys.executable, str(FLEET), "serve", "--nodes", str(NODES), "--speed", "30", *kinds, str(file)]
    process = subprocess.Popen(command)
    try:
        until(lambda: file.exists() or process.poll() is not None, "the fleet listens")
        assert process.poll() is None, "the fleet did not start"
        (group,) = json.loads(file.read_text())
        yield group["targets"]
    finally:
        process.terminate()
        process.wait(timeout=60)


def fetch(target: str, path: str = "/metrics", **headers: str) -> bytes:
    request = urllib.request.Request(f"http://{target}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        body: bytes = response.read()
    return gzip.decompress(body) if headers.get("Accept-Encoding") == "gzip" else body


def values(page: bytes) -> dict[bytes, float]:
    rows = (line.rpartition(b" ") for line in page.splitlines() if not line.startswith(b"#"))
    return {name: float(value) for name, _, value in rows}


def ids(page: bytes) -> set[bytes]:
    return set(re.findall(rb'^accelerator_info\{.*\bid="([^"]+)"', page, re.MULTILINE))


def test_every_node_is_a_target_of_its_own(targets: list[str]) -> None:
    """Addresses and cards are unique; the kinds of nodes alternate."""
    pages = [fetch(target) for target in targets]
    assert len({target.partition(":")[0] for target in targets}) == NODES
    assert [len(ids(page)) for page in pages] == [2] * NODES
    assert len(set.union(*map(ids, pages))) == 2 * NODES
    assert [b'vendor="ascend"' in page for page in pages] == [False, True] * (NODES // 2)


def test_pages_have_valid_syntax_in_each_format(targets: list[str]) -> None:
    """In both syntaxes, compressed or not."""
    assert [complaints(fetch(target)) for target in targets] == [[]] * NODES
    page = fetch(targets[0], Accept=OPENMETRICS, **{"Accept-Encoding": "gzip"})
    assert page.endswith(b"# EOF\n")
    assert b"# UNIT accelerator_power_watts watts\n" in page


def test_pages_change_and_counters_go_up(targets: list[str]) -> None:
    first = values(fetch(targets[0]))
    busy = next(name for name in first if name.startswith(b"accelerator_busy_seconds_total"))
    second: dict[bytes, float] = {}

    def is_later() -> bool:
        second.update(values(fetch(targets[0])))
        return second[busy] > first[busy]

    until(is_later, "a later page")
    counters = [name for name in first if b"_total" in name and name in second]
    assert len(counters) > 20
    assert [name for name in counters if second[name] < first[name]] == []


@pytest.mark.needs("promtool")
def test_size_on_disk_is_measured(tmp_path: Path) -> None:
    """Real blocks contain each sample of a node once; a longer time needs fewer bytes per sample."""
    short, long = (prometheus_disk(("1xamd",), pages, tmp_path / str(pages)) for pages in (2, 20))
    # A few series have their first sample on the second page. The host's load is real: pages within one tick of its clock
    # have no CPU utilization.
    assert long.series - 1 <= short.series <= long.series
    assert long.series > 200
    assert 18 * long.series < long.samples <= 20 * long.series
    assert 0 < bytes_per_sample(long) < bytes_per_sample(short)
