"""A library that is not there: a process is started for it when it may have come, and not to find that nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.fake_nvml.library import FakeNvml
from kits.workers import CountingLauncher, HandClock
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.workers.worker import Worker
from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

pytestmark = pytest.mark.needs("cc")
TARGET = "telemetry_daemon.readers.nvml.reader:READER"


class Node:
    """A node without the library, whose reader is asked by the minute."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml(folder, "t4")
        self.fake.uninstall()
        self.launcher, self.clock = CountingLauncher(), HandClock()
        self.worker = Worker("nvml", {"nvml": TARGET}, launcher=self.launcher, environment=self.fake.environment)
        self.reader = WorkerReader("nvml", self.worker, clock=self.clock)

    def state_after(self, minutes: float) -> str:
        self.clock.seconds += 60 * minutes
        capture = self.reader.read(PARSER.polls[0], Targets())
        return capture.failure.state if capture.failure is not None else "ok"

    @property
    def processes(self) -> int:
        return len(self.launcher.pids)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.worker.close()


def test_nothing_is_started_while_no_place_changes_where_the_loader_looks(node: Node) -> None:
    assert [node.state_after(minute) for minute in (0, 1, 1, 1, 1)] == ["missing"] * 5
    assert node.processes == 1
    assert node.reader.look(PARSER.polls[0]) is not None


def test_it_is_found_within_a_minute_of_its_coming(node: Node) -> None:
    assert node.state_after(0) == "missing"
    node.fake.install()
    assert node.state_after(0.5) == "missing", "looked for half a minute ago"
    assert node.state_after(0.5) == "ok"
    assert node.processes == 2
