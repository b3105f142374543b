"""The tables of other exporters: every row names readings of the catalogue, and is emitted by a card, real or simulated, or listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from kits.captures import ROOT
from kits.fed_node import demo_snapshot
from telemetry_exporters.compat.doc import lines
from telemetry_exporters.compat.peer import Row
from telemetry_exporters.compat.peers import MODULES, peer
from telemetry_exporters.compat.ways import Always, NewestCode, OfFact
from telemetry_parsers.metrics import BY_KEY, BY_NAME
from telemetry_parsers.model import Absent
from telemetry_parsers.vendors import VENDOR_WORDS, VENDORS

GOLDEN = ROOT / "tests" / "golden"
PAGES = ROOT / "tests" / "nvml" / "pages"
COMPAT = ROOT / "exporters" / "telemetry_exporters" / "compat"
NOT_TABLES = {"__init__", "dashboard", "doc", "facts", "page", "peer", "peers", "told", "ways"}
# Blocks of AMD's cards that no capture names: tools name one when it has an error.
BLOCKS = ("athub", "bif", "df", "fuse", "hdp", "ih", "jpeg", "mca", "mmhub", "mp0", "mp1", "mpio", "sem", "smn", "vcn")
# Readings that neither a capture nor a simulated card has.
UNSEEN = {
    *(f"ecc_{kind}_total{{{block}}}" for kind in ("corrected", "uncorrected") for block in BLOCKS),
    "ecc_uncorrected_total{xgmi_wafl}",
    # Events come by chance.
    "events_total",
    "event_last_timestamp_seconds",
}


@cache
def seen() -> frozenset[str]:
    """Each reading that has a number somewhere, as `metric` and as `metric{word}`."""
    every = (*_of_goldens(), *_of_simulated_cards(), *_of_nvml_pages())
    return frozenset(text for metric, word in every for text in (metric, f"{metric}{{{word}}}"))


def _of_goldens() -> Iterator[tuple[str, str]]:
    decoder = json.JSONDecoder()
    for path in GOLDEN.rglob("*.json"):
        text = path.read_text().strip()
        while text:
            report, end = decoder.raw_decode(text)
            text = text[end:].lstrip()
            for one in report.get("readings", ()):
                if isinstance(one["value"], float | int):
                    yield one["metric"], one.get("label", "")


def _of_simulated_cards() -> Iterator[tuple[str, str]]:
    for cards in (",".join(f"1x{word}" for word in VENDOR_WORDS), "1xh100mig"):
        for device in demo_snapshot(cards).devices:
            yield "up", ""
            yield from ((one.metric, one.label) for one in device.readings if not isinstance(one.value, Absent))


def _of_nvml_pages() -> Iterator[tuple[str, str]]:
    for path in PAGES.glob("*.txt"):
        for line in path.read_text().splitlines():
            name, _, labels = line.partition("{")
            metric = BY_NAME.get(name)
            if metric is not None:
                yield metric.key, labels.partition(f'{metric.label}="')[2].partition('"')[0]


def rows() -> list[tuple[str, Row]]:
    return [(name, row) for name in MODULES for row in peer(name).rows]


def test_every_table_has_its_line_in_the_list_of_exporters() -> None:
    assert {path.stem for path in COMPAT.glob("*.py")} - NOT_TABLES == set(MODULES.values())
    assert [peer(name).name for name in MODULES] == list(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_table_names_vendors_and_metrics_that_there_are(name: str) -> None:
    table = peer(name)
    assert set(table.vendors) <= {vendor.word for vendor in VENDORS}
    for row in table.rows:
        for reading in row.way.readings:
            metric, brace, _ = reading.partition("{")
            assert metric in BY_KEY, row
            assert not brace or BY_KEY[metric].label or metric == "info", row
    for node_row in table.node_rows:
        assert not node_row.metric or node_row.metric in BY_NAME


def test_energy_is_never_the_estimated_one() -> None:
    taken = {reading for _, row in rows() for reading in row.way.readings}
    assert not any("estimated" in reading for reading in taken)


def test_every_row_is_emitted_or_listed() -> None:
    unseen = {
        f"{name} {row.name}": row.way.readings
        for name, row in rows()
        if not isinstance(row.way, Always | OfFact | NewestCode)
        and not any(reading in seen() for reading in row.way.readings)
    }
    assert {reading for readings in unseen.values() for reading in readings} == UNSEEN


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_documented_once(name: str) -> None:
    table = peer(name)
    documented = [line.name for line in lines(table) if line.fit != "missing"]
    assert set(documented) == {table.prefix + row.name for row in (*table.rows, *table.node_rows)}
    text = (ROOT / "docs" / "compatibility.md").read_text()
    assert all(f"`{line.name}`" in text for line in lines(table) if "|" not in line.name)
