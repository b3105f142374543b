"""The collector for pages of prometheus-client: the same families as the daemon's own page, and a page that lives without a daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from device_telemetry.prometheus import Collector
from kits.daemon import Daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("node"), arguments=("--demo", "2xnvidia,1xhygon")) as running:
        running.until(lambda: len(running.document()["devices"]) == 3)
        yield running


def series(text: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("accelerator_")
    }


def test_its_families_are_those_of_the_daemons_page(daemon: Daemon) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(daemon.address))
    page = generate_latest(registry).decode()
    assert "device_telemetry_up 1.0" in page
    assert len(series(page)) > 60
    # Events come by chance, between the two; a document lacks the slow facts that the page's info has.
    ours = {one for one in series(page) if "event" not in one[0] and one[0] != "accelerator_info"}
    assert ours <= series(daemon.page())
    infos = [dict(labels) for name, labels in series(page) if name == "accelerator_info"]
    assert {(info["uuid"], info["bus_id"]) for info in infos} == {
        (one["uuid"], one["bus_id"]) for one in daemon.document()["devices"]
    }


def test_a_daemon_that_is_gone_leaves_the_page() -> None:
    registry = CollectorRegistry()
    registry.register(Collector("127.0.0.1:1"))
    assert generate_latest(registry).decode().splitlines()[-1] == "device_telemetry_up 0.0"
