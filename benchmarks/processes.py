"""Compare the cost of reading the processes on a node's cards: our reader and psutil, in one run, on the same processes.

`python benchmarks/processes.py [NUMBER]` starts this many processes (500). It needs psutil, but no accelerator.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader
from telemetry_parsers.owners.proc import PARSER

PROCESSES = 500
ROUNDS = 15
MAX_MILLISECONDS = 15
MIN_SPEEDUP = 10
POLL = PARSER.polls[0]


@contextmanager
def sleeping_processes(number: int) -> Iterator[tuple[int, ...]]:
    """Run this many processes that wait for a signal, and yield their PIDs."""
    pids: list[int] = []
    try:
        for _ in range(number):
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
        yield tuple(pids)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def read_with_psutil(pids: Sequence[int]) -> list[object]:
    """Return user, start, name and cgroup of each process, as a straightforward program reads them."""
    results: list[object] = []
    for pid in pids:
        process = psutil.Process(pid)
        with process.oneshot():
            facts = (process.username(), process.create_time(), process.name())
        results.append((*facts, Path(f"/proc/{pid}/cgroup").read_text()))
    return results


def milliseconds(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of one call, in this process and its children."""
    begin = os.times()
    cpu_begin = time.process_time()
    work()
    end = os.times()
    return (time.process_time() - cpu_begin + end.children_user + end.children_system - begin[2] - begin[3]) * 1000


def main(number: int) -> int:
    """Print the cost of both readers. Return 0 if the goals were reached, else 1."""
    with sleeping_processes(number) as pids:
        targets = Targets(pids=pids)
        reader = ProcReader("/", environment=False)
        first = milliseconds(lambda: reader.read(POLL, targets))
        assert len(PARSER.parse(reader.read(POLL, targets)).tasks) == number
        # The readers alternate, so that other work on the machine affects both.
        turns = [
            (milliseconds(lambda: reader.read(POLL, targets)), milliseconds(lambda: read_with_psutil(pids)))
            for _ in range(ROUNDS)
        ]
    ours, psutil_ms = (min(column) for column in zip(*turns, strict=True))
    print(f"{number} processes, CPU ms a poll, the fastest of {ROUNDS}")
    print(f"ours, the first poll   {first:8.1f}")
    print(f"ours, later polls      {ours:8.1f}")
    print(f"psutil                 {psutil_ms:8.1f}   {psutil_ms / ours:.1f} times ours")
    return 0 if ours <= MAX_MILLISECONDS and psutil_ms >= MIN_SPEEDUP * ours else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PROCESSES))
