"""The last half hour: each slot has the numbers seen in it, or the reason of the gap."""

import math
from dataclasses import replace

import pytest

from kits import snapshots as kit
from kits.fed_node import OK, FedNode
from state.clocked_store import CARDS, FAST
from state.past_lives import live
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.history import MAX_DEVICES, STORED_SLOTS, History
from telemetry_parsers.model import Absent, Capture, Device, Event, Reading, Report
from telemetry_parsers.past import SLOT_SECONDS, SLOTS, Gap, PastEvent

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 60))]
CARD = "0000:33:00.0"


@pytest.mark.parametrize("is_scraped", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_history_matches_observations(seed: int, *, is_scraped: bool) -> None:
    live(seed, 80, is_scraped=is_scraped)


class Node(FedNode):
    def __init__(self, now: float = 100.0) -> None:
        super().__init__([SourceFacts("tool", "nvidia", ())], now=now, wall_at_start=1e9)
        self.history = History(self.clock)
        self.store = self.new_store(history=self.history)

    def put(self, report=CARDS, result=OK, poll=FAST):
        self.ingest("tool", report, poll, result)

    def slots(self, count=1):
        for _ in range(count):
            self.now += SLOT_SECONDS
            self.history.end_slots(self.store.snapshot)

    def power(self, card=CARD, **chosen):
        """Return a card's power: last numbers, highest numbers, gaps."""
        series = self.history.past(**chosen).devices[card]["power_watts"]
        return _plain(series.last), _plain(series.highest), series.gaps


def _plain(numbers):
    return [None if math.isnan(number) else number for number in numbers]


def watts(value, **more):
    return Report(devices=(Device("nvidia", 0, bus_id=CARD, **more),), readings=(Reading(0, "power_watts", value),))


REASONS = {
    "not_permitted": lambda node: node.put(watts(Absent.NOT_PERMITTED)),
    "tool: timeout": lambda node: node.put(None, PollResult("failed", "timeout", "")),
    "tool: driver gone": lambda node: node.put(None, PollResult("failed", "driver_gone", "")),
    "tool: stuck": lambda node: node.put(None, PollResult("stuck")),
    "tool: missing": lambda node: node.put(None, PollResult("missing")),
    "tool: released": lambda node: node.put(None, PollResult("released")),
    "tool: expired": lambda node: None,
    "tool: removed": lambda node: node.store.remove_source("tool"),
    "no source gives it": lambda node: node.put(replace(watts(1.0), readings=())),
    "lost": lambda node: node.put(Report(devices=(Device("nvidia", 1, bus_id="0000:53:00.0"),))),
    "asleep": lambda node: node.put(replace(watts(1.0), readings=(Reading(0, "suspended", 1.0),))),
}


@pytest.mark.parametrize("reason", REASONS)
def test_gap_has_its_reason(reason: str) -> None:
    node = Node()
    node.put(watts(10.0))
    node.slots()
    for _ in range(4):
        REASONS[reason](node)
        node.slots()
    last, _, gaps = node.power()
    assert (last[0], last[-1]) == (10.0, None)
    assert [gap.reason for gap in gaps] == [reason]


def test_past_failure_is_the_reason_of_its_gap():
    node = Node()
    node.put(watts(10.0))
    node.slots()
    node.put(None, PollResult("failed", "timeout", ""))
    node.slots(2)
    node.now += SLOT_SECONDS  # the poll is ingested before the first check
    node.put(watts(20.0))
    node.slots()
    assert node.power() == ([10.0, 10.0, None, None, 20.0],) * 2 + ((Gap(2, 2, "tool: timeout"),),)


def test_suspension_clears_the_history():
    node = Node()
    node.put(watts(10.0))
    node.slots(3)
    node.slept += 8 * 3600.0
    node.put(watts(20.0))
    node.slots()
    last, _, gaps = node.power()
    assert last == [None] * (SLOTS - 1) + [20.0]
    assert gaps == (Gap(0, SLOTS - 1, "machine slept"),)
    assert node.history.past().start == node.wall - SLOTS * SLOT_SECONDS


def test_slots_and_events_follow_the_wall_clock():
    node = Node()
    node.put(replace(watts(10.0), events=(Event(0, "xid_79", "fell off the bus"),)))
    node.slots(2)
    before = node.history.past()
    node.wall_at_start += 3600.0
    after = node.history.past()
    assert (after.start, after.slots) == (before.start + 3600.0, before.slots)
    assert after.events == tuple(replace(event, wall_time=event.wall_time + 3600.0) for event in before.events)
    assert node.history.past(first=node.history.slot_number_at(node.wall - SLOT_SECONDS)).slots == 1


def test_a_simulated_past_may_begin_before_the_boot():
    node = Node(now=-100.0)
    node.put(watts(10.0))
    node.slots(2)
    assert node.power()[0] == [10.0] * 2


def test_reused_slots_have_no_old_gap():
    node = Node()
    for number in range(STORED_SLOTS + SLOTS // 2):
        node.put(watts(Absent.NOT_SUPPORTED if 3 < number < 9 else 1.0))
        node.slots()
    assert node.power() == ([1.0] * SLOTS, [1.0] * SLOTS, ())


def test_slow_reader_gets_its_slots_for_a_minute():
    node = Node()
    for _ in range(SLOTS):
        node.put(watts(10.0))
        node.slots()
    first = node.history.past((), ()).first
    node.slots(STORED_SLOTS - SLOTS)
    assert node.power(first=first, end=first + SLOTS) == ([10.0] * SLOTS, [10.0] * SLOTS, ())
    node.slots(2)
    assert node.power(first=first, end=first + SLOTS)[2] == (Gap(0, 2, "no longer kept"),)


def test_history_survives_a_change_of_source():
    node = Node()
    node.store.add_source(SourceFacts("other", "nvidia", ("power_watts",)))
    node.put(watts(10.0, uuid="GPU-1"))
    node.slots()
    node.put(None, PollResult("failed", "timeout", ""))
    capture = Capture("other", FAST.name, FAST.request, wall_time=1e9, monotonic_time=node.now)
    node.store.put("other", FAST, capture, watts(20.0, uuid="GPU-1"), OK, FAST.interval)
    node.slots()
    (series,) = (lines["power_watts"] for lines in node.history.past().devices.values())
    assert (_plain(series.last), series.gaps) == ([10.0, 20.0], ())


def test_forgotten_device_has_no_history():
    node = Node()
    node.put(replace(CARDS, events=(Event(0, "xid_79"), Event(1, "xid_48"))))
    node.slots()
    node.put(replace(CARDS, devices=CARDS.devices[1:], readings=()))
    assert node.store.forget(lambda _: True) == (CARD,)
    past = node.history.past()
    assert (list(past.devices), [event.code for event in past.events]) == (["0000:53:00.0"], ["xid_48"])


def test_loss_and_return_are_events():
    node = Node()
    node.put()
    node.put(replace(CARDS, devices=CARDS.devices[1:], readings=()))
    node.put(replace(CARDS, readings=(Reading(0, "throttled", 1.0, "sw_thermal"),)))
    assert [(event.id, event.code) for event in node.history.past().events] == [(CARD, "lost"), (CARD, "returned")]


def test_ongoing_event_is_kept_at_its_start():
    node = Node()
    for _ in range(3):
        node.put(replace(CARDS, events=(Event(0, "code_7", "too hot", is_ongoing=True),)))
    assert node.history.past().events == (PastEvent(1e9 + 100.0, CARD, "code_7", "too hot"),)


def test_newest_events_are_kept():
    node = Node()
    for number in range(300):
        node.history.add_event(PastEvent(node.wall, "a", f"xid_{number}"))
    codes = [event.code for event in node.history.past().events]
    assert (len(codes), codes[-1]) == (256, "xid_299")


def test_number_of_devices_is_bounded():
    history_of = Node().history
    shown = [kit.device(number, kit.reading("power_watts", 1.0)) for number in range(MAX_DEVICES + 1)]
    history_of.update(shown, {}, math.inf)
    assert history_of.ids() == tuple(device.id for device in shown[:-1])
    node = Node()
    node.history.update(shown, {}, math.inf)
    for _ in range(SLOTS + 2):
        node.now += SLOT_SECONDS
        node.history.update(shown[1:], {}, math.inf)
    assert shown[0].id not in node.history.ids()
    assert shown[-1].id in node.history.ids()
