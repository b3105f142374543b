"""No process or descriptor remains after hundreds of faults, or after the daemon was killed."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kits import workers
from kits.processes import alive, own_holdings
from kits.waiting import PATIENCE_SECONDS, comes_true
from kits.workers import HandClock, new_worker, parse_question
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.processes.worker import WorkerError, WorkerTimeoutError

# A shell instead of Python makes many starts cheap; each of these is another way to fail.
FAILING: tuple[Callable[[LaunchRequest], LaunchRequest], ...] = (
    workers.shell("exit 3"),
    workers.shell("echo garbage; sleep 60"),
    workers.shell("kill -SEGV $$"),
    workers.shell("echo words >&2; exit 1"),
    workers.shell("exec >&- 2>&-; sleep 60"),
    workers.shell("sleep 60 & exit 5"),
    lambda what: LaunchRequest("/nonexistent/python", what.arguments, what.environment, what.inherited_descriptors),
)
CYCLES = 70


def test_faults_leave_no_descriptor_thread_or_process() -> None:
    clock = HandClock()
    ways = itertools.cycle(FAILING)
    launched: list[int] = []

    def failing(what: LaunchRequest) -> Process:
        process = launch(next(ways)(what))
        launched.append(process.pid)
        return process

    worker = new_worker(launcher=failing, clock=clock)
    before = own_holdings()
    for _ in range(CYCLES):
        clock.seconds += 60
        with pytest.raises(WorkerError):
            worker.call(parse_question("echo"), PATIENCE_SECONDS)
    assert comes_true(lambda: own_holdings().at_most(before))
    assert len(launched) >= CYCLES * 6 // 7
    assert not [pid for pid in launched if alive(pid)]


def test_real_workers_leave_nothing_behind() -> None:
    clock = HandClock()
    worker = new_worker(clock=clock)
    before = own_holdings()
    for poll in ("die", "raise", "segfault", "garbage", "flood", "leave-a-child", "echo"):
        clock.seconds += 60
        try:
            worker.call(parse_question(poll), PATIENCE_SECONDS)
        except WorkerError:  # the others are called for their faults
            assert poll != "echo"
    with pytest.raises(WorkerTimeoutError):
        worker.call(parse_question("hang"), 0.2)
    worker.close()
    assert comes_true(lambda: own_holdings().at_most(before))


# A daemon that prints its worker's pid; a signal starts a call in the worker that outlives the daemon.
DAEMON = """
import sys, threading
from kits import workers
worker = workers.new_worker()
worker.call(workers.parse_question("echo"), 60)
print(worker.pid, flush=True)
sys.stdin.readline()
if sys.argv[1]:
    worker.call(workers.parse_question(sys.argv[1]), 0.9)
threading.Event().wait()
"""


@contextmanager
def daemon(poll: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    environment = workers.python_path(workers.NAUGHTY.parent.parent)
    command = [workers.PYTHON, "-c", DAEMON, poll]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_killed_daemon_leaves_no_worker() -> None:
    """An idle worker ends with its pipe; a hanging one by an alarm after its deadline."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(daemon(poll)) for poll in ("", "hang", "spin", "ignore-sigterm")]
        assert [alive(pid) for _, pid in daemons] == [True] * 4
        for process, _ in daemons:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        time.sleep(0.2)  # most calls have begun by then; other workers end with their pipe
        for process, _ in daemons:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        for _, pid in daemons:
            assert comes_true(lambda pid=pid: not alive(pid))
