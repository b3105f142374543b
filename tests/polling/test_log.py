"""What a poll could not read is logged once, and not at every poll for as long as its numbers change."""

from __future__ import annotations

import threading
import time

import pytest

from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import PciView, Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Device, Output, Poll, Problem, Report

POLL = Poll("readings", Command((("acme-smi",),)), interval=0.05)


def parse(capture: Capture) -> Report:
    """Two lines that nobody understands, whose numbers are others each time."""
    number = capture.outputs[0].text
    problems = (Problem("line 3", f"'Drain: {number} W' is not known"), Problem(f"line {number}", "'???' is not known"))
    return Report(devices=(Device("acme", 0),), problems=problems)


class Counting:
    """A reader whose text is how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.changed = threading.Condition()

    def read(self, poll: Poll, _targets: object) -> Capture:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
            outputs = (Output(text=str(self.asked)),)
        return Capture("acme-smi", poll.name, poll.request, outputs, monotonic_time=time.monotonic())

    def close(self) -> None:
        pass

    def left_behind(self) -> tuple[int, ...]:
        return ()


def test_a_problem_is_told_once_however_its_numbers_change(caplog: pytest.LogCaptureFixture) -> None:
    reader, clock = Counting(), Clock()
    parser = SourceParser("acme-smi", "acme", ("power_watts",), (POLL,), parse)
    readers = {POLL.name: reader}
    poller = Poller(Store("node", clock), clock)
    poller.start([Source(parser, readers, SourceSettings(), lambda _: PciView(), clock, lambda *_: None)])
    try:
        with reader.changed:
            assert reader.changed.wait_for(lambda: reader.asked >= 12, timeout=60.0)
    finally:
        poller.stop()
    told = [record for record in caplog.records if record.message == "problem"]
    assert [vars(record)["text"] for record in told] == ["'Drain: 1 W' is not known", "'???' is not known"]
