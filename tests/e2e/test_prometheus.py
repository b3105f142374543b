"""A real Prometheus scrapes the daemon, and promtool and our own lint find nothing to say."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from daemon_kit import Daemon
from page_lint import complaints

DEVICE_LABELS = {"vendor", "device", "id", "model"}


def tool(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed: apt-get install prometheus"
    return path


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, arguments=("--demo",)) as running:
        running.until(lambda: running.get("/readyz")[0] == 200)
        running.until(lambda: "accelerator_power_watts{" in running.page())
        yield running


def test_promtool_and_our_lint(daemon):
    """`promtool check metrics` passes, and so does the lint for what it misses."""
    page = daemon.page()
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert complaints(page.encode()) == []


class Prometheus:
    """A throw-away Prometheus that scrapes one target every second."""

    def __init__(self, folder: Path, target: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n"
            f"  - job_name: accelerators\n    static_configs: [{{targets: ['{target}']}}]\n"
        )
        self._command = [
            tool("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address={self.address}",
            "--log.level=error",
        ]

    def __enter__(self) -> Prometheus:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)

    def ask(self, path: str):
        """The data of an API answer, None while there is none."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=5) as response:
                return json.load(response)["data"]
        except OSError:
            return None

    def wait(self, path: str, key: str):
        """The data once it is not empty."""
        end = time.monotonic() + 45
        while time.monotonic() < end:
            data = self.ask(path)
            if data and data[key]:
                return data[key]
            time.sleep(0.2)
        raise AssertionError(f"nothing came of {path}")


def test_a_real_prometheus_scrapes_it(daemon, tmp_path):
    """The target is up, and every series of a device carries vendor, device, id and model."""
    with Prometheus(tmp_path, daemon.address) as prometheus:
        assert prometheus.wait("query?query=up==1", "result")
        series = prometheus.wait('query?query={__name__=~"accelerator_.*"}', "result")
        targets = prometheus.wait("targets", "activeTargets")
    assert len(series) > 100
    assert [item["metric"] for item in series if not item["metric"].keys() >= DEVICE_LABELS] == []
    assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]
