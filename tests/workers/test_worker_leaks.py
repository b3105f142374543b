"""Nothing is left behind: not after hundreds of faults, and not when the daemon itself is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kits import workers
from kits.processes import alive, own_holdings
from kits.waiting import PATIENCE_SECONDS, comes_true
from kits.workers import HandClock, new_worker, parse_question
from telemetry_daemon.workers.worker import WorkerError, WorkerTimeoutError


def test_real_workers_leave_nothing_either() -> None:
    clock = HandClock()
    worker = new_worker(clock=clock)
    before = own_holdings()
    for poll in ("die", "raise", "segfault", "garbage", "flood", "leave-a-child", "echo"):
        clock.seconds += 60
        try:
            worker.call(parse_question(poll), PATIENCE_SECONDS)
        except WorkerError:  # what the others are called for
            assert poll != "echo"
    with pytest.raises(WorkerTimeoutError):
        worker.call(parse_question("hang"), 0.2)
    worker.close()
    assert comes_true(lambda: own_holdings().at_most(before))


# A daemon that prints its worker's pid, and once it is told to has it do something that takes longer than the daemon lives.
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


def test_no_worker_outlives_a_killed_daemon() -> None:
    """An idle one ends with its pipe, one that hangs some seconds after its deadline, by an alarm."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(daemon(poll)) for poll in ("", "hang", "spin", "ignore-sigterm")]
        assert [alive(pid) for _, pid in daemons] == [True] * 4
        for process, _ in daemons:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        time.sleep(0.2)  # most have begun then; those that have not end with their pipe
        for process, _ in daemons:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        for _, pid in daemons:
            assert comes_true(lambda pid=pid: not alive(pid))
