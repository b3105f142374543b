"""Each fault that the simulator knows, second by second through the real parts: what is worth a file, how many, and what it plays to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
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

BEGUN = 1_795_000_000.0
MINUTE = 60
# The fault, whose card has it, and the cause, which gives the file its name.
CAUSES = [
    ("events", "nvidia", "xid_13"),
    ("fatal_events", "nvidia", "xid_119"),
    ("hot_spells", "nvidia", "throttled_by_heat"),
    ("hot_spells", "ascend", "over_critical"),  # it tells nothing of throttling
    ("lost_cards", "nvidia", "xid_79"),
    ("lost_cards", "ascend", "unhealthy"),  # its health is bad before it goes
    ("lost_cards", "hygon", "lost"),
    ("links_down", "nvidia", "link_down"),
    ("uncorrected_errors", "nvidia", "uncorrected_errors"),
    ("failed_polls", "nvidia", "failed"),
]
# What grows slowly, or is work that is not done, is no alarm of the moment: boards and alerts are for that.
SILENT = ("corrected_errors", "hung_cards", "hung_jobs", "slow_cards", "slow_nodes", "big_jobs")


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


@pytest.mark.parametrize(("fault", "vendor", "cause"), CAUSES)
def test_a_fault_writes_one_file_that_plays_to_the_same_verdict(
    tmp_path: Path, fault: str, vendor: str, cause: str
) -> None:
    live: list[Mapping[str, str]] = []

    def write(name: str, packed: Iterable[bytes], _: float) -> str:
        live.append(verdicts(of_snapshot.document(it.store.snapshot(), {})))
        return write_here(flights.folder_in(str(tmp_path)), name, packed)

    it = Simulation(vendor, Faults(**{fault: 60.0}), write)
    it.play(20 * MINUTE, until=lambda: bool(it.written))
    it.play(MINUTE)
    (flight,) = flights.kept(str(tmp_path))
    assert flight.cause == cause
    status, out, error = run_main("snapshot", "--replay", flight.path, "--format", "json")
    assert status in (0, 2), error
    assert verdicts(json.loads(out)) == live[-1]


@pytest.mark.parametrize(("vendor", "more"), [("nvidia", ()), ("ascend", ("events", "fatal_events"))])
def test_all_that_is_no_alarm_of_the_moment_writes_nothing(vendor: str, more: tuple[str, ...]) -> None:
    it = Simulation(vendor, Faults(**dict.fromkeys((*SILENT, *more), 60.0)), lambda *_: "")
    it.play(20 * MINUTE)
    assert it.written == []
