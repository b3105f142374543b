"""A plugin that misbehaves as the poll's name says; workers under test load it by its path."""

import contextlib
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library import CallError, ReaderRefusal
from telemetry_parsers.model import Capture, Command, Poll, Problem, Reading, Report


def _no_core_file() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _segfault() -> None:
    _no_core_file()
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise() -> None:
    raise ValueError("no such\ncard")


class _WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise_wordless() -> None:
    raise _WordlessError


def _ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


def _spin() -> None:
    while True:
        pass


def _pipes() -> list[int]:
    """Return the descriptors of the protocol's pipes."""
    return [number for number in _descriptors() if number > 2 and stat.S_ISFIFO(os.fstat(number).st_mode)]


def _descriptors() -> list[int]:
    found = []
    for number in range(64):
        with contextlib.suppress(OSError):  # most of these numbers are no open file
            os.fstat(number)
            found.append(number)
    return found


def _to_every_pipe(line: bytes) -> None:
    """Write to every pipe, as a library does that confuses descriptors."""
    for pipe in _pipes():
        with contextlib.suppress(OSError):  # most of these numbers are no open file
            os.write(pipe, line)


def _flood() -> None:
    """Write more than the limit to the pipe of answers, without a line end."""
    for _ in range(200):
        _to_every_pipe(b"x" * (1 << 16))


def _leave_a_child_with_the_pipes() -> None:
    """Leave a child process that holds every pipe open."""
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    os._exit(7)


def _print() -> None:
    print("loading firmware", flush=True)
    os.write(1, b"1 device\n")
    sys.stderr.write("warning: old firmware\n")
    os.write(1, b"x" * 300_000)


def _read_stdin() -> None:
    if sys.stdin.read() != "":
        raise AssertionError("standard input is not empty")


def _die_with_words() -> None:
    sys.stderr.write("libacme: cannot map BAR0\n")
    sys.stderr.flush()
    os._exit(3)


def _burn_cpu() -> None:
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass


ACTIONS: Mapping[str, Callable[[], None]] = {
    "raise": _raise,
    "raise-wordless": _raise_wordless,
    "exit": lambda: sys.exit(4),
    "die": lambda: os._exit(3),
    "die-with-words": _die_with_words,
    "segfault": _segfault,
    "hang": lambda: time.sleep(3600),
    "ignore-sigterm": _ignore_sigterm,
    "spin": _spin,
    "garbage": lambda: _to_every_pipe(b"Segment 3 ready\n"),
    "another-answer": lambda: _to_every_pipe(b'{"id": 0, "cpu_seconds": 0, "error": null, "result": 1}\n'),
    "flood": _flood,
    "leave-a-child": _leave_a_child_with_the_pipes,
    "print": _print,
    "read-stdin": _read_stdin,
    "burn-cpu": _burn_cpu,
}


def _with_problems(*texts: str) -> Report:
    return Report(problems=tuple(Problem("", text) for text in texts))


RESULTS: Mapping[str, Callable[[], Any]] = {
    "not-a-report": lambda: {"readings": []},
    "nan": lambda: Report(readings=(Reading(None, "power_watts", float("nan")),)),
    "huge": lambda: _with_problems("x" * (9 << 20)),
    "large": lambda: _with_problems("x" * (1 << 20)),
    "modules": lambda: _with_problems(*sorted(sys.modules)),
    "descriptors": lambda: _with_problems(*map(str, _descriptors())),
    "environment": lambda: _with_problems(*sorted(os.environ)),
    "working-directory": lambda: _with_problems(os.getcwd()),  # noqa: PTH109  # workers do without pathlib, and a test looks
    "flags": lambda: _with_problems(str(sys.flags)),
    "number": lambda: _with_problems(str(_counted())),
}
_CALLS: list[None] = []


def _counted() -> int:
    _CALLS.append(None)
    return len(_CALLS)


def parse(capture: Capture) -> Any:
    """Do what the poll's name says; return the outputs' texts as problems. `hang` first creates the file they name."""
    if capture.poll == "hang":
        for output in capture.outputs:
            os.close(os.open(output.text, os.O_CREAT))
    ACTIONS.get(capture.poll, lambda: None)()
    if capture.poll in RESULTS:
        return RESULTS[capture.poll]()
    return _with_problems(*(output.text for output in capture.outputs))


PARSER = SourceParser(
    name="naughty",
    vendor="acme",
    gives=("power_watts",),
    polls=(Poll("all", Command((("naughty-smi",),))),),
    parse=parse,
)


class NaughtyReader:
    """A library reader whose calls are named after what they do."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0

    def open(self) -> None:
        self.opened += 1

    def read(self, calls: Sequence[str]) -> Any:
        for call in calls:
            ACTIONS.get(call, lambda: None)()
            if call.startswith("refuse "):
                state, reason = call.removeprefix("refuse ").split(" ")
                raise ReaderRefusal(state, None if reason == "-" else reason, "the library said so")  # type: ignore[arg-type]  # a bad word is a case
            if call == "list":
                return [1]
        answers = {"counts": {"opened": self.opened, "closed": self.closed}, "nan": float("nan"), "bytes": b"x"}
        errors = {"lost": CallError(15, "GPU is lost")}
        results: Mapping[str, Any] = {**answers, **errors}
        return {call: results.get(call, 1.5) for call in calls}

    def close(self) -> None:
        """Count the call, and create the file that the environment names."""
        self.closed += 1
        if file := os.environ.get("CLOSED"):
            os.close(os.open(file, os.O_CREAT))


READER = NaughtyReader()


class BrokenReader(NaughtyReader):
    """A reader that fails to open the first time, and fails at every close."""

    def open(self) -> None:
        super().open()
        if self.opened == 1:
            raise OSError(5, "the device does not answer")

    def close(self) -> None:
        super().close()
        raise OSError(5, "nor does it let go")


BROKEN_READER = BrokenReader()
