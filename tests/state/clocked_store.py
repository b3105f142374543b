"""A store on a clock of the test's own, with two polls of one source that both list devices."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Command, Device, Poll, Reading, Report

REQUEST = Command((("tool",),))
FAST = Poll("readings", REQUEST, interval=2.0)
INVENTORY = Poll("inventory", REQUEST, tier="inventory", interval=300.0)
CARDS = Report(
    devices=(Device("nvidia", 0, bus_id="0000:33:00.0"), Device("nvidia", 1, bus_id="0000:53:00.0")),
    readings=(Reading(0, "power_watts", 50.0), Reading(1, "power_watts", 60.0)),
)


@dataclass
class Times:
    now: float = 100.0
    slept: float = 0.0
    set_by: float = 1e9


OK = PollResult("ok")


class Node:
    """A store with a clock that stands still until it is moved."""

    def __init__(self, identities=(), ledger=None):
        self.times = Times()
        clock = Clock(
            lambda: self.times.now,
            lambda: self.times.set_by + self.times.now + self.times.slept,
            lambda: self.times.slept,
        )
        attribution = Attribution(clock, ledger) if ledger is not None else None
        self.store = Store("node", clock, identities, Accumulator(bill=ledger), attribution=attribution)
        self.store.add_source(SourceFacts("tool", "nvidia", ("power_watts",)))
        self.store.add_source(SourceFacts("nvml", "nvidia", ()))

    def put(self, report=CARDS, result=OK, poll=FAST, source="tool"):
        capture = Capture(source, poll.name, REQUEST, cpu_seconds=0.25, wall_time=1e9, monotonic_time=self.times.now)
        return self.store.put(source, poll, capture, report, result, poll.interval).events

    def fail(self, reason, poll=FAST):
        return self.put(None, PollResult("failed", reason, "it failed"), poll)

    def powers(self):
        return [
            reading.value
            for device in self.store.snapshot().devices
            for reading in device.readings
            if reading.metric == "power_watts"
        ]

    def ups(self):
        return [device.up for device in self.store.snapshot().devices]
