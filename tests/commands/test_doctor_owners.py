"""Remedies of the doctor for sources of owners, which have neither driver nor tool."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.played import Played
from kits.command_line import run_main
from kits.daemon import bare_config
from kits.fake_kubelet import SOCKET, RawServer


def dead(root: Path) -> None:
    with RawServer(root / SOCKET, lambda _connection: None):
        pass


@pytest.mark.parametrize(
    ("prepare", "why", "to_do"),
    [
        (lambda _root: None, "no kubelet socket found", "no action needed if the node has no such source"),
        (dead, "the kubelet is down or restarting", "docs/owners.md describes what this source needs"),
    ],
)
def test_missing_kubelet_is_explained(tmp_path: Path, prepare: Callable[[Path], None], why: str, to_do: str) -> None:
    prepare(tmp_path)
    config = bare_config(tmp_path, f'[attribution]\nenabled = true\n[sources.kubelet]\npath = "{tmp_path}"\n')
    _, output, _ = run_main("doctor", "--config", config, "--source", "kubelet", "--all")
    words = " ".join(output.split())
    assert why in words
    assert to_do in words
    assert "driver" not in words


@pytest.mark.parametrize(("card", "status"), [("a1b2c3d4e5f60703", 0), ("7", 2)])
def test_owner_source_alone_is_compared_with_listed_cards(tmp_path: Path, card: str, status: int) -> None:
    node = Played(tmp_path)
    node.card(3)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    job = {"scheduler": "slurm", "id": "12", "name": "12", "devices": [card], "started": 1.0, "ended": None}
    (jobs / "slurm-12.json").write_text(json.dumps(job))
    node.config += f'[attribution]\nenabled = true\njob_directory = "{jobs}"\n'
    asked = node.doctor("--source", "slurm")
    assert (asked.status, "slurm: ok" in asked.stdout) == (status, True), asked.stdout
    assert ("matches either no device or several devices of this node" in asked.words) == (status == 2)
    assert "amdgpu-sysfs" not in asked.stdout
    node.close()
