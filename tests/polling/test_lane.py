"""The steady ticks of jobs: no drift, no bunching, no catching up; and what can be done to a job while it waits or runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.waiting import PATIENCE_SECONDS, comes_true
from telemetry_daemon.polling.lane import Lane, next_tick, spread

INTERVALS = st.sampled_from([0.5, 2.0, 15.0, 60.0, 300.0])
FOR_EVER = 1e6


@pytest.mark.parametrize(
    ("now", "has_run", "wait"),
    [
        pytest.param(900.0, False, 5.0, id="before the tick"),
        pytest.param(905.0, False, 15.0, id="on the tick the next one is meant"),
        pytest.param(919.0, False, 1.0, id="a first run waits for the very next tick"),
        pytest.param(905.0, True, 15.0, id="a run on its tick"),
        pytest.param(904.999, True, 15.001, id="a run a moment early was for the tick to come"),
        pytest.param(906.5, True, 13.5, id="a late run does not shift the ticks"),
        pytest.param(900.0, True, 5.0, id="a run far from its tick waits for the next tick"),
        pytest.param(1_000_000.0, True, 10.0, id="missed ticks are left out"),
    ],
)
def test_ticks_of_15_seconds_with_phase_5(now, has_run, wait):
    assert next_tick(now, 15.0, 5.0, has_run=has_run) - now == pytest.approx(wait, abs=1e-5)


@given(INTERVALS, st.floats(0, 300), st.floats(0, 1e8), st.booleans())
def test_the_next_run_is_always_ahead_and_at_most_an_interval_and_a_quarter(interval, phase, now, has_run):
    assert 0.0 < next_tick(now, interval, phase, has_run=has_run) - now <= 1.25 * interval + 1e-5


@given(INTERVALS, st.lists(st.floats(0, 0.6), max_size=30))
def test_no_lateness_shifts_the_ticks_or_misses_more_than_one(interval, runs):
    """Each run comes late by a share of the interval."""
    now, due = 1000.0, next_tick(1000.0, interval, has_run=False)
    for late in runs:
        before, now = now, due + late * interval
        assert now - before <= 2.0 * interval + 1e-3
        due = next_tick(now, interval)
        assert due / interval == pytest.approx(round(due / interval), abs=1e-4)


def test_phases_are_the_same_in_every_run():
    assert spread("nvml", "readings", 2.0) == pytest.approx(0.247923, abs=5e-6)
    assert spread("nvml", "readings", 2.0) == spread("nvml", "readings", 1.0) * 2.0


@given(st.text(max_size=20), st.text(max_size=20), INTERVALS)
def test_a_phase_lies_within_the_interval(source, poll, interval):
    assert 0.0 <= spread(source, poll, interval) < interval


def test_polls_do_not_bunch():
    phases = sorted(spread(f"source-{number}", "readings", 1.0) for number in range(64))
    assert max(sum(start <= phase < start + 0.1 for phase in phases) for start in phases) <= 16


class Work:
    """A job that waits to be let through, and a lane that runs it, on a clock that is put forward."""

    def __init__(self) -> None:
        self.now = 0.0
        self.overruns: list[str] = []
        self.runs = 0
        self.begun, self.let = threading.Semaphore(0), threading.Semaphore(0)
        self.lane = Lane("nvml", lambda: self.now, self.overruns.append)

    def run(self) -> None:
        self.runs += 1
        self.begun.release()
        assert self.let.acquire(timeout=PATIENCE_SECONDS)

    def begins(self) -> bool:
        return self.begun.acquire(timeout=PATIENCE_SECONDS)

    def ends(self) -> bool:
        """Let the run end, and see the lane do something else after it."""
        self.let.release()
        after = threading.Event()
        self.lane.add("after", after.set, FOR_EVER, delay=-FOR_EVER)
        return after.wait(PATIENCE_SECONDS)


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.let.release(100)
    made.lane.close()


@pytest.mark.parametrize("interval", [0.0, -1.0, math.nan, math.inf])
def test_an_interval_must_be_a_positive_number(work, interval):
    with pytest.raises(ValueError, match="interval"):
        work.lane.add("fast", work.run, interval)


def test_a_job_runs_at_its_ticks_alone(work):
    work.lane.add("fast", work.run, 10.0)
    work.now = 9.0
    work.lane.wake()
    assert work.runs == 0
    work.now = 10.5
    work.lane.wake()
    assert work.begins()
    assert work.ends()
    assert work.runs == 1


def test_a_job_that_is_hurried_while_it_runs_runs_once_more(work):
    work.lane.add("fast", work.run, FOR_EVER, delay=0.0)
    assert work.begins()
    work.lane.hurry("fast")
    work.let.release()
    assert work.begins()
    assert work.ends()
    assert (work.runs, work.overruns) == (2, [])


def test_a_job_that_takes_longer_than_its_interval_skips_ticks_and_counts_them(work):
    work.lane.add("fast", work.run, 10.0, delay=0.0)
    assert work.begins()
    work.now = 31.0
    assert work.ends()
    assert (work.runs, work.overruns) == (1, ["fast"] * 3)


@pytest.mark.parametrize(("call_back", "runs_at"), [("resume", 20.5), ("hurry", 11.0)])
def test_a_paused_job_waits_for_its_next_tick_or_runs_at_once(work, call_back, runs_at):
    work.lane.add("fast", work.run, 10.0, delay=0.0)
    assert work.begins()
    work.lane.pause("fast")
    work.now = 11.0
    assert work.ends()
    assert (work.runs, work.overruns) == (1, [])
    getattr(work.lane, call_back)("fast")
    work.now = runs_at
    work.lane.wake()
    assert work.begins()
    assert work.runs == 2


def test_an_exception_leaves_the_other_jobs_running(work, caplog):
    def broken() -> None:
        raise RuntimeError("a bug")

    work.lane.add("slow", broken, FOR_EVER, delay=-2 * FOR_EVER)
    assert work.ends()
    (record,) = caplog.records
    assert (record.source, record.poll, record.exc_info[0]) == ("nvml", "slow", RuntimeError)


def test_nothing_runs_after_the_end(work):
    assert work.lane.keep_running()
    work.lane.close()
    work.lane.add("fast", work.run, 10.0, delay=0.0)
    assert comes_true(lambda: not work.lane.keep_running())
    assert work.runs == 0


def test_a_thread_that_had_no_room_is_started_later(monkeypatch):
    start = threading.Thread.start
    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("can't start")))
        lane = Lane("nvml")
        assert not lane.keep_running()
    assert threading.Thread.start is start
    assert lane.keep_running()
    lane.close()
