"""The regular interval: no drift, no bunching, no catching up, whatever the wall clock does."""

import math
from datetime import datetime, timedelta, timezone

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.polling.trigger import MonotonicTrigger, phase_of, realign_jobs

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
INTERVALS = st.sampled_from([0.5, 2.0, 15.0, 60.0, 300.0])


class Monotonic:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def wait_of(interval: float, phase: float, monotonic: float, *, fired: bool) -> float:
    trigger = MonotonicTrigger(interval, phase, Monotonic(monotonic))
    return (trigger.get_next_fire_time(NOON if fired else None, NOON) - NOON).total_seconds()


@pytest.mark.parametrize(
    ("monotonic", "fired", "wait"),
    [
        pytest.param(900.0, False, 5.0, id="before the beat"),
        pytest.param(905.0, False, 15.0, id="on the beat the next one is meant"),
        pytest.param(919.0, False, 1.0, id="a first run waits for the very next beat"),
        pytest.param(905.0, True, 15.0, id="a run on its beat"),
        pytest.param(904.999, True, 15.001, id="a run a moment early was for the beat to come"),
        pytest.param(906.5, True, 13.5, id="a late run does not shift the beat"),
        pytest.param(900.0, True, 5.0, id="a run far from its beat, as after a step, waits for the next beat"),
        pytest.param(1_000_000.0, True, 10.0, id="missed beats are left out"),
    ],
)
def test_beats_of_15_seconds_with_phase_5(monotonic, fired, wait):
    assert wait_of(15.0, 5.0, monotonic, fired=fired) == pytest.approx(wait, abs=1e-5)


@pytest.mark.parametrize("interval", [0.0, -1.0, math.nan, math.inf])
def test_interval_must_be_positive(interval):
    with pytest.raises(ValueError, match="interval"):
        MonotonicTrigger(interval)


def test_trigger_is_readable_in_a_log():
    assert str(MonotonicTrigger(15.0)) == "every 15 s"


@given(INTERVALS, st.floats(0, 300), st.floats(0, 1e8), st.booleans())
def test_next_run_is_within_an_interval_and_a_quarter(interval, phase, monotonic, fired):
    wait = wait_of(interval, phase, monotonic, fired=fired)
    assert 0.0 < wait <= 1.25 * interval + 1e-5


@given(
    INTERVALS,
    st.lists(st.tuples(st.floats(0, 0.6), st.sampled_from([0.0, 0.0, 0.0, -3600.0, 30 * 86400.0])), max_size=30),
)
def test_lateness_and_steps_keep_the_beat(interval, runs):
    """Runs are late by a part of the interval; the wall clock is set and jobs are realigned in between."""
    clock, wall = Monotonic(), NOON
    trigger = MonotonicTrigger(interval, 0.0, clock)
    due = trigger.get_next_fire_time(None, wall)
    for late, step in runs:
        passed = (due - wall).total_seconds() + late * interval
        before = clock.now
        clock.now += passed
        wall += timedelta(seconds=passed)
        assert clock.now - before <= 2.0 * interval + 1e-3
        due = trigger.get_next_fire_time(due, wall)
        if step:
            wall += timedelta(seconds=step)
            due = trigger.get_next_fire_time(None, wall)
        beats = (clock.now + (due - wall).total_seconds()) / interval
        assert beats == pytest.approx(round(beats), abs=1e-4)


def test_phases_are_stable():
    assert phase_of("nvml", "readings", 2.0) == pytest.approx(0.24792, abs=5e-6)
    assert phase_of("nvml", "readings", 2.0) == phase_of("nvml", "readings", 1.0) * 2.0


@given(st.text(max_size=20), st.text(max_size=20), INTERVALS)
def test_phase_is_within_the_interval(source, poll, interval):
    assert 0.0 <= phase_of(source, poll, interval) < interval


def test_polls_do_not_bunch():
    phases = sorted(phase_of(f"source-{number}", "readings", 1.0) for number in range(64))
    assert max(sum(start <= phase < start + 0.1 for phase in phases) for start in phases) <= 16


@pytest.fixture
def scheduler():
    scheduler = BackgroundScheduler(timezone=timezone.utc)
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown(wait=True)


def test_realign_restores_the_beat(scheduler):
    hour_ahead = datetime.now(timezone.utc) + timedelta(hours=1)
    moved = scheduler.add_job(print, MonotonicTrigger(15.0), next_run_time=hour_ahead)
    paused = scheduler.add_job(print, MonotonicTrigger(15.0), next_run_time=None)
    realign_jobs(scheduler)
    assert moved.next_run_time < hour_ahead - timedelta(minutes=59)
    assert paused.next_run_time is None


def test_realign_before_the_start_changes_nothing():
    scheduler = BackgroundScheduler(timezone=timezone.utc)
    job = scheduler.add_job(print, MonotonicTrigger(15.0))
    realign_jobs(scheduler)
    assert job.pending
