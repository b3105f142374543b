"""A store with two polls of one source that both list devices."""

from kits.fed_node import OK, FedNode
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_parsers.model import Command, Device, Poll, Reading, Report

REQUEST = Command((("tool",),))
FAST = Poll("readings", REQUEST, interval=2.0)
INVENTORY = Poll("inventory", REQUEST, tier="inventory", interval=300.0)
CARDS = Report(
    devices=(Device("nvidia", 0, bus_id="0000:33:00.0"), Device("nvidia", 1, bus_id="0000:53:00.0")),
    readings=(Reading(0, "power_watts", 50.0), Reading(1, "power_watts", 60.0)),
)


class Node(FedNode):
    def __init__(self, identities=()):
        sources = (SourceFacts("tool", "nvidia", ("power_watts",)), SourceFacts("nvml", "nvidia", ()))
        super().__init__(sources, now=100.0, wall_at_start=1e9, identities=identities)

    def put(self, report=CARDS, result=OK, poll=FAST, source="tool"):
        return self.ingest(source, report, poll, result).events

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
