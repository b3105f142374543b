"""Measure the time to render a page of metrics: our renderer and prometheus_client, in one run, on the same snapshots.

`python benchmarks/render.py` needs the packages of the tests, but no accelerator.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from kits import page_oracle, snapshots
from kits.fed_node import demo_snapshots
from telemetry_daemon.site.rendered import GzippedBody
from telemetry_exporters.prometheus.compat import load_table
from telemetry_exporters.prometheus.compat.page import CompatRenderer
from telemetry_exporters.prometheus.compat.table import NodeIdentity
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax, text_page
from telemetry_parsers.model import Snapshot

DEVICE_COUNTS = (8, 16, 128)
READINGS_EACH = 60
ROUNDS = 15


def best_milliseconds(work: Callable[[Snapshot], object], devices: int) -> float:
    """Return the CPU milliseconds of the fastest round. Each round gets a new snapshot, as in a daemon."""
    best = float("inf")
    for number in range(ROUNDS):
        snapshot = snapshots.big_snapshot(devices, READINGS_EACH, number)
        gc.collect()
        begin = time.process_time()
        work(snapshot)
        best = min(best, time.process_time() - begin)
    return best * 1000


def measure(devices: int) -> None:
    renderer = Renderer()
    snapshot = snapshots.big_snapshot(devices, READINGS_EACH, ROUNDS)
    page = renderer.text(snapshot)
    assert page == page_oracle.text(snapshot)
    assert renderer.page(snapshot, Syntax.OPENMETRICS) + EOF == page_oracle.openmetrics(snapshot)
    ours = best_milliseconds(renderer.text, devices)
    first = best_milliseconds(text_page, devices)
    peer_ms = best_milliseconds(page_oracle.text, devices)
    our_openmetrics = best_milliseconds(partial(renderer.page, syntax=Syntax.OPENMETRICS), devices)
    peer_openmetrics = best_milliseconds(page_oracle.openmetrics, devices)
    compress = best_milliseconds(lambda _: GzippedBody(page), devices)
    gzipped = GzippedBody(page)
    finish = best_milliseconds(lambda _: gzipped.with_tail(b"x" * 2000), devices)
    print(
        f"{devices:7} {page.count(b'{'):7} {len(page) / 1000:7.0f} | {ours:6.2f} {first:6.2f} {peer_ms:7.2f}"
        f" {peer_ms / ours:6.1f} | {our_openmetrics:6.2f} {peer_openmetrics:7.2f}"
        f" {peer_openmetrics / our_openmetrics:6.1f} | {compress:6.2f} {finish:6.2f} {len(gzipped.beginning) / 1000:7.0f}"
    )


def measure_peer(cards: int) -> None:
    """Print a row that compares the page under dcgm-exporter's names with our own, for simulated cards after a poll."""
    ours, peer_renderer = Renderer(), CompatRenderer(load_table("dcgm-exporter"), NodeIdentity("node"))
    pages = (ours.page, peer_renderer.page)
    best, sizes = [float("inf")] * 2, [0, 0]
    for snapshot in demo_snapshots(f"{cards}xnvidia", ROUNDS):
        for position, page in enumerate(pages):
            gc.collect()
            begin = time.process_time()
            sizes[position] = len(page(snapshot, Syntax.TEXT))
            best[position] = min(best[position], time.process_time() - begin)
    numbers = [value for position in (0, 1) for value in (best[position] * 1000, sizes[position] / 1000)]
    print(
        f"{cards:7} | {numbers[0]:6.2f} {numbers[1]:7.0f} | {numbers[2]:6.2f} {numbers[3]:7.0f} | {numbers[2] / numbers[0]:6.2f}"
    )


def main() -> None:
    print(
        "CPU milliseconds, the best of", ROUNDS, "rounds; 'first' is a renderer's first page, 'ratio' theirs to ours."
    )
    print("                            text 0.0.4                    | OpenMetrics 1.0         | packing")
    print("devices  series      kB |   ours  first  client  ratio |   ours  client  ratio |   page    end      kB")
    for devices in DEVICE_COUNTS:
        measure(devices)
    print("\nsimulated H100s   /metrics     | dcgm-exporter's   | ratio")
    for devices in DEVICE_COUNTS:
        measure_peer(devices)


if __name__ == "__main__":
    main()
