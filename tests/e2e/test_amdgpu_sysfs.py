"""The drivers' files through the real daemon and its worker: a card that falls asleep and wakes, partitions that come and go."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from kits.daemon import Daemon
from kits.fake_sysfs import Sysfs, blob, gpu_node, mi300x, radeon
from kits.fake_tools import ToolFolder

pytestmark = pytest.mark.installed

CONFIG = """
[sources.amdgpu-sysfs]
interval = 0.3
path = "{root}"
"""
BUS = "0000:03:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path / "host")


def daemon(tmp_path: Path, sysfs: Sysfs) -> Daemon:
    tools = ToolFolder(tmp_path / "tools")
    return Daemon(tmp_path, CONFIG.format(root=sysfs.root), environment=tools.environment)


def amd(running: Daemon) -> dict[str, Any]:
    found = [device for device in running.document()["devices"] if device["vendor"] == "amd"]
    return {f"{device['bus_id']}/{device['partition']}".removesuffix("/None"): device for device in found}


def reading(running: Daemon, device: str, metric: str) -> Any:
    return amd(running).get(device, {"readings": {}})["readings"].get(metric)


def test_sleeping_card_stays_listed(tmp_path: Path, sysfs: Sysfs) -> None:
    card = sysfs.card(BUS, {**radeon(), "product_name": "AMD Radeon Pro W6800", "unique_id": "0a1b2c3d4e5f6071"})
    sensor = card / "hwmon/hwmon4/temp1_input"
    with daemon(tmp_path, sysfs) as running:
        running.until(lambda: reading(running, BUS, "suspended") == 1.0)
        running.until(lambda: amd(running)[BUS]["model"] == "AMD Radeon Pro W6800")
        asleep = amd(running)[BUS]
        assert (asleep["up"], set(asleep["readings"])) == (True, {"suspended"})
        (card / "power/runtime_status").write_text("active\n")
        running.until(lambda: reading(running, BUS, "temperature_celsius") == {"edge": 33.0})
        # The file is empty for a moment while it is written.
        running.until(lambda: reading(running, BUS, "suspended") == 0.0)
        sensor.write_text("35000\n")
        (card / "power/runtime_status").write_text("suspended\n")
        running.until(lambda: set(amd(running)[BUS]["readings"]) == {"suspended"})
        assert reading(running, BUS, "suspended") == 1.0


def test_partitions_follow_the_cards_mode(tmp_path: Path, sysfs: Sysfs) -> None:
    places = {10: ("H", 141), 12: ("H", 31), 306: ("H", 2), 312 + 168: ("I", 90)}
    sysfs.card(BUS, mi300x(blob(1, 6, 1664, places)))
    for partition in range(2):
        sysfs.node(2 + partition, str(100 + partition), **gpu_node(0x300 + partition, 777))
    with daemon(tmp_path, sysfs) as running:
        running.until(lambda: reading(running, f"{BUS}/1", "utilization_ratio") == 0.9)
        assert reading(running, BUS, "utilization_ratio") == 0.31
        assert reading(running, BUS, "power_watts") == 141.0
        assert reading(running, f"{BUS}/1", "power_watts") is None
        assert [amd(running)[name]["device"] for name in (BUS, f"{BUS}/1")] == ["0", "0:1"]
        shutil.rmtree(sysfs.root / "sys/class/kfd/kfd/topology/nodes/3")
        running.until(lambda: set(amd(running)) == {BUS})
        assert reading(running, BUS, "power_watts") == 141.0
