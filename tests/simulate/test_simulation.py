"""The simulation of a card: its readings are consistent for hours and during every fault."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest

from simulate.fast_motion import WALL_MINUS_MONOTONIC, FastMotion, by_device
from telemetry_daemon.simulate.simulation import SOME_FAULTS, FaultRates
from telemetry_parsers.model import Absent
from telemetry_parsers.vendors import VENDOR_WORDS, VENDORS

HOUR = 3600.0
DEMOS = {vendor.word: vendor.demo for vendor in VENDORS}
# A vendor with many readings, and one with few.
of_vendors = pytest.mark.parametrize(
    "vendor",
    [pytest.param(word, marks=() if word in ("nvidia", "hygon") else pytest.mark.long) for word in VENDOR_WORDS],
)


@of_vendors
def test_readings_are_consistent_over_hours(vendor):
    motion = FastMotion(vendor, faults=SOME_FAULTS)
    model = DEMOS[vendor].card
    polls = 0
    for report in motion.reports(HOUR, every=20.0):
        polls += 1
        for values in by_device(report).values():
            numbers = {name: value for name, value in values.items() if isinstance(value, float)}
            assert Absent.IMPLAUSIBLE not in values.values()
            assert 0.85 * model.idle_watts <= numbers["power_watts"] <= model.cap_watts
            assert 0.0 <= numbers["utilization_ratio"] <= 1.0
            assert 0.0 < numbers["memory_used_bytes"] <= numbers["memory_total_bytes"]
            assert all(
                18.0 <= value <= 125.0 for name, value in numbers.items() if name.startswith("temperature_celsius")
            )
            if "memory_free_bytes" in numbers:
                parts = ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")
                assert sum(numbers.get(part, 0.0) for part in parts) == numbers["memory_total_bytes"]
    assert polls > 150


@of_vendors
def test_heat_and_memory_follow_the_load(vendor):
    motion = FastMotion(vendor)
    model = DEMOS[vendor].card
    seen = [values for report in motion.reports(4 * HOUR, every=90.0) for values in by_device(report).values()]
    loads = [values["utilization_ratio"] for values in seen]
    assert sum(load > 0.1 for load in loads) > 0.2 * len(loads)
    assert 0.0 in loads
    sensor = f"temperature_celsius:{DEMOS[vendor].sensors[0]}"
    hot = [values[sensor] for values in seen if values["power_watts"] > 0.7 * model.cap_watts]
    cold = [values[sensor] for values in seen if values["power_watts"] < 0.45 * model.cap_watts]
    assert mean(hot) > mean(cold) + 8.0
    assert len({values["memory_used_bytes"] for values in seen}) >= 5
    soon = [by_device(report)[0] for report in motion.reports(600.0, every=1.0)]
    assert max(abs(then[sensor] - now[sensor]) for then, now in pairwise(soon)) <= 4.0
    assert sum(then["memory_used_bytes"] != now["memory_used_bytes"] for then, now in pairwise(soon)) < 0.05 * len(soon)


@of_vendors
def test_course_depends_on_the_seed_only(vendor):
    often, once = FastMotion(vendor, faults=SOME_FAULTS), FastMotion(vendor, faults=SOME_FAULTS)
    for _ in often.reports(600.0, every=1.7):
        pass
    once.now = often.now
    assert [often.report(poll).readings for poll in often.polls] == [once.report(poll).readings for poll in once.polls]


def test_seeds_differ_in_course_and_identities():
    first, second = FastMotion("nvidia", seed=1), FastMotion("nvidia", seed=2)
    first.now = second.now = first.now + HOUR
    assert first.report().readings != second.report().readings
    assert not {device.uuid for device in first.report().devices} & {device.uuid for device in second.report().devices}


def test_energy_is_the_integral_of_power():
    motion = FastMotion("nvidia")
    before = by_device(motion.report())
    joules = dict.fromkeys(before, 0.0)
    for report in motion.reports(HOUR / 8, every=1.0):
        after = by_device(report)
        for index in joules:
            joules[index] += after[index]["power_watts"]
    for index, total in joules.items():
        counted = after[index]["energy_joules_total"] - before[index]["energy_joules_total"]
        assert counted == pytest.approx(total, rel=1e-3)


def test_heat_throttles_until_the_card_is_cool():
    motion = FastMotion("nvidia", 4, faults=FaultRates(hot_spells=6.0))
    seen = [values for report in motion.reports(HOUR, every=5.0) for values in by_device(report).values()]
    hot = [values for values in seen if values["throttled:sw_thermal"]]
    assert hot
    assert min(values["temperature_celsius:core"] for values in hot) >= 87.0 - 4.0 - 1.0
    assert max(values["temperature_celsius:core"] for values in seen) < 100.0
    assert not hot[-1]["throttled:sw_power_cap"]
    assert sum(values["throttled:sw_thermal"] for values in seen) < len(seen) / 2, "it never cools"


def test_counters_never_decrease():
    motion = FastMotion("nvidia", faults=FaultRates(events=1.0, corrected_errors=20.0, uncorrected_errors=2.0))
    before: dict[tuple[int, str], float] = {}
    for report in motion.reports(HOUR, every=20.0, poll="slow"):
        for index, values in by_device(report).items():
            for name, value in values.items():
                if "_total" in name:
                    assert value >= before.get((index, name), 0.0)
                    before[(index, name)] = value
    for counter in ("ecc_corrected_total:dram", "ecc_uncorrected_total:dram", "link_receive_bytes_total:all"):
        assert max(value for (_, name), value in before.items() if name == counter) > 0.0


def test_lost_card_returns_with_reset_counters():
    motion = FastMotion("nvidia", faults=FaultRates(lost_cards=9.0))
    counts, losses, returns = set(), 0, 0
    before = {index: values["energy_joules_total"] for index, values in by_device(motion.report()).items()}
    for report in motion.reports(HOUR, every=5.0):
        now = {index: values["energy_joules_total"] for index, values in by_device(report).items()}
        losses += len(before.keys() - now.keys())
        returns += len(now.keys() - before.keys())
        assert all(now[index] < 10_000.0 for index in now.keys() - before.keys())
        assert all(now[index] > before[index] for index in now.keys() & before.keys())
        counts.add(len(now))
        before = now
    assert counts == {3, 4}
    assert losses >= 3
    assert abs(losses - returns) <= 1


def test_start_has_all_cards_at_work_and_no_events():
    motion = FastMotion("nvidia", 8, faults=FaultRates(lost_cards=1000.0, events=1000.0, failed_polls=1000.0))
    report = motion.report()
    assert len(report.devices) == 8
    assert not report.events
    alone = FastMotion("nvidia", 1, faults=FaultRates(lost_cards=1000.0))
    assert {len(report.devices) for report in alone.reports(HOUR, every=10.0)} == {1}, "the only card is never lost"
    assert any(values["utilization_ratio"] > 0.0 for values in by_device(report).values())


def test_events_are_reported_once_and_precede_a_loss():
    motion = FastMotion("nvidia", faults=FaultRates(lost_cards=9.0, events=60.0))
    doomed, present, events = [], {device.index for device in motion.report().devices}, []
    for report in motion.reports(HOUR, every=2.0):
        events += report.events
        assert all(event.code in (*DEMOS["nvidia"].events, "xid_79") for event in report.events)
        assert all(motion.now - 3.0 <= event.wall_time - WALL_MINUS_MONOTONIC <= motion.now for event in report.events)
        doomed += [report.devices[event.device].index for event in report.events if event.code == "xid_79"]
        now = {device.index for device in report.devices}
        for index in present - now:
            assert doomed.pop() == index
        present = now
    assert not doomed
    assert 100 < len(events) < 350


def test_link_goes_down_and_up():
    motion = FastMotion("nvidia", faults=FaultRates(links_down=5.0))
    down = [
        sum(
            value == 0.0 for values in by_device(report).values() for name, value in values.items() if "link_up" in name
        )
        for report in motion.reports(HOUR, every=60.0, poll="slow")
    ]
    assert 0 in down
    assert max(down) > 0
    assert any(a > b for a, b in pairwise(down))


def test_source_fails_sometimes_and_recovers():
    motion = FastMotion("hygon", faults=FaultRates(failed_polls=20.0))
    failures = []
    for _ in range(1800):
        motion.now += 2.0
        capture = motion.capture()
        failures.append(capture.failure)
        if capture.failure is not None:
            assert (capture.failure.state, capture.failure.reason) == ("failed", "timeout")
            assert capture.outputs == ()
            assert capture.seconds == motion.polls["readings"].deadline
    failed = sum(failure is not None for failure in failures)
    assert 10 < failed < 200
    assert any(a is not None and b is None for a, b in pairwise(failures))


@of_vendors
def test_nothing_fails_without_faults(vendor):
    motion = FastMotion(vendor)
    reports = list(motion.reports(HOUR, every=40.0))
    assert len(reports) == 90, "no poll failed"
    assert all(len(report.devices) == 4 and not report.events for report in reports)


def test_long_pause_and_backward_clock_are_harmless():
    motion = FastMotion("nvidia")
    motion.now += 365 * 24 * HOUR
    before = motion.report()
    assert len(before.devices) == 4
    motion.now -= 50.0
    assert motion.report() == before


@of_vendors
def test_hung_card_is_busy_at_low_power(vendor):
    motion = FastMotion(vendor, faults=FaultRates(hung_jobs=1000.0))
    model = DEMOS[vendor].card
    hung = [
        values
        for report in motion.reports(HOUR / 2, every=60.0)
        for values in by_device(report).values()
        if values["utilization_ratio"] == 1.0 and values["power_watts"] < 0.4 * model.cap_watts
    ]
    assert len(hung) > 20
    above_idle = [values["power_watts"] - model.idle_watts for values in hung[5:]]
    assert max(above_idle) < 0.15 * (model.cap_watts - model.idle_watts)
    assert min(values["memory_used_bytes"] for values in hung) > 0.0
    assert {values.get("memory_activity_ratio", 0.0) for values in hung} == {0.0}


def test_cap_limits_power_and_slow_card_uses_less():
    motion = FastMotion("nvidia", 8, faults=FaultRates(slow_cards=0.1))
    seen = [values for report in motion.reports(3 * HOUR, every=60.0) for values in by_device(report).values()]
    busy = [row for row in seen if row["utilization_ratio"] > 0.93 and row["memory_activity_ratio"] > 0.5]
    slow = [row["power_watts"] for row in busy if row["clock_hertz:sm"] < 1.4e9]
    fast = [row["power_watts"] for row in busy if row["clock_hertz:sm"] > 1.8e9 and row["power_watts"] > 300.0]
    capped = [row["power_watts"] for row in seen if row["throttled:sw_power_cap"]]
    assert mean(capped) > 0.95 * DEMOS["nvidia"].card.cap_watts
    assert len(slow) > 10
    assert max(slow) < 0.7 * max(fast)
