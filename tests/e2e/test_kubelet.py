"""Pods on the page of the real daemon: who has which card as the kubelet says, and what becomes of it when the kubelet goes."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.fake_kubelet import FakeKubelet, put_on_node
from kits.fake_nvml.library import FakeNvml
from kits.pod_resources import listed, pod

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]
LOST = "GPU-00000000-0000-0000-0000-00000000dead"
UIDS = [f"0000000{number}-4d1e-4c6b-9a53-0c7d2e81f6a0" for number in range(3)]
SHARE = re.compile(r"^accelerator_allocation_ratio\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)


def config(root: Path) -> str:
    return f'[attribution]\nenabled = true\n[sources.kubelet]\npath = "{root}"\ninterval = 0.5\n'


def shares(running: Daemon) -> Mapping[tuple[str, str], float]:
    """Return the share of each pod by the card's number and the pod's name."""
    found = {}
    for match in SHARE.finditer(running.page()):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
        found[labels["device"], labels["pod_name"]] = float(match["value"])
    return found


def uuids(running: Daemon) -> Mapping[str, str]:
    return {device["device"]: device["uuid"] for device in running.document()["devices"]}


def test_pods_are_on_the_page(tmp_path: Path) -> None:
    root = tmp_path / "host"
    fake, kubelet = FakeNvml(tmp_path / "nvml", "h100"), FakeKubelet(root)
    with kubelet, Daemon(tmp_path, config(root), environment=fake.environment) as running:
        running.until_state("kubelet", "ok")
        running.until(lambda: len(uuids(running)) == 8)
        card = uuids(running)
        put_on_node(
            root,
            [("ml", name, uid) for name, uid in zip(("two", "ended", "next"), UIDS, strict=True)],
            (),
            (UIDS[0], UIDS[2]),
        )
        answer = listed(
            pod("ml", "slice-a", {"main": {"nvidia.com/gpu": (f"{card['0']}::0",)}}),
            pod("ml", "slice-b", {"main": {"nvidia.com/gpu.shared": (f"{card['0']}::1",)}}),
            pod("ml", "two", {"main": {"nvidia.com/gpu": (card["1"], card["2"])}, "side": {}}),
            pod("ml", "ended", {"main": {"nvidia.com/gpu": (card["3"],)}}),
            pod("ml", "next", {"main": {"nvidia.com/gpu": (card["3"],)}}),
            pod("ml", "drawn", {"main": {}}, {"gpu.nvidia.com": ("gpu-4",)}),
            pod("ml", "lost", {"main": {"nvidia.com/gpu": (LOST,)}}),
        )
        kubelet.list = lambda _context: answer
        expected = {
            ("0", "slice-a"): 0.5,
            ("0", "slice-b"): 0.5,
            ("1", "two"): 1.0,
            ("2", "two"): 1.0,
            ("3", "next"): 1.0,
            ("4", "drawn"): 1.0,
        }
        running.until(lambda: shares(running) == expected)
        assert 'telemetry_claims_unresolved{source="kubelet"} 1' in running.page()
        assert any(LOST in problem["text"] for problem in running.source("kubelet")["problems"])
        kubelet.stop()
        running.until(lambda: shares(running) == {})
        assert running.source("kubelet")["state"] in ("failed", "missing")
        assert len(uuids(running)) == 8
        kubelet.start()
        running.until(lambda: shares(running) == expected)


def test_pods_on_mig_instances(tmp_path: Path) -> None:
    """UUIDs and GKE's names have owners; a name by profile and placement has none."""
    root = tmp_path / "host"
    fake, kubelet = FakeNvml(tmp_path / "nvml", "h100-mig"), FakeKubelet(root)
    with kubelet, Daemon(tmp_path, config(root), environment=fake.environment) as running:
        running.until(lambda: {"0", "0:0", "0:1"} == set(uuids(running)))
        answer = listed(
            pod("ml", "by-uuid", {"main": {"nvidia.com/mig-1g.10gb": (uuids(running)["0:0"],)}}),
            pod("ml", "by-number", {"main": {"nvidia.com/gpu": ("nvidia0/gi2/vgpu0",)}}),
            pod("ml", "by-placement", {"main": {}}, {"gpu.nvidia.com": ("gpu-0-mig-1g10gb-0-1",)}),
        )
        kubelet.list = lambda _context: answer
        running.until(lambda: shares(running) == pytest.approx({("0", "by-uuid"): 1 / 7, ("0", "by-number"): 3 / 7}))
        assert 'telemetry_claims_unresolved{source="kubelet"} 1' in running.page()
