"""The pictures of the dashboards: pinned packages, all panel types, small files, and each is used."""

import itertools
import json
import re
import struct
from functools import cache
from typing import Any

from grafana.boards import panels_of
from kits.captures import ROOT
from kits.scripts import script_module
from telemetry_grafana.outputs import PAGES
from telemetry_grafana.promql import FOREIGN_METRICS, labels_of

PREVIEW = ROOT / "grafana" / "preview"
IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 350_000
SAMPLE = re.compile(r"([a-z0-9_:]+)\{(.*)\} (\S+) (\d+)\n\Z")


@cache
def panels() -> list[dict[str, Any]]:
    return [panel for page in PAGES for panel in panels_of(json.loads(page.to_json()))]


def test_every_package_is_pinned() -> None:
    package = json.loads((PREVIEW / "package.json").read_text())
    versions = package["dependencies"]
    assert {name for name, version in versions.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)} == set()
    assert versions["@grafana/ui"] == versions["@grafana/data"]
    assert not (PREVIEW / "package-lock.json").exists(), "it would name the registry of one machine"


def test_every_type_of_panel_can_be_drawn() -> None:
    match = re.search(r"^const COMPONENTS = \{(.*)\};$", (PREVIEW / "src" / "panels.jsx").read_text(), re.MULTILINE)
    assert match is not None
    types = set(re.findall(r"'?([a-z-]+)'?: \w+", match[1]))
    assert {panel["type"] for panel in panels()} <= types


def test_every_dashboard_has_a_small_picture_that_is_shown() -> None:
    pictures = [path for path in IMAGES.glob("*.png") if not path.name.startswith("telemetry-page")]
    assert {page.uid for page in PAGES} <= {path.stem for path in pictures}, "run make dashboards-preview"
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n"), picture
        assert struct.unpack(">I", content[16:20]) == (1600,), picture
        assert len(content) < MAX_BYTES, picture
        assert picture.name in (ROOT / "grafana" / "README.md").read_text()


def test_simulated_fleet_has_the_data_of_a_scrape() -> None:
    """The first scrape of all nodes has the daemon's metrics and labels, the target's labels, and one timestamp."""
    history = script_module("preview_history")
    lines = history.history(1_800_000_000)
    scrape = list(itertools.takewhile(lambda line: line.endswith(" 1800000000\n"), lines))
    names, nodes = set(), set()
    for line in scrape:
        match = SAMPLE.match(line)
        assert match is not None, line
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2]))
        assert labels.keys() <= labels_of(match[1]), line
        assert labels["job"] == "accelerators"
        names.add(match[1])
        nodes.add(labels["instance"])
    assert nodes == {plan.name for plan in history.FLEET}
    assert names >= {*FOREIGN_METRICS} - {"scrape_samples_scraped"}
    assert "accelerator_power_watts" in names
