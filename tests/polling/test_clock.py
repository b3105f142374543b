"""The clock guard: what counts as a step, and that its thread survives errors of its callbacks."""

import threading

import pytest

from telemetry_daemon.polling.clock import ClockGuard

DEADLINE_SECONDS = 60.0


class Clocks:
    def __init__(self) -> None:
        self.monotonic_now = 100.0
        self.wall_now = 1_800_000_000.0

    def pass_time(self, seconds: float, set_by: float = 0.0) -> None:
        self.monotonic_now += seconds
        self.wall_now += seconds + set_by

    def guard(self, on_step, **more) -> ClockGuard:
        return ClockGuard(on_step, monotonic=lambda: self.monotonic_now, wall=lambda: self.wall_now, **more)


@pytest.mark.parametrize(
    ("set_by", "steps"),
    [
        pytest.param([0.0, 0.0, 0.0], [], id="unchanged"),
        pytest.param([-3600.0, 0.0], [-3600], id="an hour back, reported once"),
        pytest.param([2_592_000.0, 0.0], [2_592_000], id="thirty days forward, reported once"),
        pytest.param([3600.0, -3600.0], [3600, -3600], id="there and back"),
        pytest.param([0.9, -0.9, 0.9, -0.9], [], id="small corrections either way"),
        pytest.param([0.6, 0.6, 0.6, 0.6], [1.2, 1.2], id="small steps add up"),
        pytest.param([1e-4] * 100, [], id="slewing"),
    ],
)
def test_steps_of_the_clock(set_by, steps):
    clocks, steps_seen = Clocks(), []
    guard = clocks.guard(steps_seen.append)
    for seconds in set_by:
        clocks.pass_time(86_400.0, seconds)  # a long pause of both clocks is no step
        guard.tick()
    assert steps_seen == pytest.approx(steps)
    assert guard.ticks == len(set_by)


def test_thread_ticks_until_it_is_stopped():
    ticked = threading.Semaphore(0)
    guard = ClockGuard(lambda seconds: None, on_tick=ticked.release)
    guard.start()
    for _ in range(3):
        assert ticked.acquire(timeout=DEADLINE_SECONDS)
    guard.stop()
    assert guard.join(DEADLINE_SECONDS)
    assert guard.ticks >= 3


def test_thread_survives_a_failing_callback(caplog):
    clocks, steps_seen, ticked = Clocks(), [], threading.Semaphore(0)

    def fail_twice(seconds):
        steps_seen.append(seconds)
        if len(steps_seen) < 3:
            raise RuntimeError("the scheduler is busy")

    guard = clocks.guard(fail_twice, on_tick=ticked.release)
    clocks.pass_time(1.0, 50.0)
    guard.start()
    for _ in range(2):
        assert ticked.acquire(timeout=DEADLINE_SECONDS), "no tick after those that failed"
    guard.stop()
    assert guard.join(DEADLINE_SECONDS)
    assert steps_seen == [50.0, 50.0, 50.0]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"], "logged once, then the recovery"


def test_join_without_a_start_returns_at_once():
    assert ClockGuard(lambda seconds: None).join(0.0)
