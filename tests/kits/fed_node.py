"""A store on a clock that the test moves, fed by the test, with made-up reports or by simulated cards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kits import snapshots
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.source import SimulatedSource, simulated_sources
from telemetry_daemon.state.accumulate import INTEGRALS, Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.health import PollResult, SourceFacts, result_of
from telemetry_daemon.state.store import Store
from telemetry_daemon.state.store_state import AcceptedAttempt
from telemetry_daemon.times import Clock
from telemetry_parsers.merge.report_columns import MERGE_METRICS
from telemetry_parsers.model import Capture, Device, Identity, Library, Metric, Poll, Reading, Report, Snapshot

OK = PollResult("ok")
READINGS = Poll("readings", Library("none", ()), interval=60.0, lists_devices=True)
# Metrics that the daemon derives from other readings and from events.
_NOT_OF_PARSERS = MERGE_METRICS | {
    "rank_info",
    "events_total",
    "event_last_timestamp_seconds",
    *(counter for counter, _ in INTEGRALS),
}


@dataclass
class FedNode:
    """A store and its clock, in seconds. `wall_at_start` is the time of day when the monotonic clock was 0."""

    sources: Sequence[SourceFacts] = ()
    now: float = 1000.0
    slept: float = 0.0
    wall_at_start: float = 1.7e9
    identities: tuple[Identity, ...] = ()

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.now, lambda: self.wall, lambda: self.slept)
        self.store = self.new_store()

    def new_store(self, attribution: Attribution | None = None, **accumulated: Any) -> Store:
        """Return a store on this clock with these sources; pass `accumulated` to its accumulator."""
        store = Store("node1", self.clock, self.identities, Accumulator(**accumulated), attribution=attribution)
        for source in self.sources:
            store.add_source(source)
        return store

    @property
    def wall(self) -> float:
        return self.wall_at_start + self.now + self.slept

    def ingest(self, source: str, report: Report | None, poll: Poll, result: PollResult = OK) -> AcceptedAttempt:
        capture = Capture(
            source, poll.name, poll.request, cpu_seconds=0.25, wall_time=self.wall, monotonic_time=self.now
        )
        return self.store.put(source, poll, capture, report, result, poll.interval)


@dataclass(frozen=True, slots=True)
class Load:
    """The size of a node; every source sees all devices and gives the same readings."""

    devices: int
    readings: int = 60
    sources: int = 1


class MadeUpNode(FedNode):
    def __init__(self, load: Load) -> None:
        self.load, self._turns = load, 0
        self._words = list(readings_in_words(load.readings))
        gives = tuple(dict.fromkeys(metric.key for metric, _ in self._words))
        super().__init__([SourceFacts(f"source{number}", "nvidia", gives) for number in range(load.sources)])

    def report(self, source: int) -> Report:
        """Return the report of the source's next poll; every number differs from that of the previous poll."""
        self._turns += 1
        return Report(
            devices=tuple(made_up_device(number) for number in range(self.load.devices)),
            readings=tuple(self._readings(source)),
            form="data",
        )

    def _readings(self, source: int) -> Iterator[Reading]:
        for number in range(self.load.devices):
            for position, (metric, word) in enumerate(self._words):
                step = 7 * number + position + self._turns + source
                # A card cannot have less memory than is used.
                least = 2.0**30 if metric.key == "memory_total_bytes" else 0.0
                yield Reading(number, metric.key, least + snapshots.number_in_range(metric, step), word)

    def put(self, source: int, report: Report) -> None:
        """Let the store ingest a poll, a tenth of a second after the previous one."""
        self.now += 0.1
        self.ingest(f"source{source}", report, READINGS)

    def poll_all(self) -> None:
        for source in range(self.load.sources):
            self.put(source, self.report(source))


def made_up_device(number: int) -> Device:
    """Return a device that all sources identify by its address."""
    return Device(
        "nvidia",
        index=number,
        model="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-5f1c2a90-77b3-4d0e-9a51-0c3e88{number:06d}",
        bus_id=f"{number // 32:04x}:{number % 32:02x}:00.0",
        facts=(("architecture", "Hopper"),),
    )


def readings_in_words(count: int) -> list[tuple[Metric, str]]:
    """Return the metric and label of `count` different readings of a device."""
    given = [metric for metric in snapshots.DEVICE_METRICS if metric.key not in _NOT_OF_PARSERS]
    found = [(metric, word) for metric in given for word in snapshots.some_words(metric, 4)]
    if count > len(found):
        raise ValueError(f"there are {len(found)} readings to choose from, not {count}")
    return found[:count]


class DemoNode(FedNode):
    """Simulated cards, the same in every run; `cards` has the syntax of `--demo`."""

    def __init__(self, cards: str, wall_at_start: float = 1_768_176_000.0, **how: Any) -> None:
        super().__init__(now=0.0, wall_at_start=wall_at_start)
        self.simulated = simulated_sources(parse_demo(cards), clock=self.clock, **{"seed": 3, **how})
        for source in self.simulated:
            self.store.add_source(SourceFacts(source.parser.name, source.parser.vendor, source.parser.gives))

    def ask(self, source: SimulatedSource, poll: Poll, interval: float = 3600.0) -> None:
        # The simulator's time differs from run to run.
        capture = replace(
            source.reader.read(poll, Targets()),
            monotonic_time=self.now,
            wall_time=self.wall,
            seconds=0.01,
            cpu_seconds=0.001,
        )
        report = source.parser.parse(capture) if capture.failure is None else None
        self.store.put(source.parser.name, poll, capture, report, result_of(capture, report, 0), interval)


def demo_snapshots(cards: str, times: int = 4) -> Sequence[Snapshot]:
    """Return a node's snapshots after each round of all polls, 15 simulated seconds apart."""
    node, found = DemoNode(cards), []
    for turn in range(times):
        node.now = turn * 15.0
        for source in node.simulated:
            for poll in source.parser.polls:
                node.ask(source, poll)
        found.append(node.store.snapshot())
    return found


def demo_snapshot(cards: str) -> Snapshot:
    return demo_snapshots(cards)[-1]
