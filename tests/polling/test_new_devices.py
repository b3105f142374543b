"""What the rarer polls tell of a device is asked as soon as the device is seen, not an inventory interval later."""

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
from telemetry_parsers.model import Capture, Command, Device, Output, Poll, Report

POLLS = (
    Poll("readings", Command((("acme-smi",),)), interval=0.1),
    Poll("identity", Command((("acme-smi", "-i"),)), tier="inventory", interval=300.0, lists_devices=False),
)


def parse(capture):
    devices = tuple(Device("acme", index=number) for number in range(int(capture.outputs[0].text)))
    return Report(devices=devices, index_space="acme-smi")


class Cards:
    """A reader that tells how many cards there are, and counts how often each poll asked."""

    def __init__(self):
        self.number = 1
        self.asked = {"readings": 0, "identity": 0}
        self.changed = threading.Condition()

    def read(self, poll, targets):
        with self.changed:
            self.asked[poll.name] += 1
            self.changed.notify_all()
            text = str(self.number)
        now = time.monotonic()
        return Capture(
            "acme-smi", poll.name, poll.request, (Output(text=text),), wall_time=time.time(), monotonic_time=now
        )

    def until(self, poll, times):
        with self.changed:
            return self.changed.wait_for(lambda: self.asked[poll] >= times, timeout=60.0)

    def close(self):
        pass

    def left_behind(self):
        return ()


@pytest.fixture
def cards():
    cards = Cards()
    clock = Clock()
    parser = SourceParser("acme-smi", "acme", ("power_watts",), POLLS, parse)
    readers = {poll.name: cards for poll in POLLS}
    keep = lambda _capture, _report: None  # noqa: E731  # nothing is kept
    poller = Poller(Store("node", clock), clock)
    poller.start([Source(parser, readers, SourceSettings(), lambda _vendor: PciView(), clock, keep)])
    yield cards
    poller.stop()


@pytest.mark.parametrize("number", [2, 0], ids=["a card more", "a card less"])
def test_other_devices_are_looked_at_closely_at_once(cards, number):
    assert cards.until("readings", 3)
    assert cards.until("identity", 1)
    before = cards.asked["identity"]
    cards.number = number
    assert cards.until("identity", before + 1)


def test_the_same_devices_are_not(cards):
    assert cards.until("readings", 8)
    assert cards.asked["identity"] == 1
