"""The energy of a section is exact: the daemon reads the counter when the section begins and ends."""

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
        fake.set_answer(gpu, COUNTER, f"8123456789+{WATTS * 1000}")
    with Daemon(folder, environment=fake.environment) as running:
        running.until(lambda: "accelerator_energy_joules_total{" in running.page())
        yield running, fake


@pytest.fixture
def daemon(node: Node) -> Daemon:
    return node[0]


def measured(daemon: Daemon, seconds: float, times: int = 1) -> dict[str, float]:
    """Return the results of sections of these seconds, after the limit of one reading per second."""
    time.sleep(1.2)  # the daemon reads exact energy at most once a second
    with Recorder("all", url=daemon.address) as recorder:
        for _ in range(times):
            with recorder("work"):
                time.sleep(seconds)  # the length of the section under test
        return recorder.results("work")


@pytest.mark.parametrize("seconds", [1.0, 2.5])
def test_energy_of_a_section_is_that_of_the_counter(daemon: Daemon, seconds: float) -> None:
    """On a busy machine a section may not be exact; the test then tries another one."""
    numbers = next(numbers for _ in range(30) if (numbers := measured(daemon, seconds))["exact"] == 1.0)
    assert numbers["energy_joules"] == pytest.approx(2 * WATTS * numbers["seconds"], rel=0.01)


def test_short_sections_are_not_exact(daemon: Daemon) -> None:
    """Without a reading of the counter in time, the reported power is used, which differs here."""
    tries = (measured(daemon, 0.1, times=12) for _ in range(30))
    rates = ((numbers["exact"], numbers["energy_joules"] / numbers["seconds"]) for numbers in tries)
    assert any(exact == 0.0 and rate == pytest.approx(2 * WATTS, rel=0.05) for exact, rate in rates)


def test_counters_are_read_once_a_second_for_many_clients(node: Node) -> None:
    daemon, fake = node
    before, begun = fake.calls("nvmlDeviceGetFieldValues", 0), time.monotonic()
    for _ in range(100):
        daemon.get("/api/v1/snapshot?counters=now")
    daemon.until(lambda: fake.calls("nvmlDeviceGetFieldValues", 0) > before)
    seconds = time.monotonic() - begun  # in which fast polls make the same call every two seconds
    assert fake.calls("nvmlDeviceGetFieldValues", 0) - before <= seconds * 1.5 + 5
