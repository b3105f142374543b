"""A thousand jobs, one after the other: the page, the memory and the series stay as they are, and all is in the records."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.readers.jobs.environment import Job
from telemetry_daemon.readers.jobs.files import begin, end, file_name, request_poll

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs("cc", "root"),  # a folder of jobs that is not root's is not believed
    pytest.mark.timeout(580),
]
CARDS, ROUNDS, SETTLED = 8, 125, 50
MIB = 1 << 20
CONFIG = """
[attribution]
enabled = true
job_directory = "{folder}/jobs"
[flight_recorder]
enabled = false  # its two minutes fill while we look for what jobs leave behind

[sources.nvml]
interval = 0.5
[sources.slurm]
interval = 0.5
"""
# Exposed after the second sample of a card.
ENERGY = "accelerator_allocation_energy_joules_total"


@dataclass(frozen=True)
class Node:
    """A daemon with eight cards, whose jobs are reported by files."""

    daemon: Daemon
    jobs: OwnFolder

    def turn(self, number: int) -> None:
        """End the jobs of the last round and start as many; wait until the page shows each new one."""
        self.end(number - 1)
        for card in range(CARDS):
            begin(self.jobs, job(number, card), time.time())
        request_poll(f"{self.daemon.folder}/run", "slurm")
        names = {job(number, card).name for card in range(CARDS)}
        self.daemon.until(lambda: owners(self.daemon.page()) == owners(self.daemon.page(), ENERGY) == names)

    def end(self, number: int) -> None:
        """All jobs of a round end, as far as their files say; one that never began has none."""
        for card in range(CARDS):
            end(self.jobs, job(number, card), time.time())

    def forget(self, number: int) -> None:
        """The files of a round's jobs go, as hooks remove them an hour after the end."""
        for card in range(CARDS):
            (self.daemon.folder / "jobs" / file_name("slurm", job(number, card).id)).unlink()

    def rss(self) -> int:
        return int(psutil.Process(self.daemon.pid).memory_info().rss)


def job(number: int, card: int) -> Job:
    name = str(10_000 + CARDS * number + card)
    return Job("slurm", name, name, run="0", user=f"user{card}", account="physics", devices=(str(card),))


def owners(page: str, metric: str = r"accelerator_allocation_\w+") -> set[str]:
    """Whom the page shows, with anything at all or with such a metric."""
    return set(re.findall(rf'^{metric}\{{[^}}]*owner="([^"]*)"', page, re.MULTILINE))


def counted(page: str, metric: str) -> float:
    """The sum over all cards."""
    return sum(map(float, re.findall(rf"^{metric}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(CARDS))
    for card in range(CARDS):
        fake.processes(card, [])
    (tmp_path / "jobs").mkdir(mode=0o755)
    with (
        Daemon(tmp_path, CONFIG.format(folder=tmp_path), environment=fake.environment) as daemon,
        OwnFolder.at(tmp_path / "jobs") as jobs,
    ):
        daemon.until(lambda: len(daemon.document()["devices"]) == CARDS)
        yield Node(daemon, jobs)


def test_a_thousand_jobs_leave_nothing_behind_but_their_records(node: Node) -> None:
    sizes, memory = [], []
    for number in range(ROUNDS):
        node.turn(number)
        if number > 1:
            node.forget(number - 2)
        sizes.append(len(node.daemon.page().splitlines()))
        memory.append(node.rss())
    assert len(set(sizes[SETTLED:])) == 1
    assert memory[-1] - memory[SETTLED] < 4 * MIB, [size // 1024 for size in memory[::SETTLED]]
    node.end(ROUNDS - 1)
    node.daemon.until(lambda: owners(node.daemon.page()) == set())
    assert_records_are_the_counters(node)


def assert_records_are_the_counters(node: Node) -> None:
    """Owned and unallocated shares in the records add up to what the cards did."""
    page = node.daemon.page()
    assert node.daemon.stop()[0] == 0
    state = node.daemon.folder / "state"
    lines = (state / "jobs.jsonl").read_text().splitlines()
    # Who has just gone stays in the ledger for a while, since late readings may belong to it.
    waiting = json.loads((state / "ledger.json").read_text())["jobs"]
    records = [*map(json.loads, lines), *waiting]
    names = [job(number, card).name for number in range(ROUNDS) for card in range(CARDS)]
    assert sorted(record["owner"]["name"] for record in records) == ["", *names], "each once, and the unallocated share"
    for field, metric in (
        ("energy_joules", "accelerator_energy_estimated_joules_total"),
        ("busy_seconds", "accelerator_busy_seconds_total"),
    ):
        billed = sum(record[field] or 0.0 for record in records)
        assert billed == pytest.approx(counted(page, metric), rel=0.01), field
