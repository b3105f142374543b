"""The reader `nvml` in its real worker process, on a fake NVML, with a clock that moves when told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kits.fake_nvml.library import FakeNvml
from telemetry_daemon.processes.process import Launcher, launch
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.workers.worker import Worker
from telemetry_parsers.model import Absent, Capture, Failure, Poll, Report, Value
from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

READERS = Path(__file__).parents[2] / "nvml"
POLLS = {poll.name: poll for poll in PARSER.polls}
TIERS = tuple(POLLS)
# What the worker calls for its own sake, not for a reading.
_WAITING = "nvmlEventSetWait_v2"


class Bench:
    """A worker that reads a fake node, with the reader in a file of tests/nvml."""

    def __init__(self, fake: FakeNvml, reader: str = "hand_clock_reader", launcher: Launcher = launch) -> None:
        self.fake = fake
        self._clock = fake.folder / "clock"
        self._seconds = 1000.0
        self.move(0.0)
        environment = {**fake.environment, "HAND_CLOCK": str(self._clock)}
        self.worker = Worker(
            "nvml", {"nvml": f"{READERS / reader}.py:READER"}, launcher=launcher, environment=environment
        )
        self._reader = WorkerReader("nvml", self.worker)

    def move(self, seconds: float) -> None:
        """Let time pass for the reader, the worker and the driver keep theirs."""
        self._seconds += seconds
        new = self._clock.with_suffix(".new")
        new.write_text(str(self._seconds))
        new.replace(self._clock)

    def capture(self, tier: str = "fast", deadline: float = 60.0) -> Capture:
        """What one poll gets."""
        poll = POLLS[tier]
        return self._reader.read(Poll(poll.name, poll.request, poll.tier, deadline=deadline), Targets())

    def data(self, tier: str = "fast") -> dict[str, Any]:
        """What the reader gave, which must not be a refusal."""
        capture = self.capture(tier)
        assert capture.failure is None, capture.failure
        found: dict[str, Any] = capture.outputs[0].data
        return found

    def gpu(self, index: int = 0, tier: str = "fast") -> dict[str, Any]:
        """What it gave of one GPU."""
        found: dict[str, Any] = self.data(tier)["gpus"][index]
        return found

    def refusal(self, tier: str = "fast", deadline: float = 60.0) -> Failure:
        """Why it gave nothing."""
        failure = self.capture(tier, deadline).failure
        assert failure is not None
        return failure

    def report(self, tier: str = "fast") -> Report:
        """What the parser makes of it."""
        return PARSER.parse(self.capture(tier))

    def forget(self) -> None:
        """A new reader for the same worker, as after `telemetry resume`."""
        self._reader = WorkerReader("nvml", self.worker)

    def made(self, tier: str, where: int | str = 0) -> dict[str, int]:
        """The driver calls that one poll makes on a device, two seconds after the one before."""
        self.move(2)
        before = self.fake.counts(where)
        self.data(tier)
        after = self.fake.counts(where)
        counted = {call: count - before.get(call, 0) for call, count in after.items()}
        return {call: count for call, count in counted.items() if count and call not in ("*", _WAITING)}


@contextmanager
def reading(fake: FakeNvml, reader: str = "hand_clock_reader", launcher: Launcher = launch) -> Iterator[Bench]:
    """A bench whose worker ends with the test."""
    bench = Bench(fake, reader, launcher)
    try:
        yield bench
    finally:
        bench.worker.close()


def value(report: Report, metric: str, label: str = "", device: int = 0) -> Value:
    """One reading of a report; not reported where there is none."""
    found = [
        item.value for item in report.readings if (item.device, item.metric, item.label) == (device, metric, label)
    ]
    return found[0] if found else Absent.NOT_REPORTED
