"""The page's script formats numbers like human.py."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.browser import Tab
from page.nodes import Node
from page.view import View
from telemetry_exporters import human
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.past import KEPT

pytestmark = pytest.mark.needs("chromium")

# Numbers at which the unit changes, and ties that are rounded to even.
EDGES = (
    "0 0.5 1 1.5 2.5 0.25 0.35 0.05 0.005 0.0049 -40 -0.04 -0.06 12.345 61.25 59.99 60 60.5 9.94 9.95 9.96 9.994 9.995 9.996 "
    "99.94 99.95 99.96 100 100.5 101.5 1023 1023.4 1023.5 1023.6 1024 0.0005 0.00095 0.000999 0.001 0.0994 0.0995 0.0996 "
    "0.985 0.99 0.995 0.9985 0.999 0.9999 0.0999 1048575 1e6 1e9 1.755e9 123456789012 1e12 1e15"
)
MIB = 1024.0**2
# Typical values, and values near a change of unit. The stream has about four digits of each.
VALUES: dict[str, tuple[Callable[[float], str], list[float]]] = {
    "temperature_celsius": (human.celsius, [0, 0.04, 0.5, 9.96, 55, 61.25, 66.04, 87.96, 99.94, 100, 104.5]),
    "power_watts": (human.watts, [0, 0.004, 0.4, 1.5, 5.25, 9.94, 9.96, 10, 74.6, 99.5, 345.2, 700, 1299.6]),
    "utilization_ratio": (human.percent, [0, 0.0002, 0.00095, 0.001, 0.0123, 0.0994, 0.0996, 0.5, 0.985, 0.992, 0.999, 1]),
    "memory_used_bytes": (
        human.byte_size, [mib * MIB for mib in (0, 1, 3, 15.5, 97.25, 512, 1023, 1024, 1500, 9999, 65430, 81550)]
    ),
}  # fmt: skip


@pytest.mark.long
def test_page_formats_numbers_like_the_terminal(tab: Tab, demo: Callable[[str], str]) -> None:
    chance = random.Random(17)
    numbers = [
        *map(float, EDGES.split()),
        *(round(chance.uniform(0, 10 ** chance.randint(-4, 5)), chance.randint(0, 4)) for _ in range(3000)),
    ]
    tab.open(demo("1xnvidia"))
    for metric in [BY_KEY[key] for key in KEPT if BY_KEY[key].unit]:
        values = [number * (1e6 if metric.unit == "hertz" else 1.0) for number in numbers]
        texts = tab.evaluate(f"{json.dumps(values)}.map((value) => inWords(value, {metric.key!r}))")
        pairs = zip(values, texts, strict=True)
        wrong = [(value, words) for value, words in pairs if words != human.value_text(value, metric)]
        assert wrong == [], metric.key


def test_each_number_reads_as_in_the_terminal(tab: Tab, tmp_path: Path) -> None:
    count = max(len(values) for _, values in VALUES.values())
    node = Node(tmp_path, f"{count}xnvidia")
    numbers = {
        (card, metric): values[card % len(values)] for metric, (_, values) in VALUES.items() for card in range(count)
    }
    node.set_stage(
        readings=[
            [card, metric, "core" if metric == "temperature_celsius" else "", value]
            for (card, metric), value in numbers.items()
        ]
    )
    with node.daemon() as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        ids = [device["id"] for device in daemon.document()["devices"]]
        view = View(tab)
        tab.open(node.url)
        view.await_live()
        wrong = {}
        for (card, metric), value in numbers.items():
            words, shown = VALUES[metric][0](value), view.value(ids[card], metric)
            if not shown.startswith(words):  # the total may follow: `of 79.6 GiB`
                wrong[metric, value] = (words, shown)
        assert wrong == {}
