"""The daemon's history and a Prometheus that scraped it meanwhile tell the same, gaps included."""

from __future__ import annotations

import json
import math
import time
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from grafana.drill_node import ALL, Actor
from kits.ports import free_address
from kits.prometheus import Prometheus
from telemetry_exporters.past import KEPT, SLOT_SECONDS
from telemetry_parsers.metrics import BY_KEY, is_main_temperature

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.long, pytest.mark.timeout(240)]

# A scrape each second, and its time of day against that of the slots.
AROUND_SECONDS = 1.2
# By device and metric: time and number of each scrape.
Scraped = Mapping[tuple[str, str], Mapping[float, float]]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Actor]:
    actor = Actor(tmp_path / "node", free_address(), once=[["training", ALL]])
    actor.folder.mkdir()
    actor.configure("[sources.nvml]\ninterval = 2.0\n")
    actor.start()
    try:
        yield actor
    finally:
        actor.end()


def history(node: Actor) -> Any:
    with urllib.request.urlopen(f"http://{node.address}/api/v1/history", timeout=30) as answer:
        return json.load(answer)


def scraped(prometheus: Prometheus) -> Scraped:
    """Every sample that Prometheus has of what the history keeps."""
    found: dict[tuple[str, str], dict[float, float]] = {}
    for metric in KEPT:
        label = BY_KEY[metric].label
        for series in prometheus.query(f"accelerator_{metric}[10m]")[1]:
            if counts(metric, series["metric"].get(label, "")):
                numbers = found.setdefault((series["metric"]["id"], metric), {})
                for at, number in series["values"]:
                    numbers[at] = max(float(number), numbers.get(at, -math.inf))
    return found


def counts(metric: str, word: str) -> bool:
    if metric == "temperature_celsius":
        return is_main_temperature(word)
    return word == "sm" if metric == "clock_hertz" else metric == "throttled" or not word


def test_it_equals_what_a_prometheus_scraped(node: Actor, tmp_path: Path) -> None:
    with Prometheus(tmp_path, [node.address]) as prometheus:
        prometheus.wait("query?query=accelerator_power_watts", "result")
        began = time.time()
        time.sleep(20)
        node.suffers("hung tool")
        time.sleep(22)
        node.recovers()
        time.sleep(20)
        document, ended = history(node), time.time()
        samples = scraped(prometheus)
    start = datetime.fromisoformat(document["start"].replace("Z", "+00:00")).timestamp()
    slots = [place for place in range(document["slots"]) if began < start + place * SLOT_SECONDS < ended - 10]
    assert len(slots) >= 9
    gaps: set[tuple[int, ...]] = set()
    for device in document["devices"]:
        for metric, series in device["series"].items():
            numbers = samples[device["id"], metric]
            empty = [place for place in slots if not same(series, place, start + place * SLOT_SECONDS, numbers)]
            gaps.add(tuple(empty))
            assert {gap["reason"] for gap in series["gaps"] if gap["first"] in empty} == {"nvml: timeout"}
    assert len(document["devices"]) * len(KEPT) == len(samples)
    assert len(gaps) == 1, "all numbers of one poll go and come together"
    assert len(gaps.pop()) in (3, 4)


def same(series: Any, place: int, begins: float, numbers: Mapping[float, float]) -> bool:
    """Whether the slot has a number; it is one that was scraped, and no scrape found a higher one."""
    ends = begins + SLOT_SECONDS
    within = [number for at, number in numbers.items() if begins + 0.05 < at < ends - 0.05]
    last, highest = series["last"][place], series["highest"][place]
    if last is None:
        assert (highest, within) == (None, [])
        return False
    # A number may have come, or gone, between a scrape and the edge of the slot.
    around = [number for at, number in numbers.items() if begins - AROUND_SECONDS < at < ends + AROUND_SECONDS]
    for number in (last, highest):
        assert any(math.isclose(number, each, rel_tol=1e-6) for each in around)
    assert highest >= max(within, default=-math.inf) * (1 - 1e-6)
    newest = [number for at, number in numbers.items() if ends - AROUND_SECONDS < at < ends + AROUND_SECONDS]
    assert not newest or len(within) < 4 or any(math.isclose(last, each, rel_tol=1e-6) for each in newest)
    return True
