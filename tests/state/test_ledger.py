"""The owners' use of cards: every rule of the ledger by example; all shares add up to the machine's total."""

import gc
import math
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.billed_node import START, Node, by_name, has, job, pod
from telemetry_daemon.state.ledger import MAX_WAITING
from telemetry_parsers.job_record import Gap, RecordedTime
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Claim
from telemetry_parsers.past import PastEvent


def after(seconds, *owners):
    """Return a node whose card these owners have had for this time."""
    node = Node()
    node.gives(*owners)
    node.runs(seconds)
    return node


def test_job_has_readings_between_its_start_and_end():
    node = Node()
    node.runs(20)
    node.gives(has(job("7"), started=START + 21))
    node.runs(100)
    node.claims = (Claim(job("7"), ended=START + 119),)
    records = by_name(node.ends())
    seven = records["7"]
    assert (seven.start, seven.end) == (RecordedTime(START + 21, "hook"), RecordedTime(START + 119, "hook"))
    assert (seven.seconds, seven.measured_seconds) == (98.0, 98.0)
    assert seven.busy_seconds == pytest.approx(49.0)
    assert seven.energy_joules == pytest.approx(9800.0)
    assert (seven.owner.job_name, seven.owner.user, seven.owner.account) == ("train 7B", "u1042", "physics")
    assert (seven.hostname, seven.gaps) == ("node-1", ())
    (card,) = seven.cards
    facts = (card.id, card.vendor, card.model, card.basis, card.is_allocated)
    assert facts == ("GPU-a", "nvidia", "H100", ("whole",), True)
    assert records["nobody"].seconds == pytest.approx(node.now - 2.0 - 98.0)
    assert records["nobody"].energy_joules == pytest.approx((node.now - 2.0 - 98.0) * 100.0)


@pytest.mark.parametrize(
    ("started", "is_allocated", "start", "seconds"),
    [
        pytest.param(START + 31.5, True, RecordedTime(START + 31.5, "hook"), 18.5, id="the hook's time"),
        pytest.param(START + 31.5, False, RecordedTime(START + 31.5, "process"), 18.5, id="the first process's time"),
        pytest.param(None, True, RecordedTime(START + 32, "seen"), 18.0, id="when it was seen"),
        pytest.param(
            START + 9_999, True, RecordedTime(START + 32, "seen"), 18.0, id="a time that is yet to come is none"
        ),
        pytest.param(math.nan, True, RecordedTime(START + 32, "seen"), 18.0, id="no number is none"),
    ],
)
def test_origin_of_the_start(started, is_allocated, start, seconds):
    node = Node()
    node.runs(30)
    node.gives(has(job("7"), started=started, is_allocated=is_allocated))
    node.runs(20)
    record = by_name(node.ends())["7"]
    assert record.start == start
    assert record.seconds == pytest.approx(seconds)
    assert record.end == RecordedTime(START + 50, "seen")


def test_owner_at_the_first_poll_starts_with_the_daemon():
    node = after(20, has(pod("a")))
    assert by_name(node.ends())["ml/a/main"].start == RecordedTime(START + 2, "daemon_start")


def test_time_before_the_daemon_is_a_gap():
    node = after(20, has(job("7"), started=START - 1000))
    record = by_name(node.ends())["7"]
    assert record.start == RecordedTime(START - 1000, "hook")
    assert record.seconds == pytest.approx(18.0)
    assert record.gaps == (Gap(START - 1000, START + 2, 1002.0),)


def test_time_between_samples_is_divided_at_the_change():
    node = Node(power=0.0)
    node.runs(20)
    node.power = 400.0
    node.gives(has(job("8"), started=START + 21))
    node.runs(2)
    node.power = 400.0
    records = by_name(node.ends())
    # From 0 to 400 W in two seconds: 100 J in the first, 300 J in the second.
    assert records["8"].energy_joules == pytest.approx(300.0)
    assert records["nobody"].energy_joules == pytest.approx(100.0)


def test_consecutive_jobs_on_a_card():
    node = after(20, has(job("1"), started=START))
    node.gives(has(job("2"), started=START + 20.5))
    node.claims = (Claim(job("1"), ended=START + 20.25),)
    node.runs(20)
    records = by_name(node.ends())
    assert records["1"].end == RecordedTime(START + 20.25, "hook")
    assert (records["1"].seconds, records["2"].seconds) == (pytest.approx(18.25), pytest.approx(19.5))
    assert records["nobody"].seconds == pytest.approx(0.25)


def test_shares_divide_time_and_energy():
    node = after(42, has(job("1"), 0.25), has(job("2"), 0.5))
    records = by_name(node.ends())
    assert [records[name].seconds for name in ("1", "2", "nobody")] == pytest.approx([10.0, 20.0, 10.0])
    assert [records[name].energy_joules for name in ("1", "2", "nobody")] == pytest.approx([1000.0, 2000.0, 1000.0])
    assert records["1"].cards[0].basis == ("equal",)


def test_means_and_peaks_are_of_the_owners_time():
    node = Node(more={"memory_used_bytes": 1e9, "temperature_celsius": 90.0})
    node.runs(30)
    node.power, node.more = 300.0, {"memory_used_bytes": 5e9, "temperature_celsius": 50.0}
    node.gives(has(job("7"), memory=2e9))
    node.runs(10)
    node.gives(has(job("7"), memory=4e9))
    node.runs(10)
    node.power = 100.0
    readings = (card := by_name(node.ends())["7"].cards[0]).readings
    assert readings["temperature_celsius"].peak == 50.0
    assert readings["power_watts"].peak == 300.0
    assert readings["memory_used_bytes"].mean == pytest.approx(5e9)
    assert readings["utilization_ratio"].seconds == pytest.approx(card.measured_seconds)
    assert card.memory_peak_bytes == 4e9


def test_unmeasured_values_are_none():
    node = Node()
    node.gives(has(job("7")))
    for _ in range(10):
        node.now += 2.0
        node.see([MergedDevice("nvidia", 0, "GPU-a", "a", "H100", allocations=node.owners["GPU-a"])])
    node.owners.clear()
    node.see([MergedDevice("nvidia", 0, "GPU-a", "a", "H100")])
    node.ledger.close()
    (record,) = node.ledger.take_completed()
    assert (record.seconds, record.measured_seconds) == (18.0, 0.0)
    assert (record.busy_seconds, record.energy_joules, record.throttled_seconds) == (None, None, None)
    assert record.cards[0].readings == {}


def test_missing_samples_are_not_bridged():
    node = after(10, has(job("7")))
    node.now += 30.0
    node.runs(10)
    record = by_name(node.ends())["7"]
    assert record.seconds == pytest.approx(48.0)
    assert record.measured_seconds == pytest.approx(16.0)


def test_events_and_throttling_belong_to_the_owner():
    node = Node(more={"throttled": 1.0})
    node.gives(has(job("7")))
    node.runs(10)
    node.ledger.add_event(PastEvent(node.wall - 1.0, "GPU-a", "xid_79"))
    node.ledger.add_event(PastEvent(node.wall, "GPU-unknown", "xid_79"))
    node.runs(10)
    record = by_name(node.ends())["7"]
    assert record.cards[0].events == {"xid_79": 1}
    assert record.throttled_seconds == pytest.approx(record.measured_seconds)


def test_counters_end_with_their_owner():
    node = after(12, has(job("7")))
    found = node.ledger.update_totals_by_owner("GPU-a")[("job", "7")]
    assert (found.seconds, found.busy_seconds, found.energy_joules) == (10.0, 5.0, pytest.approx(1000.0))
    device = node.ledger.with_totals(node.device("GPU-a"))
    assert device.allocations[0].seconds_total == 10.0
    node.gives()
    node.runs(2)
    assert node.ledger.update_totals_by_owner("GPU-a") == {}
    assert node.ledger.update_totals_by_owner("GPU-unknown") == {}


def test_requeued_job_has_its_own_record():
    node = after(20, has(job("7"), started=START))
    node.gives(has(job("7"), started=START + 19))
    node.runs(20)
    first, second, _ = node.ends()
    assert (first.start.time, second.start.time) == (START, START + 19)
    assert first.end == RecordedTime(START + 19, "seen")
    assert first.id != second.id
    assert (first.seconds, second.seconds) == (pytest.approx(17.0), pytest.approx(21.0))


def test_short_failure_of_a_source_ends_no_owner():
    node = after(20, has(pod("a")))
    node.gives()
    node.runs(10)
    node.gives(has(pod("a")))
    node.runs(20)
    records = by_name(node.ends())
    assert len(records) == 2
    assert records["ml/a/main"].seconds == pytest.approx(38.0)
    assert records["ml/a/main"].gaps == (Gap(START + 22, START + 32, 10.0),)


def test_missing_owner_ended_when_last_seen():
    node = after(20, has(pod("a")))
    node.gives()
    node.runs(70)
    (record,) = node.records
    assert record.end == RecordedTime(START + 22, "seen")


def test_lost_card_has_no_owner():
    node = Node(cards=("GPU-a", "GPU-b"))
    node.runs(10)
    node.cards = ("GPU-a",)
    node.runs(100)
    node.cards = ("GPU-a", "GPU-b")
    node.runs(10)
    assert by_name(node.ends())["nobody"].seconds == pytest.approx(node.now - 2.0 + 8.0 + 10.0 - 2.0)


def test_forgotten_card_stays_in_the_records():
    node = Node(cards=("GPU-a", "GPU-b"))
    for card in node.cards:
        node.gives(has(job("7")), card=card)
    node.runs(20)
    node.cards = ("GPU-a",)
    node.runs(2)
    node.accumulator.forget("GPU-b")
    node.runs(20)
    record = by_name(node.ends())["7"]
    assert [(card.id, round(card.seconds)) for card in record.cards] == [("GPU-a", 40), ("GPU-b", 18)]
    assert record.energy_joules == pytest.approx(5800.0)


def test_unallocated_use_is_recorded_daily():
    node = Node(interval=900.0)
    node.runs(2 * 86_400.0 + 3600.0, step=900.0)
    assert [record.owner.kind for record in node.records] == ["nobody", "nobody"]
    patience = 1800.0  # readings of slow polls may still arrive
    assert [record.seconds for record in node.records] == pytest.approx([86_400.0 - patience, 86_400.0])
    assert node.records[1].start == node.records[0].end == RecordedTime(START + 900 + 86_400 - patience, "day")


def test_empty_ledger_is_not_saved():
    assert Node().ledger.state_to_save() is None


def test_restart_continues_with_a_gap():
    node = after(100, has(job("7"), started=START))
    node = node.restarted(30.0)
    node.poll()
    node.runs(100)
    assert node.ledger.update_totals_by_owner("GPU-a")[("job", "7")].seconds == pytest.approx(100.0)
    record = by_name(node.ends())["7"]
    assert record.start == RecordedTime(START, "hook")
    assert record.seconds == pytest.approx(98.0 + 100.0)
    assert record.gaps == (Gap(START, START + 2, 2.0), Gap(START + 100, START + 130, 30.0)) or record.gaps == (
        Gap(START + 100, START + 130, 30.0),
    )
    assert record.energy_joules == pytest.approx(19_800.0)


def test_owner_that_ended_without_a_daemon_ends_at_its_start():
    node = after(100, has(pod("a")))
    node = node.restarted(30.0, owners={})
    node.poll()
    node.runs(70)
    (record,) = node.records
    assert record.end == RecordedTime(START + 130, "daemon_start")
    assert record.gaps == (Gap(START + 100, START + 130, 30.0),)


def test_hook_reports_an_end_without_a_daemon():
    node = after(100, has(job("7"), started=START))
    node = node.restarted(30.0, owners={}, claims=(Claim(job("7"), ended=START + 110),))
    node.poll()
    node.runs(70)
    (record,) = node.records
    assert record.end == RecordedTime(START + 110, "hook")
    assert record.gaps[-1] == Gap(START + 100, START + 110, 10.0)


def test_reboot_ends_all_owners():
    node = after(100, has(job("7"), started=START))
    node = node.restarted(-50.0, boot="boot-2", wall_ahead=START + 400.0)
    node.poll()
    node.runs(100)
    records = node.ends()
    assert [(record.owner.name, record.end is not None) for record in records] == [
        ("7", True),
        ("7", True),
        ("", False),
    ]
    assert records[0].end == RecordedTime(START + 450, "daemon_start")


def test_backward_clock_at_a_restart_changes_no_sum():
    node = after(100, has(job("7"), started=START))
    node = node.restarted(30.0, wall_ahead=START - 5000.0)
    node.poll()
    node.runs(100)
    record = by_name(node.ends())["7"]
    assert record.seconds == pytest.approx(198.0)
    assert record.gaps[-1].seconds == pytest.approx(30.0)


def test_job_changes_leave_nothing_behind():
    node = Node()

    def change(first: int) -> None:
        for number in range(first, first + 30):
            node.gives(has(job(str(number)), started=node.wall))
            node.runs(4)
        node.gives()
        node.runs(70)
        assert len(node.kept().jobs) == 1
        assert len(node.records) == 30
        node.records.clear()
        gc.collect()

    change(0)
    tracemalloc.start()
    change(30)
    change(60)
    held = tracemalloc.get_traced_memory()[0]
    change(90)
    grown = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    assert grown < 6_000


def test_waiting_records_are_bounded():
    node = Node()
    for number in range(MAX_WAITING + 50):
        node.gives(has(job(str(number))))
        node.now += 0.1
        node.poll()
    assert len(node.kept().jobs) <= MAX_WAITING + 3


POLLS = st.lists(
    st.tuples(
        st.sampled_from(["", "", "7", "8", "7 8", "lost", "restart"]),
        st.sampled_from([2.0, 10.0, 130.0, 43_300.0]),
        st.floats(0.0, 1.9),
    ),
    min_size=1,
    max_size=12,
)


@given(POLLS)
@settings(max_examples=40)
def test_measured_time_adds_up_for_any_owners(polls):
    node, counted, seen_until = Node(), 0.0, None
    for event, seconds, lag in polls:
        node.now, node.lag, node.interval = node.now + 2.0, lag, 2.0 if seconds < 1000.0 else 900.0
        if event == "lost":
            node.see([replace(node.device("GPU-a"), up=False, readings=(), allocations=())])
            seen_until = None
            continue
        if event == "restart":
            node, seen_until = node.restarted(5.0), None
        owners = event.split() if event != "restart" else []
        node.gives(*(has(job(name), 0.9 / len(owners), is_allocated=False) for name in owners))
        node.poll()
        begin = node.now if seen_until is None else seen_until
        node.runs(seconds, node.interval)
        counted += node.now - begin
        seen_until = node.now
    cards = [card for record in node.ends() for card in record.cards]
    assert sum(card.seconds for card in cards) == pytest.approx(counted)
    for card in cards:
        assert card.measured_seconds <= card.seconds + 1e-6
        assert all(course.seconds <= card.seconds + 1e-6 for course in card.readings.values())
