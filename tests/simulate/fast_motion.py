"""Simulated sources in fast motion: a clock that tests move, and readings as dictionaries."""

from collections.abc import Iterator

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.simulation import NO_FAULTS, FaultRates
from telemetry_daemon.simulate.source import SimulatedSource
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Absent, Capture, Report

WALL_MINUS_MONOTONIC = 1_800_000_000.0


class FastMotion:
    """A simulated source and its clock."""

    def __init__(self, vendor: str, count: int = 4, *, seed: int = 7, faults: FaultRates = NO_FAULTS) -> None:
        self.now = 5000.0
        self.clock = Clock(monotonic=lambda: self.now, wall=lambda: self.now + WALL_MINUS_MONOTONIC)
        self.source = SimulatedSource(vendor, count, seed=seed, faults=faults, clock=self.clock)
        self.polls = {poll.name: poll for poll in self.source.parser.polls}

    def capture(self, poll: str = "readings") -> Capture:
        return self.source.reader.read(self.polls[poll], Targets())

    def report(self, poll: str = "readings") -> Report:
        return self.source.parser.parse(self.capture(poll))

    def reports(self, seconds: float, every: float, poll: str = "readings") -> Iterator[Report]:
        """Yield the report of each successful poll in this time."""
        end = self.now + seconds
        while self.now < end:
            self.now += every
            capture = self.capture(poll)
            if capture.failure is None:
                yield self.source.parser.parse(capture)


def by_device(report: Report) -> dict[int, dict[str, float | Absent]]:
    """Return the readings of each device by its index, as `metric` or `metric:label`."""
    found: dict[int, dict[str, float | Absent]] = {device.index: {} for device in report.devices}
    for reading in report.readings:
        name = f"{reading.metric}:{reading.label}" if reading.label else reading.metric
        found[report.devices[reading.device].index][name] = reading.value
    return found
