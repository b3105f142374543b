"""The last half hour: each slot has what the snapshot told at its end, or the reason why it has nothing."""

from __future__ import annotations

import math

import pytest

from kits import snapshots as kit
from telemetry_daemon.state.history import History
from telemetry_daemon.times import Clock
from telemetry_exporters.past import SLOT_SECONDS, SLOTS, Gap, PastEvent
from telemetry_parsers.model import Absent


class Life:
    """A history whose clock a test moves, slot by slot."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, 0.0
        self.history = History(Clock(lambda: self.now, lambda: 1.7e9 + self.now, lambda: self.slept))

    def slot(self, *devices, noted=(), sources=()):
        """A slot with these devices at its end, and others before."""
        for device in noted:
            self.history.note([device])
        self.now += SLOT_SECONDS
        self.history.note(devices)
        self.history.close_slot(kit.snapshot(*devices, sources=sources))

    def power(self):
        """The device's power: last numbers, highest numbers, gaps."""
        series = self.history.past().devices["a"]["power_watts"]
        return _plain(series.last), _plain(series.highest), series.gaps


def _plain(numbers):
    return [None if math.isnan(number) else number for number in numbers]


def device(watts, **more):
    readings = () if watts is None else (kit.reading("power_watts", watts),)
    return kit.device(0, *readings, id="a", **more)


def test_a_slot_has_the_last_and_the_highest_number():
    life = Life()
    life.slot(device(10.0), noted=[device(50.0), device(20.0)])
    life.slot(device(30.0))
    assert life.power() == ([10.0, 30.0], [50.0, 30.0], ())


@pytest.mark.parametrize(
    ("gap", "sources", "reason"),
    [
        ([device(Absent.NOT_PERMITTED)], (), "not_permitted"),
        ([device(None, up=False)], (), "lost"),
        ([device(None)], (kit.source("nvml", state="failed", reason="timeout"),), "nvml: timeout"),
        ([], (kit.source("nvml", state="stuck", reason=None),), "nvml: stuck"),
        ([device(None)], (kit.source("nvml"),), "no source gives it"),
    ],
)
def test_a_gap_has_its_reason(gap, sources, reason):
    life = Life()
    life.slot(device(10.0))
    life.slot(*gap, sources=sources)
    life.slot(device(20.0))
    assert life.power() == ([10.0, None, 20.0], [10.0, None, 20.0], (Gap(1, 1, reason),))


@pytest.mark.parametrize(("slept", "reason"), [(0.0, "daemon was held up"), (60.0, "machine slept")])
def test_slots_that_nobody_closed_are_a_gap(slept, reason):
    life = Life()
    life.slot(device(10.0))
    life.now, life.slept = life.now + 3 * SLOT_SECONDS, slept
    life.slot(device(10.0))
    assert life.power() == ([10.0, None, None, None, 10.0], [10.0, None, None, None, 10.0], (Gap(1, 3, reason),))


def test_a_device_that_came_later_was_not_seen_before():
    life = Life()
    life.slot()
    life.slot(device(10.0))
    assert life.power() == ([None, 10.0], [None, 10.0], (Gap(0, 1, "not seen yet"),))


def test_the_oldest_slots_go():
    life = Life()
    for number in range(SLOTS + 10):
        life.slot(device(float(number)))
    last, _, gaps = life.power()
    assert (last, gaps) == ([float(number) for number in range(10, SLOTS + 10)], ())


def test_slots_since_a_moment():
    life = Life()
    for number in range(5):
        life.slot(device(float(number)))
    past = life.history.past(first=life.history.slot_of_time(1.7e9 + life.now - 2 * SLOT_SECONDS))
    assert past.start == pytest.approx(1.7e9 + life.now - 2 * SLOT_SECONDS)
    assert _plain(past.devices["a"]["power_watts"].last) == [3.0, 4.0]


def test_what_was_forgotten_is_gone():
    life = Life()
    life.slot(device(10.0))
    life.history.forget("a")
    assert life.history.past().devices == {}


def test_the_newest_events_are_kept():
    life = Life()
    for number in range(300):
        life.history.event(PastEvent(1.7e9 + life.now, "a", f"xid_{number}"))
    codes = [event.code for event in life.history.past().events]
    assert (len(codes), codes[-1]) == (256, "xid_299")
