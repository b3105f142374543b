"""A real Prometheus scrapes the daemon and stores every series."""

import pytest

from kits.daemon import Daemon
from kits.prometheus import Prometheus
from kits.waiting import until

DEVICE_LABELS = {"vendor", "device", "id", "model"}


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, arguments=("--demo",)) as running:
        running.until(lambda: running.get("/readyz")[0] == 200)
        running.until(lambda: "accelerator_power_watts{" in running.page())
        yield running


@pytest.mark.needs("prometheus")
def test_prometheus_stores_every_series(daemon, tmp_path):
    with Prometheus(tmp_path, [daemon.address]) as prometheus:
        assert prometheus.wait("query?query=up==1", "result")
        series = prometheus.wait('query?query={__name__=~"accelerator_.*"}', "result")

        def is_stored_whole():
            (stored,) = prometheus.wait('query?query=count({__name__=~"accelerator_.*"})', "result")
            return int(stored["value"][1]) == daemon.page().count("\naccelerator_")

        until(is_stored_whole, "as many series are stored as are served")
        targets = prometheus.wait("targets", "activeTargets")
    assert len(series) > 100
    assert [item["metric"] for item in series if not item["metric"].keys() >= DEVICE_LABELS] == []
    assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]
