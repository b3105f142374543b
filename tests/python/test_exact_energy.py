"""The energy of a stretch is the counter's: the daemon reads it when the stretch begins and ends, although it reads it rarely."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from device_telemetry import Recorder
from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile

pytestmark = pytest.mark.needs("cc")
COUNTER, WATTS = "nvmlDeviceGetTotalEnergyConsumption", 100
Node = tuple[Daemon, FakeNvml]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    fake = FakeNvml(folder / "nvml", load_profile("h100").with_gpus(2))
    for gpu in (0, 1):
        fake.tell(gpu, COUNTER, f"8123456789+{WATTS * 1000}")
    with Daemon(folder, environment=fake.environment) as running:
        running.until(lambda: "accelerator_energy_joules_total{" in running.page())
        yield running, fake


@pytest.fixture
def daemon(node: Node) -> Daemon:
    return node[0]


@pytest.mark.parametrize("seconds", [1.0, 2.5])
def test_the_energy_of_a_stretch_is_that_of_the_counter(daemon: Daemon, seconds: float) -> None:
    with Recorder("all", url=daemon.address) as recorder:
        with recorder("work"):
            begun = time.monotonic()
            time.sleep(seconds)
            seconds = time.monotonic() - begun
        numbers = recorder.results("work")
    assert numbers["energy_joules"] == pytest.approx(2 * WATTS * seconds, rel=0.01)
    assert numbers["exact"] == 1.0


def test_stretches_faster_than_the_counter_is_read_are_not_exact(daemon: Daemon) -> None:
    with Recorder("all", url=daemon.address) as recorder:
        for _ in range(12):
            with recorder("step"):
                time.sleep(0.1)
    assert recorder.results("step")["exact"] == 0.0
    assert recorder.results("step")["energy_joules"] == pytest.approx(
        2 * WATTS * recorder.results("step")["seconds"], rel=0.05
    )


def test_many_clients_have_the_counters_read_once_a_second(node: Node) -> None:
    daemon, fake = node
    before, begun = fake.calls("nvmlDeviceGetFieldValues", 0), time.monotonic()
    for _ in range(100):
        daemon.get("/api/v1/snapshot?counters=now")
    daemon.until(lambda: fake.calls("nvmlDeviceGetFieldValues", 0) > before)
    seconds = time.monotonic() - begun  # in which the fast polls make the same call every two
    assert fake.calls("nvmlDeviceGetFieldValues", 0) - before <= seconds * 1.5 + 5
