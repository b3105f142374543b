"""Nodes of any size without any tool: a store that is fed made-up reports, for benchmarks and for tests of cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kits import snapshots
from telemetry_daemon.state.accumulate import INTEGRALS, Accumulator
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.merge.columns import DECIDED_ELSEWHERE
from telemetry_parsers.model import Capture, Device, Library, Metric, Poll, Reading, Report

# Made by us from other readings and from events.
_NOT_OF_PARSERS = DECIDED_ELSEWHERE | {
    "rank_info",
    "events_total",
    "event_last_timestamp_seconds",
    *(counter for counter, _ in INTEGRALS),
}
READINGS = Poll("readings", Library("none", ()), interval=1.0, lists_devices=True)


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is on a node; every source sees all devices and gives the same readings.

    `lists` are the polls of each source that list the devices and give no reading, as those for processes may be.
    """

    devices: int
    readings: int = 60
    sources: int = 1
    lists: int = 0


@dataclass(slots=True)
class Times:
    """A clock that moves when told to."""

    now: float = 1000.0


@dataclass
class Node:
    """A node of that load: what its sources would report, and the store that takes it in."""

    load: Load
    times: Times = field(default_factory=Times)
    turns: int = 0

    def __post_init__(self) -> None:
        clock = Clock(lambda: self.times.now, lambda: 1.7e9 + self.times.now)
        self.store = Store("node", clock, (), Accumulator())
        self._words = list(readings_in_words(self.load.readings))
        gives = tuple(dict.fromkeys(metric.key for metric, _ in self._words))
        for source in range(self.load.sources):
            self.store.add_source(SourceFacts(f"source{source}", "nvidia", gives))

    def report(self, source: int) -> Report:
        """What the source's next poll gives; every number differs from that of the poll before."""
        self.turns += 1
        return Report(
            devices=tuple(device(number) for number in range(self.load.devices)),
            readings=tuple(self._readings(source)),
            form="data",
        )

    def _readings(self, source: int) -> Iterator[Reading]:
        for number in range(self.load.devices):
            for place, (metric, word) in enumerate(self._words):
                step = 7 * number + place + self.turns + source
                # No card has less memory than is used of it.
                least = 2.0**30 if metric.key == "memory_total_bytes" else 0.0
                yield Reading(number, metric.key, least + snapshots.number_in_range(metric, step), word)

    def put(self, source: int, report: Report, poll: Poll = READINGS) -> None:
        """Let the store take a poll in, a tenth of a second after the one before."""
        self.times.now += 0.1
        capture = Capture(f"source{source}", poll.name, poll.request, monotonic_time=self.times.now)
        self.store.put(f"source{source}", poll, capture, report, judge(capture, report, 0), 60.0)

    def poll_all(self) -> None:
        """One attempt at every poll of every source."""
        for source in range(self.load.sources):
            report = self.report(source)
            for number in range(self.load.lists):
                self.put(source, replace(report, readings=()), replace(READINGS, name=f"list{number}"))
            self.put(source, report)


def device(number: int) -> Device:
    """A device that all sources know by its address."""
    return Device(
        "nvidia",
        index=number,
        model="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-5f1c2a90-77b3-4d0e-9a51-0c3e88{number:06d}",
        bus_id=f"{number // 32:04x}:{number % 32:02x}:00.0",
        facts=(("architecture", "Hopper"),),
    )


def readings_in_words(count: int) -> list[tuple[Metric, str]]:
    """So many different readings of a device: metric and word of its own label."""
    given = [metric for metric in snapshots.DEVICE_METRICS if metric.key not in _NOT_OF_PARSERS]
    found = [(metric, word) for metric in given for word in snapshots.some_words(metric, 4)]
    if count > len(found):
        raise ValueError(f"there are {len(found)} readings to choose from, not {count}")
    return found[:count]
