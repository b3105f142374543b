"""The whole daemon on a node whose NVML fails: the page shows it, and no other source suffers."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.processes import alive

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]
PATIENT = "[sources.nvml]\ninterval = 0.5\ndeadline = 60.0\n"
# Hanging calls never return; on a slow machine other polls may miss this deadline, too, and are repeated.
STRICT = "[sources.nvml]\ninterval = 0.5\ndeadline = 2.0\n"
KEPT, LOST = (f"GPU-5f1c2a90-77b3-4d0e-9a51-0c3e8800010{number}" for number in (1, 2))
# The event that removed the card may come with its loss, so its events are still shown.
KEPT_METRICS = {
    "accelerator_up", "accelerator_info", "accelerator_events_total", "accelerator_event_last_timestamp_seconds",
    "accelerator_event_open",
}  # fmt: skip


class Node(NamedTuple):
    daemon: Daemon
    fake: FakeNvml

    def series(self, name: str, **labels: str) -> list[str]:
        wanted = [f'{key}="{text}"' for key, text in labels.items()]
        lines = [line for line in self.daemon.page().splitlines() if line.startswith(f"{name}{{")]
        return [line for line in lines if all(label in line for label in wanted)]

    def values(self, name: str, **labels: str) -> list[str]:
        return [line.rpartition(" ")[2] for line in self.series(name, **labels)]

    def workers(self) -> list[int]:
        tasks = Path(f"/proc/{self.daemon.pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return [child for child in children if b"\0nvml\0" in Path(f"/proc/{child}/cmdline").read_bytes()]


def node_of_three(folder: Path) -> FakeNvml:
    return FakeNvml(folder / "nvml", load_profile("h100").with_gpus(3))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    fake = node_of_three(folder)
    with Daemon(folder, STRICT, environment=fake.environment) as daemon:
        yield Node(daemon, fake)


@pytest.fixture
def node(shared: Node) -> Node:
    shared.fake.heal()
    shared.daemon.until(lambda: len(shared.values("accelerator_utilization_ratio", vendor="nvidia")) == 3)
    return shared


def test_a_call_that_hangs_leaves_no_stale_reading(node: Node) -> None:
    node.fake.hang("nvmlDeviceGetUtilizationRates", 3600.0)
    node.daemon.until(lambda: not node.series("accelerator_utilization_ratio", id=KEPT))
    node.daemon.until(lambda: node.daemon.source("nvml")["reason"] == "timeout")
    assert node.daemon.source("host")["state"] == "ok"
    node.fake.heal()
    node.daemon.until(lambda: node.series("accelerator_utilization_ratio", id=KEPT))
    assert len(node.workers()) <= 1


def test_cards_stay_listed_as_unread_while_every_call_hangs(node: Node) -> None:
    """The recent inventory lists them, but does not keep them up beside a failing source."""
    node.daemon.until(lambda: 'telemetry_source_poll_up{poll="inventory",source="nvml"} 1.0' in node.daemon.page())
    node.fake.hang("*", 3600.0)
    node.daemon.until(lambda: 'telemetry_source_up{source="nvml"} 0.0' in node.daemon.page())
    node.daemon.until(lambda: node.series("accelerator_up") == node.series("accelerator_power_cap_watts") == [])
    assert node.values("accelerator_unread", vendor="nvidia") == ["1.0"] * 3
    devices = node.daemon.document()["devices"]
    assert [(device["up"], device["condition"]["word"], device["readings"]) for device in devices] == [
        (None, "unknown", {})
    ] * 3
    assert all(device["last_read"] for device in devices)
    node.fake.heal()
    node.daemon.until(lambda: len(node.series("accelerator_up")) == 3 and not node.series("accelerator_unread"))
    node.daemon.until(lambda: len(node.series("accelerator_power_cap_watts")) == 3)


def test_without_a_library_there_is_no_worker_and_no_alarm(tmp_path: Path) -> None:
    fake = node_of_three(tmp_path)
    fake.uninstall()
    with Daemon(tmp_path, PATIENT, environment=fake.environment) as daemon:
        daemon.until_state("nvml", "missing")
        daemon.until(lambda: not Node(daemon, fake).workers())
        assert Node(daemon, fake).series("telemetry_source_up", source="nvml") == []


def test_a_lost_gpu_is_down_without_a_reading_and_its_xid_stays_open_over_a_restart(tmp_path: Path) -> None:
    fake = node_of_three(tmp_path)

    def opened(node: Node) -> list[str]:
        return [line for card in (LOST, KEPT) for line in node.values("accelerator_event_open", id=card, code="xid_79")]

    with Daemon(tmp_path, PATIENT, environment=fake.environment) as daemon:
        node = Node(daemon, fake)
        daemon.until(lambda: len(node.series("accelerator_sm_active_ratio", vendor="nvidia")) == 3)
        daemon.until(lambda: node.series("accelerator_power_cap_watts", id=LOST))
        daemon.until(lambda: node.series("accelerator_link_up", id=KEPT, link="17"))
        assert 'telemetry_devices{model="NVIDIA H100 80GB HBM3",vendor="nvidia"} 3.0' in daemon.page()
        (worker,) = node.workers()
        fake.xid(1, 79)
        fake.xid(2, 79)
        fake.lose(2)
        daemon.until(lambda: node.values("accelerator_up", id=LOST) == ["0.0"])
        daemon.until(lambda: opened(node) == ["1.0", "1.0"])
        mine = [line for line in daemon.page().splitlines() if f'id="{LOST}"' in line]
        assert {line.partition("{")[0] for line in mine} == KEPT_METRICS, "of older polls"
        assert (node.values("accelerator_up", id=KEPT), node.values("accelerator_power_watts", id=KEPT)) == (
            ["1.0"],
            ["645.31"],
        )
        assert [problem["where"] for problem in daemon.source("nvml")["problems"]] == ["GPU 0000:12:00.0"]
        assert 'telemetry_devices{model="NVIDIA H100 80GB HBM3",vendor="nvidia"} 2.0' in daemon.page()
        daemon.stop()
        assert not alive(worker)
    fake.hang("nvmlInitWithFlags", 3600.0)
    with Daemon(tmp_path, PATIENT, environment=fake.environment) as daemon:
        node = Node(daemon, fake)
        daemon.until(lambda: opened(node) == ["1.0", "1.0"])
        assert node.series("accelerator_up", id=KEPT) == [], "the state of the card is unknown"
        config = ("--config", str(daemon.config_path))
        assert run_main("forget", KEPT, *config)[:2] == (0, f"forgot the open events of {KEPT}: xid_79\n")
        assert run_main("forget", LOST, *config)[:2] == (0, f"forgot the open events of {LOST}: xid_79, gpu_lost\n")
        daemon.until(lambda: opened(node) == [])
        assert run_main("forget", KEPT, *config).status == 64, "there is none any more"
