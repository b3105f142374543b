"""The daemon's ledger over its ends and kills: a pod goes on where it was, and what was lost is a gap."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_kubelet import FakeKubelet
from kits.pod_resources import listed
from kits.tool_node import series, tool_node
from kits.waiting import PATIENCE_SECONDS

POD = {
    "name": "trainer",
    "namespace": "ml",
    "containers": [
        {"name": "main", "devices": [{"resource_name": "iluvatar.com/gpu", "device_ids": ["0000:13:00.0"]}]}
    ],
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Daemon]:
    with FakeKubelet(tmp_path / "kubelet") as kubelet:
        kubelet.list = lambda _context: listed(POD)
        more = (
            f'[attribution]\nenabled = true\nkubelet_socket = "{kubelet.socket}"\n[sources.kubelet]\ninterval = 0.5\n'
        )
        yield tool_node(tmp_path, more)[0]


def new_daemon(node: Daemon) -> Daemon:
    """Another daemon on the same node."""
    return replace(node, lines=[])


def seconds(daemon: Daemon) -> float:
    """How long the pod had its card, as the page tells."""
    found = series(daemon, "accelerator_allocation_seconds_total{")
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def pod_of(daemon: Daemon) -> dict[str, Any]:
    """The pod's record in the ledger."""
    jobs = json.loads((daemon.folder / "state" / "ledger.json").read_text())["jobs"]
    (pod,) = (job for job in jobs if job["owner"]["kind"] == "pod")
    return dict(pod)


@pytest.mark.long
def test_a_pod_goes_on_over_an_end_and_a_kill_of_the_daemon(node: Daemon) -> None:
    with new_daemon(node) as daemon:
        daemon.until(lambda: seconds(daemon) > 1.0)
        assert daemon.stop()[0] == 0
    first = pod_of(node)
    assert (first["owner"]["name"], first["end"], first["gaps"]) == ("ml/trainer/main", None, [])
    with new_daemon(node) as daemon:
        daemon.until(lambda: seconds(daemon) > 1.0)
        daemon.signal(signal.SIGKILL)
        assert daemon.process is not None
        daemon.process.wait(PATIENCE_SECONDS)
    killed = pod_of(node)
    assert (killed["id"], len(killed["gaps"])) == (first["id"], 1), "it was written when the daemon began"
    with new_daemon(node) as daemon:
        daemon.until(lambda: seconds(daemon) > 1.0)
        assert daemon.stop()[0] == 0
    last = pod_of(node)
    assert (last["id"], last["start"]) == (first["id"], first["start"])
    assert last["seconds"] > first["seconds"] + 1.0
    assert sum(gap["seconds"] for gap in last["gaps"]) > 1.0, "with what the killed daemon had counted"
    (card,) = last["cards"]
    assert card["is_allocated"] is True
    status, out, _ = run_main("jobs", "--config", str(node.config_path), "--format", "json")
    document = json.loads(out)
    assert status == 0
    assert [(row["owner"], row["running"]) for row in document["rows"]] == [("ml/trainer/main", 1)]
    assert document["nobody"]["cards"] == 2
