"""Links that were up and are down are an event for as long as they are down."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kits.snapshots import snapshot
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_exporters.judgement.verdict import judge
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Value

UP, DOWN = 1.0, 0.0
NOON = 1_800_000_000.0
BOTH_UP: Mapping[str, Value] = {"0": UP, "1": UP}
ONE_DOWN: Mapping[str, Value] = {"0": UP, "1": DOWN}
GONE: Mapping[str, Value] = {}


class Node:
    """One card whose links are polled every ten seconds, and its daemon."""

    def __init__(self) -> None:
        self.accumulator = Accumulator()
        self.now = 100.0
        self.card = MergedDevice("nvidia", 0, "GPU-a", "0", "H100")

    def see(self, *answers: Mapping[str, Value], is_new: bool = True) -> Node:
        """Ingest the card with these links, one answer after another."""
        for links in answers:
            self.now += 10.0 * is_new
            readings = [MergedReading("link_up", label, value, "nvml", self.now) for label, value in links.items()]
            readings.append(MergedReading("power_watts", "", 100.0, "nvml", self.now))
            self.card = MergedDevice("nvidia", 0, "GPU-a", "0", "H100", readings=tuple(readings))
            self.accumulator.integrate([self.card])
            self.accumulator.check_links([self.card], NOON + self.now)
        return self

    def values(self, metric: str = "event_open") -> dict[str, Value]:
        (shown,) = self.accumulator.with_counters([self.card])
        return {reading.label: reading.value for reading in shown.readings if reading.metric == metric}

    def condition(self) -> str:
        return judge(snapshot(*self.accumulator.with_counters([self.card])))["GPU-a"][0].word


@pytest.mark.parametrize(
    ("answers", "is_missed"),
    [
        ((BOTH_UP, BOTH_UP, ONE_DOWN), True),
        ((BOTH_UP, BOTH_UP, {"0": DOWN, "1": DOWN}), True),
        ((BOTH_UP, BOTH_UP, ONE_DOWN, BOTH_UP), False),
        ((BOTH_UP, BOTH_UP, ONE_DOWN, BOTH_UP, ONE_DOWN), True),
        ((ONE_DOWN, ONE_DOWN, ONE_DOWN), False),  # never connected, as far as the daemon knows
        ((BOTH_UP, ONE_DOWN), False),  # one answer may be wrong
        ((BOTH_UP, BOTH_UP, {"0": UP, "1": Absent.NOT_REPORTED}), False),
        ((BOTH_UP, BOTH_UP, ONE_DOWN, {"0": UP, "1": Absent.NOT_REPORTED}), True),
        ((BOTH_UP, BOTH_UP, ONE_DOWN, GONE), True),
        ((BOTH_UP, BOTH_UP, GONE, ONE_DOWN), True),
    ],
)
def test_link_is_missing_until_it_is_up_again(answers, is_missed):
    assert Node().see(*answers).values() == ({"link_down": 1.0} if is_missed else {})


def test_repeated_answer_counts_once():
    node = Node().see(BOTH_UP)
    node.see(BOTH_UP, BOTH_UP, is_new=False)
    assert node.see(ONE_DOWN).values() == {}


def test_each_loss_of_links_is_counted_with_its_time():
    node = Node().see(BOTH_UP, BOTH_UP, ONE_DOWN, ONE_DOWN)
    assert node.values("events_total") == {"link_down": 1.0}
    assert node.values("event_last_timestamp_seconds") == {"link_down": NOON + 130.0}
    assert node.see(BOTH_UP, ONE_DOWN).values("events_total") == {"link_down": 2.0}


def test_condition_names_the_number_of_links():
    node = Node().see(BOTH_UP, BOTH_UP)
    assert node.condition() == "ok"
    assert node.see(ONE_DOWN).condition() == "1 link down"
    assert node.see({"0": DOWN, "1": DOWN}).condition() == "2 links down"
    assert node.see(GONE).condition() == "links down"
    assert node.see(BOTH_UP).condition() == "ok"


def test_removed_links_are_forgotten_with_the_events():
    node = Node().see(BOTH_UP, BOTH_UP, ONE_DOWN)
    assert node.accumulator.close_events("GPU-a") == ("link_down",)
    assert node.see(ONE_DOWN, ONE_DOWN).values() == {}
    assert node.accumulator.close_events("GPU-a") == ()


def test_forgotten_card_starts_again():
    node = Node().see(BOTH_UP, BOTH_UP)
    node.accumulator.forget("GPU-a")
    assert node.see(ONE_DOWN).values() == {}
