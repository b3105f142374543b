"""A library or files read in a worker: the answers, or the state and reason without an answer."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kits import workers
from kits.processes import alive
from kits.waiting import PATIENCE_SECONDS, comes_true
from kits.workers import CountingLauncher, HandClock, new_worker
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.model import Capture, Command, Failure, Files, Library, Poll, Request


def read(worker: Worker, request: Request, deadline: float = PATIENCE_SECONDS) -> Capture:
    return WorkerReader("naughty", worker).read(Poll("all", request, deadline=deadline), Targets())


def ask(worker: Worker, *calls: str, reader: str = "naughty", deadline: float = PATIENCE_SECONDS) -> Capture:
    return read(worker, Library(reader, calls), deadline)


def failure(capture: Capture) -> Failure:
    assert capture.failure is not None
    assert capture.outputs == ()
    return capture.failure


def test_each_call_is_an_output(worker: Worker) -> None:
    capture = ask(worker, "power", "counts", "lost")
    power, counts, lost = capture.outputs
    assert (power.name, power.data, power.status) == ("power", 1.5, 0)
    assert counts.data == {"opened": 1, "closed": 0}
    assert ask(worker, "counts").outputs[0].data == {"opened": 1, "closed": 0}, "it is opened once"
    assert (lost.name, lost.data, lost.status, lost.stderr) == ("lost", None, 15, "GPU is lost")
    assert capture.failure is None


def test_capture_has_times_and_cost(worker: Worker) -> None:
    before = time.monotonic()
    capture = ask(worker, "burn-cpu")
    after = time.monotonic()
    assert (capture.source, capture.poll, capture.request) == ("naughty", "all", Library("naughty", ("burn-cpu",)))
    assert before <= capture.monotonic_time <= after
    assert abs(capture.wall_time - time.time()) < 3600
    assert 0 < capture.seconds <= after - before
    assert capture.cpu_seconds >= 0.2
    assert ask(worker, "power").cpu_seconds < capture.cpu_seconds, "the cost is that of the call"


# The call, and the resulting failure.
FAILURES = (
    ("refuse missing -", "missing", None, "the library said so"),
    ("refuse no_devices -", "no_devices", None, "the library said so"),
    ("refuse failed driver_gone", "failed", "driver_gone", "the library said so"),
    ("refuse failed library_mismatch", "failed", "library_mismatch", "the library said so"),
    ("refuse failed no_permission", "failed", "no_permission", "the library said so"),
    ("refuse failed bored", "failed", "internal", "result cannot be decoded: failure.reason: expected one of"),
    ("raise", "failed", "internal", "ValueError: no such card"),
    ("list", "failed", "internal", "read() must return a mapping of answers, not list"),
    ("nan", "failed", "internal", "not JSON data"),
    ("bytes", "failed", "internal", "not JSON data"),
    ("exit", "failed", "internal", "SystemExit"),
    ("flood", "failed", "too_much_output", "exceeded the limit"),
    ("segfault", "failed", "killed", "the worker was killed by SIGSEGV"),
)


def test_failures_have_state_and_reason(worker: Worker, clock: HandClock) -> None:
    for call, state, reason, text in FAILURES:
        found = failure(ask(worker, call))
        assert (found.state, found.reason) == (state, reason), call
        assert text in found.text
        clock.seconds += 1


def test_hanging_call_is_a_timeout(worker: Worker, launcher: CountingLauncher) -> None:
    ask(worker, "power")
    found = failure(ask(worker, "hang", deadline=0.2))
    assert (found.state, found.reason) == ("failed", "timeout")
    assert not alive(launcher.pids[0])


def test_library_that_holds_its_process_is_stuck() -> None:
    held: list[workers.UnkillableProcess] = []

    def holding(what: LaunchRequest) -> Process:
        held.append(workers.UnkillableProcess(launch(what)))
        return held[-1]

    with workers.closing(new_worker(launcher=holding)) as worker:
        for _ in range(3):
            found = failure(ask(worker, "hang", deadline=0.2))
            assert (found.state, found.reason) == ("stuck", None)
        assert len(held) == 1
        held[0].let_go()
        assert comes_true(lambda: ask(worker, "power").failure is None)


def test_unknown_reader_is_missing(worker: Worker, launcher: CountingLauncher) -> None:
    found = failure(ask(worker, "power", reader="other"))
    assert (found.state, found.reason) == ("missing", None)
    assert found.text == "no library reader named 'other' is installed"
    assert launcher.launches == [], "no process is needed to know that"


def test_reader_is_reopened_after_a_failure(worker: Worker) -> None:
    assert failure(ask(worker, "raise")).reason == "internal"
    assert ask(worker, "counts").outputs[0].data == {"opened": 2, "closed": 1}
    found = failure(ask(worker, "counts", reader="broken"))
    assert "OSError: [Errno 5] the device does not answer" in found.text
    assert ask(worker, "counts", reader="broken").outputs[0].data == {"opened": 2, "closed": 1}


def test_missing_library_keeps_no_process(worker: Worker, launcher: CountingLauncher, clock: HandClock) -> None:
    reader = WorkerReader("naughty", worker, clock=clock)
    for _ in range(5):
        capture = reader.read(Poll("all", Library("naughty", ("refuse missing -",))), Targets())
        assert failure(capture).state == "missing"
        clock.seconds += 10
    assert (worker.pid, len(launcher.pids), alive(launcher.pids[0])) == (None, 1, False)
    clock.seconds += 10
    assert reader.read(Poll("all", Library("naughty", ("power",))), Targets()).failure is None
    assert len(launcher.pids) == 2


@pytest.mark.parametrize("reason", ["driver_gone", "library_mismatch"])
def test_lost_driver_gets_a_new_process_rarely(
    worker: Worker, launcher: CountingLauncher, clock: HandClock, reason: str
) -> None:
    """Only a new process can load a replaced library, but one at every poll would cost too much."""
    for _ in range(5):
        ask(worker, f"refuse failed {reason}")
    assert len(launcher.pids) == 1
    clock.seconds += 30
    ask(worker, f"refuse failed {reason}")
    ask(worker, "power")
    assert len(launcher.pids) == 2


def test_missing_folders_start_no_worker(worker: Worker, tmp_path: Path) -> None:
    reader = WorkerReader("naughty", worker, str(tmp_path))
    poll = Poll("all", Files(globs=("/sys/drivers/*/busy", "/proc/nothing/*")), deadline=PATIENCE_SECONDS)
    failure = reader.read(poll, Targets()).failure
    assert failure is not None
    assert (failure.state, worker.pid) == ("missing", None)
    (tmp_path / "sys" / "drivers").mkdir(parents=True)
    assert reader.read(poll, Targets()).outputs == ()
    assert worker.pid is not None


def test_worker_runs_no_commands(worker: Worker) -> None:
    found = failure(read(worker, Command((("true",),))))
    assert (found.state, found.reason) == ("failed", "internal")
    assert "a worker cannot run commands" in found.text


def test_closed_reader_ends_the_process_only(worker: Worker, launcher: CountingLauncher) -> None:
    """A reload replaces a source's reader; the plugin's worker serves the new one, too."""
    reader, poll = WorkerReader("naughty", worker), Poll("all", Library("naughty", ("power",)))
    assert reader.read(poll, Targets()).failure is None
    reader.close()
    reader.close()
    assert not alive(launcher.pids[0])
    assert failure(reader.read(poll, Targets())).text == "naughty: the reader is closed"
    assert WorkerReader("naughty", worker).read(poll, Targets()).failure is None
    assert len(launcher.pids) == 2


def test_ending_worker_closes_its_library(tmp_path: Path) -> None:
    """The worker has 0.2 s for this, which may be too short on a busy machine."""
    closed = tmp_path / "closed"

    def ends() -> bool:
        ask(worker, "power")
        worker.stop()
        return closed.exists()

    with workers.closing(new_worker(environment={**os.environ, "CLOSED": str(closed)})) as worker:
        assert comes_true(ends)


def test_closed_reader_starts_no_process_for_a_waiting_read(
    worker: Worker, launcher: CountingLauncher, tmp_path: Path
) -> None:
    """An operator's release closes the library during any poll."""
    reader, poll = WorkerReader("naughty", worker), Poll("all", Library("naughty", ("power",)))
    assert reader.read(poll, Targets()).failure is None
    with workers.hanging_call(worker, tmp_path) as first, ThreadPoolExecutor(1) as pool:
        second = pool.submit(reader.read, poll, Targets())
        time.sleep(0.1)  # the read waits now, or begins after the close: both must fail alike
        reader.close()
        assert first.exception(PATIENCE_SECONDS) is not None
        assert failure(second.result(PATIENCE_SECONDS)).state == "disabled"
    assert (worker.pid, len(launcher.pids)) == (None, 1)


def test_read_ended_by_closing_is_no_failure(worker: Worker) -> None:
    """Otherwise each stop and each release would be logged as a failure of the library."""
    reader = WorkerReader("naughty", worker)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.read, Poll("all", Library("naughty", ("hang",))), Targets())
        assert comes_true(lambda: worker.pid is not None)
        reader.close()
        found = failure(waiting.result(PATIENCE_SECONDS))
    assert (found.state, found.reason) == ("disabled", None)
