"""A worker answers; a fault of its code costs one call and is reported, and the worker restarts."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kits import workers
from kits.processes import alive, own_holdings
from kits.waiting import PATIENCE_SECONDS, comes_true
from kits.workers import CountingLauncher, HandClock, new_worker, parse_question, problem_texts
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.processes.worker import (
    Worker,
    WorkerDiedError,
    WorkerFaultError,
    WorkerOverflowError,
    WorkerStuckError,
    WorkerTimeoutError,
)
from telemetry_parsers.codec.worker_wire import Describe


def ask(worker: Worker, poll: str, *texts: str, seconds: float = PATIENCE_SECONDS) -> list[str]:
    return problem_texts(worker.call(parse_question(poll, *texts), seconds))


def test_worker_describes_and_parses(worker: Worker, launcher: CountingLauncher) -> None:
    assert (worker.pid, launcher.launches) == (None, []), "nothing runs until it is asked"
    described = worker.call(Describe(f"{workers.NAUGHTY}:PARSER"), PATIENCE_SECONDS)
    assert described["name"] == "naughty"
    assert described["polls"][0]["request"]["alternatives"] == [["naughty-smi"]]
    assert ask(worker, "echo", "Temp 41°C\n", "\udcff") == ["Temp 41°C\n", "\udcff"]
    assert [ask(worker, "number") for _ in range(3)] == [["1"], ["2"], ["3"]]
    assert launcher.pids == [worker.pid], "one process answers all calls"


# The plugin's behaviour, the error, its text, and whether the process survives.
FAULTS = (
    ("raise", WorkerFaultError, r"naughty: ValueError: no such card \(naughty_plugin.py line \d+\)", True),
    ("raise-wordless", WorkerFaultError, "_WordlessError: ", True),
    ("exit", WorkerFaultError, "SystemExit: 4", True),
    ("not-a-report", WorkerFaultError, "parse returned dict, not a Report", True),
    ("nan", WorkerFaultError, "not JSON data", True),
    ("huge", WorkerOverflowError, r"the answer has \d+ bytes, but the limit is 8388608", True),
    ("flood", WorkerOverflowError, "answer exceeded the limit", False),
    ("garbage", WorkerDiedError, "answer is invalid: not JSON", False),
    ("another-answer", WorkerDiedError, "answer is invalid: id: expected .*, found 0", False),
    ("die", WorkerDiedError, "the worker exited with status 3", False),
    ("die-with-words", WorkerDiedError, "the worker exited with status 3: libacme: cannot map BAR0", False),
    ("segfault", WorkerDiedError, "the worker was killed by SIGSEGV", False),
    ("leave-a-child", WorkerDiedError, "the worker exited with status 7", False),
)


def test_fault_costs_one_call(worker: Worker, clock: HandClock, launcher: CountingLauncher) -> None:
    for poll, error, text, survives in FAULTS:
        assert ask(worker, "echo", poll) == [poll]
        pid, started = launcher.pids[-1], len(launcher.pids)
        with pytest.raises(error, match=text):
            ask(worker, poll)
        clock.seconds += 1
        assert ask(worker, "echo", "well again") == ["well again"]
        assert (alive(pid), len(launcher.pids) - started) == (survives, not survives), poll


def test_hanging_call_ends_at_its_deadline(worker: Worker, clock: HandClock, launcher: CountingLauncher) -> None:
    for poll in ("hang", "ignore-sigterm", "spin"):
        assert ask(worker, "echo", "up") == ["up"]
        spent = worker.cpu_seconds
        with pytest.raises(WorkerTimeoutError, match="did not answer before the deadline"):
            ask(worker, poll, seconds=0.2)
        assert not alive(launcher.pids[-1])
        clock.seconds += 1
    assert worker.cpu_seconds > spent, "what a killed worker used is known from its end"
    assert ask(worker, "echo", "again") == ["again"]


def test_standard_streams_are_not_the_protocol(worker: Worker, launcher: CountingLauncher) -> None:
    for poll in ("print", "read-stdin") * 2:
        assert ask(worker, poll, "fine") == ["fine"]
    assert len(launcher.pids) == 1


def test_large_questions_and_answers_pass(worker: Worker) -> None:
    text = "0123456789" * 300_000
    assert ask(worker, "echo", text) == [text]
    assert ask(worker, "large") == ["x" * (1 << 20)]


def test_crashing_plugin_is_restarted_with_backoff(clock: HandClock) -> None:
    def crashing(what: LaunchRequest) -> LaunchRequest:
        return workers.shell("exit 3")(what) if is_broken else what

    is_broken = True
    launcher = CountingLauncher(crashing)
    with workers.closing(new_worker(clock=clock, launcher=launcher)) as worker:
        for wait in (1, 2, 4, 8, 16, 32, 60, 60):
            with pytest.raises(WorkerDiedError, match=r"exited with status 3$"):
                ask(worker, "echo")
            clock.seconds += wait - 0.5
            started = len(launcher.launches)
            with pytest.raises(WorkerDiedError, match="exited with status 3; next start in"):
                ask(worker, "echo")
            assert len(launcher.launches) == started
            clock.seconds += 0.5
        is_broken = False
        assert ask(worker, "echo", "at last") == ["at last"]
        with pytest.raises(WorkerDiedError):
            ask(worker, "die")
        clock.seconds += 1
        assert ask(worker, "echo", "one second was enough") == ["one second was enough"]


def test_failed_start_is_explained(clock: HandClock) -> None:
    def no_memory(what: LaunchRequest) -> Process:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    worker = new_worker(launcher=no_memory, clock=clock)
    before = own_holdings()
    for _ in range(3):
        with pytest.raises(WorkerDiedError, match=r"could not be started.*Resource temporarily unavailable"):
            ask(worker, "echo")
    assert comes_true(lambda: own_holdings().at_most(before))


def test_stuck_worker_is_not_replaced(clock: HandClock) -> None:
    stuck: list[workers.UnkillableProcess] = []

    def first_one_stuck(what: LaunchRequest) -> Process:
        process = launch(what)
        if stuck:
            return process
        stuck.append(workers.UnkillableProcess(process))
        return stuck[0]

    with workers.closing(new_worker(launcher=first_one_stuck, clock=clock)) as worker:
        with pytest.raises(WorkerStuckError, match="does not exit when killed"):
            ask(worker, "hang", seconds=0.2)
        for _ in range(5):
            clock.seconds += 100
            with pytest.raises(WorkerStuckError, match=f"worker {stuck[0].pid} does not exit"):
                ask(worker, "echo")
        assert worker.pid is None
        assert alive(stuck[0].pid)
        stuck[0].let_go()
        assert comes_true(lambda: not alive(stuck[0].pid))
        assert ask(worker, "echo", "a new one") == ["a new one"]
        assert worker.pid != stuck[0].pid
        assert worker.cpu_seconds > 0


@pytest.mark.parametrize("end", [Worker.close, Worker.stop])
def test_close_and_stop_end_a_waiting_call(
    worker: Worker, launcher: CountingLauncher, tmp_path: Path, end: Callable[[Worker], None]
) -> None:
    with workers.hanging_call(worker, tmp_path) as call:
        end(worker)
        with pytest.raises(WorkerDiedError, match="the worker was stopped during the call"):
            call.result(PATIENCE_SECONDS)
    assert not alive(launcher.pids[0])


def test_call_after_a_stop_is_answered_at_once(worker: Worker, launcher: CountingLauncher, tmp_path: Path) -> None:
    with workers.hanging_call(worker, tmp_path) as call:
        worker.stop()
        assert call.exception(PATIENCE_SECONDS) is not None
    assert worker.pid is None
    assert ask(worker, "echo", "at once") == ["at once"], "it was no crash, so there is no waiting"
    assert len(launcher.pids) == 2


def test_closed_worker_starts_no_process(worker: Worker, launcher: CountingLauncher) -> None:
    worker.close()
    worker.close()
    with pytest.raises(WorkerDiedError, match="the worker is closed"):
        ask(worker, "echo")
    assert launcher.launches == []


def test_deadline_kills_a_worker_and_its_children(tmp_path: Path) -> None:
    """Worker and child both ignore the end of the pipe and SIGTERM."""
    pids = tmp_path / "pids"
    launcher = CountingLauncher(workers.shell(f"trap '' TERM; sleep 3600 & echo $$ $! > {pids}; sleep 3600; wait"))
    for seconds in (0.5, 5.0, 50.0):  # repeat until the machine starts it in time
        with pytest.raises(WorkerTimeoutError):
            ask(new_worker(launcher=launcher), "echo", seconds=seconds)
        if pids.exists():
            break
    assert [alive(int(pid)) for pid in pids.read_text().split()] == [False, False]


def test_call_waits_for_its_turn_until_its_deadline(worker: Worker, tmp_path: Path) -> None:
    with workers.hanging_call(worker, tmp_path) as first:
        with pytest.raises(WorkerTimeoutError, match=r"the worker was busy with another call for 0\.1 s"):
            ask(worker, "echo", seconds=0.1)
        worker.close()
        assert first.exception(PATIENCE_SECONDS) is not None


def test_worker_inherits_nothing(worker: Worker, tmp_path: Path) -> None:
    opened, secret = (
        os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR),
        222,
    )  # a descriptor number that a worker never uses
    os.dup2(opened, secret, inheritable=True)
    try:
        descriptors = ask(worker, "descriptors")
    finally:
        os.close(opened)
        os.close(secret)
    # At most three standard ones, the pipe of requests and the pipe of answers.
    assert len(descriptors) <= 5
    assert str(secret) not in descriptors


def test_worker_environment_and_working_directory() -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1", "ACME": "kept"}
    with workers.closing(new_worker(environment=environment)) as worker:
        names = ask(worker, "environment")
        assert ask(worker, "working-directory") == ["/"]
    assert "ACME" in names
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"}.intersection(names)


def test_isolated_interpreter_has_isolated_workers() -> None:
    program = (
        f"import sys; sys.path.append({str(workers.NAUGHTY.parent.parent)!r}); from kits import workers as kit\n"
        "with kit.closing(kit.new_worker()) as worker:\n"
        "    print(kit.problem_texts(worker.call(kit.parse_question('flags'), 60))[0])\n"
    )
    for flags, isolated in (([], "isolated=0"), (["-I"], "isolated=1")):
        done = subprocess.run([workers.PYTHON, *flags, "-c", program], capture_output=True, text=True, check=True)
        assert isolated in done.stdout


def test_worker_imports_few_modules(worker: Worker) -> None:
    """14 MiB instead of 40: every plugin and every library needs such a process."""
    modules = set(ask(worker, "modules"))
    heavy = {"pydantic", "apscheduler", "prometheus_client", "psutil", "asyncio", "subprocess", "ssl", "logging"}
    assert not modules & (heavy | {"importlib.metadata", "pathlib", "socket", "threading", "traceback", "email"})
    assert len(modules) < 120
