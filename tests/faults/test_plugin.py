"""The state of a plugin whose worker waits to be restarted; long_plugin.py has the faults themselves."""

import pytest

from kits.waiting import PATIENCE_SECONDS
from kits.workers import HandClock, new_worker, parse_question
from telemetry_daemon.processes.worker import WorkerOverflowError, WorkerTimeoutError


def test_reason_stays_the_same_while_a_worker_waits_for_its_restart() -> None:
    """Otherwise the source would change its reason, and log it, at every second poll."""
    clock = HandClock()
    worker = new_worker(clock=clock)
    try:
        assert worker.call(parse_question("echo"), PATIENCE_SECONDS)
        for _ in range(2):
            with pytest.raises(WorkerTimeoutError, match=r"before the deadline$"):
                worker.call(parse_question("hang"), 0.5)
            with pytest.raises(WorkerTimeoutError, match="before the deadline; next start in"):
                worker.call(parse_question("echo"), PATIENCE_SECONDS)
            clock.seconds += 60
        with pytest.raises(WorkerOverflowError):
            worker.call(parse_question("flood"), PATIENCE_SECONDS)
        with pytest.raises(WorkerOverflowError, match="exceeded the limit; next start in"):
            worker.call(parse_question("echo"), PATIENCE_SECONDS)
    finally:
        worker.close()
