"""A worker of a naughty plugin, its launcher and its clock."""

from collections.abc import Iterator

import pytest

from kits import workers
from kits.workers import CountingLauncher, HandClock, new_worker
from telemetry_daemon.processes.worker import Worker


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def launcher() -> CountingLauncher:
    return CountingLauncher()


@pytest.fixture
def worker(clock: HandClock, launcher: CountingLauncher) -> Iterator[Worker]:
    with workers.closing(new_worker(clock=clock, launcher=launcher)) as made:
        yield made
