"""The owners of cards from end to end: a daemon, pods of a real gRPC server, and processes of this machine."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_kubelet import FakeKubelet
from kits.fake_nvml.library import FakeNvml, Process
from kits.fake_nvml.profile import load_profile
from kits.pod_resources import listed, pod

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]
GIB = 1 << 30
CONFIG = """
[attribution]
enabled = true
kubelet_socket = "{socket}"
job_directory = "{folder}/jobs"
[sources.nvml]
interval = 0.5
[sources.proc]
interval = 0.5
path = "/"
[sources.kubelet]
interval = 0.5
"""
SERIES = re.compile(r"^accelerator_(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def series(page: str, metric: str) -> dict[tuple[str, str], float]:
    """Return the values of a metric by device and owner."""
    found = {}
    for name, labels, value in SERIES.findall(page):
        if name == metric:
            label_values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[label_values["device"], label_values.get("owner", "")] = float(value)
    return found


def test_each_card_has_its_owner(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(4))
    fake.processes(1, [Process(sleeper.pid, 3 * GIB)])
    fake.processes(2, [Process(sleeper.pid, 1 * GIB)])
    kubelet = FakeKubelet(tmp_path)
    config = CONFIG.format(socket=kubelet.socket, folder=tmp_path)
    with kubelet, Daemon(tmp_path, config, environment=fake.environment) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 4)
        uuids = [device["uuid"] for device in daemon.document()["devices"]]
        kubelet.list = lambda _context: listed(pod("ml", "train-0", {"main": {"nvidia.com/gpu": (uuids[0], uuids[1])}}))
        daemon.until(lambda: daemon.document()["devices"][2]["allocations"])
        me = daemon.document()["devices"][2]["allocations"][0]["owner"]["name"]
        pod_name = "ml/train-0/main"
        expected = {("0", pod_name), ("1", pod_name), ("2", me)}
        daemon.until(lambda: expected <= series(daemon.get("/metrics")[1], "allocation_energy_joules_total").keys())
        page = daemon.get("/metrics")[1]
        assert series(page, "allocation_ratio") == {("0", pod_name): 1.0, ("1", pod_name): 1.0, ("2", me): 1.0}
        assert series(page, "foreign_memory_bytes")["1", ""] == 3 * GIB
        assert series(page, "allocation_memory_used_bytes")["2", me] == GIB
        assert 'telemetry_claims_unresolved{source="kubelet"} 0.0' in page
        stranger = daemon.document()["devices"][1]["processes"][0]
        assert (stranger["pid"], stranger["owner"]["name"]) == (sleeper.pid, me)
        command = ("snapshot", "--from", "tools", "--config", str(daemon.config_path), "--all", "--format", "json")
        asked = run_main(*command, environment=fake.environment)
        of_tools = [
            [allocation["owner"]["name"] for allocation in device["allocations"]]
            for device in json.loads(asked[1])["devices"]
        ]
        assert of_tools == [[pod_name], [pod_name], [me], []]
        kubelet.list = lambda _context: listed()
        daemon.until(lambda: "train-0" not in daemon.get("/metrics")[1])
        assert daemon.process is not None
        daemon.process.terminate()
        daemon.process.wait()
    saved = json.loads((tmp_path / "state" / "ledger.json").read_text())
    assert {"train-0", ""} == {job["owner"]["pod_name"] for job in saved["jobs"]}
