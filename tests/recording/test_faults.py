"""Each fault that the simulator knows, second by second through the real parts: what is worth a file, how many, and what it plays to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kits.command_line import run_main
from recording.timers import Timers
from recording.written import write_here
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.recording import flights
from telemetry_daemon.recording.alarms import Alarms
from telemetry_daemon.recording.bursts import Bursts
from telemetry_daemon.recording.flight_recorder import FlightRecorder
from telemetry_daemon.recording.ring import Ring
from telemetry_daemon.recording.tap import Tap
from telemetry_daemon.simulate.faults import Faults
from telemetry_daemon.simulate.source import SimulatedSource
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters import json as of_snapshot
from telemetry_parsers.vendors import VENDORS

BEGUN = 1_795_000_000.0
MINUTE, HOUR = 60, 3600
# The cards that tell a fault as something that happens now; the cause gives the file its name.
ALL = frozenset(vendor.word for vendor in VENDORS if vendor.demo.source)
CAUSES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "events": {"xid_13": frozenset({"nvidia"})},
    "fatal_events": {"xid_119": frozenset({"nvidia"})},
    "hot_spells": {
        "throttled_by_heat": frozenset({"nvidia", "amd"}),
        # They tell nothing of throttling, and get that hot.
        "over_critical": ALL - {"nvidia", "amd", "cambricon", "enflame", "intel", "kunlunxin", "metax"},
    },
    "lost_cards": {
        "xid_79": frozenset({"nvidia"}),
        "unhealthy": frozenset({"ascend"}),  # its health is bad before it goes
        "lost": ALL - {"nvidia", "ascend"},
    },
    "links_down": {"link_down": frozenset({"nvidia", "amd", "ascend"})},
    "uncorrected_errors": {"uncorrected_errors": frozenset({"nvidia", "amd", "hygon", "ascend", "metax", "intel"})},
    "failed_polls": {"failed": ALL},
    # What grows slowly, or is work that is not done, is no alarm of the moment: boards and alerts are for that.
    **{fault: {} for fault in ("corrected_errors", "hung_cards", "hung_jobs", "slow_cards", "slow_nodes", "big_jobs")},
}
OF_PAIR = {
    (fault, vendor): next((cause for cause, vendors in causes.items() if vendor in vendors), "")
    for fault, causes in CAUSES.items()
    for vendor in sorted(ALL)
}
QUICK = {pair for pair in OF_PAIR if pair[1] == "nvidia"} | {("lost_cards", "ascend"), ("hot_spells", "ascend")}


class Simulation:
    """Two cards of a vendor with these faults, polled as the daemon polls them, and the flight recorder beside."""

    def __init__(self, vendor: str, faults: Faults, write: Callable[[str, Iterable[bytes], float], str]) -> None:
        self.seconds = 0.0
        self.written: list[str] = []
        self.clock = Clock(lambda: 5000.0 + self.seconds, lambda: BEGUN + self.seconds, lambda: 0.0)
        self._write = write
        self._due = Timers(self.clock.monotonic)
        self._ring, self._tap = Ring(), Tap()
        self._tap.listen(self._ring.add, lambda: None)
        recorder = FlightRecorder(self._ring, Bursts(self.clock.monotonic), self._put, self.clock, self._due)
        self.store = Store("node", self.clock, (), Accumulator(watch=Alarms(recorder.alarm)))
        self._source = SimulatedSource(vendor, 2, faults=faults, clock=self.clock)
        parser = self._source.parser
        self.store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives), parser.metrics)

    def _put(self, name: str, packed: Iterable[bytes], seconds: float) -> str:
        self.written.append(name)
        return self._write(name, packed, seconds)

    def second(self) -> None:
        for poll in self._source.parser.polls:
            if self.seconds % poll.interval == 0:
                capture = self._source.reader.read(poll, Targets())
                report = self._source.parser.parse(capture) if capture.failure is None else None
                self._tap(capture, report)
                self.store.put(capture.source, poll, capture, report, judge(capture, report, 0), poll.interval)
        self.seconds += 1.0
        self._due.go_off()

    def play(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Go on for so long, or until that is so."""
        end = self.seconds + seconds
        while self.seconds < end and not until():
            self.second()


def verdicts(document: Mapping[str, Any]) -> Mapping[str, str]:
    return {one["device"]: one["condition"]["word"] for one in document["devices"]}


@pytest.mark.parametrize(
    ("fault", "vendor"),
    [
        pytest.param(*pair, id="-".join(pair), marks=() if pair in QUICK else pytest.mark.long)
        for pair, cause in OF_PAIR.items()
        if cause
    ],
)
def test_a_fault_writes_one_file_that_plays_to_the_same_verdict(tmp_path: Path, fault: str, vendor: str) -> None:
    live: list[Mapping[str, str]] = []

    def write(name: str, packed: Iterable[bytes], _: float) -> str:
        live.append(verdicts(of_snapshot.document(it.store.snapshot(), {})))
        return write_here(flights.folder_in(str(tmp_path)), name, packed)

    it = Simulation(vendor, Faults(**{fault: 60.0}), write)
    it.play(20 * MINUTE, until=lambda: bool(it.written))
    it.play(MINUTE)
    (flight,) = flights.kept(str(tmp_path))
    assert flight.cause == OF_PAIR[fault, vendor]
    status, out, error = run_main("snapshot", "--replay", flight.path, "--format", "json")
    assert status in (0, 2), error
    assert verdicts(json.loads(out)) == live[-1]


def test_every_fault_of_the_simulator_is_tried() -> None:
    assert {each.name for each in fields(Faults)} == CAUSES.keys()


@pytest.mark.long
@pytest.mark.parametrize(("fault", "vendor"), [pair for pair, cause in OF_PAIR.items() if not cause])
def test_what_is_no_alarm_of_the_moment_writes_nothing(fault: str, vendor: str) -> None:
    it = Simulation(vendor, Faults(**{fault: 60.0}), lambda *_: "")
    it.play(20 * MINUTE)
    assert it.written == []


@pytest.mark.parametrize("vendor", ["nvidia", "ascend"])
def test_all_that_is_no_alarm_of_the_moment_writes_nothing(vendor: str) -> None:
    silent = {fault: 60.0 for (fault, of), cause in OF_PAIR.items() if of == vendor and not cause}
    it = Simulation(vendor, Faults(**silent), lambda *_: "")
    it.play(20 * MINUTE)
    assert it.written == []


@pytest.mark.long
@pytest.mark.parametrize("fault", ["lost_cards", "uncorrected_errors", "links_down", "failed_polls"])
def test_hours_of_the_same_fault_write_six_of_each_card_and_at_most_six_an_hour(fault: str) -> None:
    it = Simulation("amd", Faults(**{fault: 20.0}), lambda *_: "")
    for _ in range(4):
        before = len(set(it.written))
        it.play(HOUR)
        assert len(set(it.written)) - before <= 6
    assert 6 <= len(set(it.written)) <= 12
