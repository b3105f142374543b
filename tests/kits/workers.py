"""Workers for tests: with a stopped clock, launchers that count, processes that cannot be killed."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kits.waiting import PATIENCE_SECONDS, comes_true
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.processes.worker import Worker
from telemetry_parsers.codec.worker_wire import Parse
from telemetry_parsers.model import Capture, Library, Output

NAUGHTY = Path(__file__).parents[1] / "processes" / "naughty_plugin.py"


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class CountingLauncher:
    """Starts real processes and counts them; `change` may replace the worker's program."""

    def __init__(self, change: Callable[[LaunchRequest], LaunchRequest] = lambda what: what) -> None:
        self.launches: list[LaunchRequest] = []
        self.pids: list[int] = []
        self._change = change

    def __call__(self, what: LaunchRequest) -> Process:
        self.launches.append(what)
        process = launch(self._change(what))
        self.pids.append(process.pid)
        return process


class UnkillableProcess:
    """A real process that ignores every signal until it is released, as one in uninterruptible sleep."""

    def __init__(self, process: Process) -> None:
        self.held = True
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> int:
        return self._process.stdout

    @property
    def stderr(self) -> int:
        return self._process.stderr

    def has_exited(self) -> bool:
        return not self.held and self._process.has_exited()

    def signal(self, number: int) -> None:
        if not self.held:
            self._process.signal(number)

    def reap(self) -> Any:
        return self._process.reap()

    def is_group_gone(self) -> bool:
        return not self.held and self._process.is_group_gone()

    def close(self) -> None:
        self._process.close()

    def let_go(self) -> None:
        """Release the process, so that received signals take effect."""
        self.held = False
        self._process.signal(9)


def shell(script: str) -> Callable[[LaunchRequest], LaunchRequest]:
    """Return a `change` that runs a shell script in place of the worker, cheap enough for hundreds of starts."""
    return lambda what: LaunchRequest("/bin/sh", ("-c", script), what.environment, what.inherited_descriptors)


def parse_question(poll: str, *texts: str) -> Parse:
    """Return a request whose poll name tells the naughty plugin how to misbehave."""
    capture = Capture("naughty", poll, Library("naughty"), tuple(Output(text=text) for text in texts))
    return Parse(f"{NAUGHTY}:PARSER", capture)


def problem_texts(result: Any) -> list[str]:
    return [problem["text"] for problem in result["problems"]]


@contextmanager
def closing(worker: Worker) -> Iterator[Worker]:
    try:
        yield worker
    finally:
        worker.close()


def new_worker(**given: Any) -> Worker:
    """Return a worker that knows the naughty plugin's readers."""
    readers: Mapping[str, str] = {"naughty": f"{NAUGHTY}:READER", "broken": f"{NAUGHTY}:BROKEN_READER"}
    return Worker("naughty", readers, **given)


@contextmanager
def hanging_call(worker: Worker, folder: Path, seconds: float = PATIENCE_SECONDS) -> Iterator[Future[Any]]:
    """Start a call in another thread that hangs in the worker."""
    begun = folder / "begun"
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(worker.call, parse_question("hang", str(begun)), seconds)
        assert comes_true(begun.exists)
        yield call


def python_path(*folders: Path) -> dict[str, str]:
    """Return an environment in which workers also find modules in these folders."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders), "PATH": os.defpath}


PYTHON = sys.executable
