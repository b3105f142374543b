"""Xid events come from a separate thread, once each; a driver that always fails is not called in a loop."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kits.fake_nvml.library import GPU_IS_LOST, FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.fake_nvml.reader import Bench, reading
from kits.waiting import comes_true

pytestmark = pytest.mark.needs("cc")
WAIT = "nvmlEventSetWait_v2"


def seen_by_the_reader(bench: Bench, waits_before: int, events: int) -> bool:
    """Return whether the reader's thread has received this many events; each event ends a wait."""
    return comes_true(lambda: bench.fake.calls(WAIT) > waits_before + events)


def test_xid_is_reported_once_with_its_gpu_and_time(bench: Bench) -> None:
    bench.report()
    before = time.time()
    bench.fake.xid(3, 31)
    (event,) = bench.events(1)
    assert (event.device, event.code) == (3, "xid_31")
    assert event.wall_time is not None
    assert before <= event.wall_time <= time.time()
    assert [bench.report().events for _ in range(3)] == [()] * 3


def test_the_same_xid_twice_is_two_events(bench: Bench) -> None:
    bench.report()
    for gpu in (0, 5, 0):
        bench.fake.xid(gpu, 13)
    found = bench.events(3)
    assert sorted((event.device or 0, event.code) for event in found) == [(0, "xid_13"), (0, "xid_13"), (5, "xid_13")]


def test_a_storm_keeps_the_newest_and_counts_the_others(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, load_profile("h100").with_gpus(1))
    with reading(fake) as bench:
        bench.report()
        waits = fake.calls(WAIT)
        for number in range(300):
            fake.xid(0, number)
        assert seen_by_the_reader(bench, waits, 300)
        report = bench.report()
        assert (len(report.events), report.events[-1].code) == (256, "xid_299")
        assert [(problem.where, problem.text.split()[0]) for problem in report.problems] == [("events", "44")]
        assert bench.report().problems == ()


def test_a_wait_that_fails_at_once_is_put_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost GPU answers at once: without a delay the loop would use a whole core."""
    pauses: list[float | None] = []

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            if len(pauses) == 7:
                self.set()
            return self.is_set()

    ours = SimpleNamespace(Event=Stopped, Thread=threading.Thread, Lock=threading.Lock)
    monkeypatch.setattr("telemetry_daemon.readers.nvml.events.threading", ours)
    bench.fake.fail(WAIT, GPU_IS_LOST)
    bench.report()
    assert comes_true(lambda: len(pauses) == 7)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert bench.fake.calls(WAIT) == 7


def test_events_before_an_initialisation_are_reported_after_it(bench: Bench) -> None:
    """An Xid is often the reason for the initialisation."""
    bench.report()
    waits = bench.fake.calls(WAIT)
    bench.fake.xid(2, 119)
    assert seen_by_the_reader(bench, waits, 1)
    bench.move(61)
    bench.fake.fail("nvmlDeviceGetPerformanceState", 1, 0, times=1)
    report = bench.report()
    assert bench.fake.calls("nvmlInitWithFlags") == 2
    assert [(event.device, event.code) for event in report.events] == [(2, "xid_119")]


@pytest.mark.parametrize("profile", ["vgpu", "jetson"])
def test_no_thread_is_started_without_event_support(profile: str, tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, profile)
    with reading(fake) as bench:
        assert bench.report().outcome == "ok"
        assert "nvml-events" not in {thread.name for thread in threading.enumerate()}
    assert fake.calls(WAIT) == 0


def test_the_set_is_freed_before_the_library_is_let_go(bench: Bench) -> None:
    bench.report()
    bench.fake.fail("nvmlDeviceGetPerformanceState", 1, 0, times=1)
    bench.move(61)
    bench.report()
    assert (bench.fake.calls("nvmlEventSetFree"), bench.fake.calls("nvmlEventSetCreate")) == (1, 2)
    bench.fake.xid(0, 8)
    assert [event.code for event in bench.events(1)] == ["xid_8"]
