"""A missing library: a process starts only if the library may have been installed meanwhile."""

from pathlib import Path

import pytest

from kits.fake_nvml.library import FakeNvml
from kits.workers import CountingLauncher, HandClock, closing
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

pytestmark = pytest.mark.needs("cc")
TARGET = "telemetry_daemon.readers.nvml.reader:READER"


def test_change_in_a_library_folder_starts_a_process(tmp_path: Path) -> None:
    fake, launcher, clock = FakeNvml(tmp_path, "t4"), CountingLauncher(), HandClock()
    fake.uninstall()
    with closing(Worker("nvml", {"nvml": TARGET}, launcher=launcher, environment=fake.environment)) as worker:

        def states(*minutes: float) -> str:
            found = []
            for pause in minutes:
                clock.seconds += 60 * pause
                failure = reader.read(PARSER.polls[0], Targets()).failure
                found.append(failure.state if failure is not None else "ok")
            return " ".join(found)

        reader = WorkerReader("nvml", worker, clock=clock)
        assert (states(0, 1, 1, 1), len(launcher.pids)) == ("missing missing missing missing", 1)
        assert reader.capture_if_missing(PARSER.polls[0]) is not None
        (tmp_path / "libother.so").touch()
        assert (states(1, 1, 1), len(launcher.pids)) == ("missing missing missing", 2)
        assert (states(31), len(launcher.pids)) == ("missing", 3), "behind a link it may be in an unknown folder"
        fake.install()
        assert states(0.5, 0.5) == "missing ok", "it had looked half a minute before"
