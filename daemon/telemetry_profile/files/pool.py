"""Reads files side by side, each in a process of its own: a file that kills its reader costs itself."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from telemetry_profile.files.folders import Found
from telemetry_profile.files.reading import Outcome

# What no honest file needs: 5 GB took 90 s and 200 MiB.
MOST_CPU_SECONDS = 900
MOST_BYTES = 4 << 30

Read = Callable[[Found], Outcome]


@dataclass(slots=True)
class _Running:
    found: Found
    process: BaseProcess


def read_all(files: Sequence[Found], read: Read, processes: int | None = None) -> Generator[Outcome, None, None]:
    """The outcomes as they come, at most so many at a time (default: a process per core). Closing it ends the readers."""
    waiting = deque(files)
    running: dict[Connection, _Running] = {}
    most = processes or len(os.sched_getaffinity(0))
    try:
        while waiting or running:
            while waiting and len(running) < most:
                connection, started = _start(waiting.popleft(), read)
                running[connection] = started
            for ready in wait(list(running)):
                connection = next(one for one in running if one is ready)
                yield _outcome(connection, running[connection])
                running.pop(connection)
    finally:
        for connection, one in running.items():
            one.process.kill()
            one.process.join()
            connection.close()


def _start(found: Found, read: Read) -> tuple[Connection, _Running]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(found, read, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, _Running(found, process)


def _outcome(connection: Connection, one: _Running) -> Outcome:
    outcome: Outcome | None = None
    with contextlib.suppress(EOFError):  # it ended without an answer
        outcome = connection.recv()
    connection.close()
    one.process.join()
    if outcome is not None:
        return outcome
    return Outcome(one.found, trouble=_ending(one.process.exitcode))


def _ending(status: int | None) -> str:
    if status == -signal.SIGXCPU:
        return f"cannot be read: it took more than {MOST_CPU_SECONDS} s"
    if status == -signal.SIGKILL:
        return "cannot be read: its reader was killed, perhaps for want of memory"
    return f"cannot be read: its reader ended with status {status}; report this file's tool and version"


def _child(found: Found, read: Read, answer: Connection) -> None:
    # ^C ends the reading, which the parent does: it prints what it has.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    try:
        outcome = read(found)
    except MemoryError:
        outcome = Outcome(found, trouble=f"cannot be read: it takes more than {MOST_BYTES >> 30} GiB of memory")
    answer.send(outcome)
    answer.close()
