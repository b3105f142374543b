"""The main program of a worker, which answers questions until its pipe closes. It imports neither the model nor dataclasses nor pathlib."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telemetry_daemon.processes.targets import BrokenProtocolError, in_one_line, load
from telemetry_parsers.codec.plain import decode_line
from telemetry_parsers.codec.worker_answer import answer_line, failure, fault, output, readout
from telemetry_parsers.library import CallError, LibraryReader, ReaderRefusal

if TYPE_CHECKING:
    from telemetry_daemon.processes.parsing import Parsers
    from telemetry_parsers.model import Plain

# If the daemon was killed during a hung call, the kernel ends the worker this long after the call's deadline.
_ALARM_MARGIN_SECONDS = 5


class Workbench:
    """The loaded parsers and open library readers, by target (`module:attribute` or `/file.py:attribute`)."""

    def __init__(self) -> None:
        self._parsers: Parsers | None = None
        self._readers: dict[str, LibraryReader] = {}

    def perform(self, question: dict[str, Plain]) -> Plain:
        """Return the result of one question in plain form; `worker_wire.py` defines the questions."""
        if question["ask"]["kind"] == "read":
            return self._read(question["ask"])
        if self._parsers is None:
            from telemetry_daemon.processes.parsing import (
                Parsers,
            )  # imports the model, which only a plugin's worker needs

            self._parsers = Parsers()
        return self._parsers.perform(question)

    def close(self) -> None:
        """Close every open reader."""
        for target in tuple(self._readers):
            self._close_reader(target)

    def _read(self, what: dict[str, Plain]) -> Plain:
        request = what["request"]
        try:
            if request["kind"] == "library":
                return readout(self._ask_library(what["reader"], request["calls"]))
            if request["kind"] == "files":
                return readout(_read_files(request, what["root"]))
        except ReaderRefusal as refusal:
            return readout(failed=failure(refusal.state, refusal.reason, refusal.text))
        raise BrokenProtocolError("a worker runs no commands")

    def _ask_library(self, target: str, calls: Sequence[str]) -> list[Plain]:
        if target not in self._readers:
            reader: Any = load(target)
            self._readers[target] = reader
            self._guarded(target, reader.open)
        answers = self._guarded(target, self._readers[target].read, tuple(calls))
        if not isinstance(answers, Mapping):
            raise BrokenProtocolError(f"read returned {type(answers).__name__}, not a mapping of calls")
        return [_output(str(call), answer) for call, answer in answers.items()]

    def _guarded(self, target: str, function: Any, *arguments: Any) -> Any:
        """Return the function's result. If it raises, close the reader; the next poll reopens it."""
        try:
            return function(*arguments)
        except BaseException:
            self._close_reader(target)
            raise

    def _close_reader(self, target: str) -> None:
        reader = self._readers.pop(target)
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001 # foreign code; its resources go with this process
            sys.stderr.write(f"closing {target}: {in_one_line(error)}\n")


def serve(questions: int, answers: int) -> None:
    """Answer questions until their pipe ends."""
    workbench = Workbench()
    with open(questions, "rb") as lines:
        for line in lines:
            question = decode_line(line)
            signal.alarm(math.ceil(question["seconds"]) + _ALARM_MARGIN_SECONDS)
            _send(answers, _answer(workbench, question))
            signal.alarm(0)
    signal.alarm(_ALARM_MARGIN_SECONDS)
    workbench.close()


def main(arguments: Sequence[str]) -> None:
    """Serve the pipe whose descriptor is the last argument; the other arguments only name the worker in `ps`."""
    questions = int(arguments[-1])
    os.set_inheritable(questions, False)  # noqa: FBT003  # the standard library's signature
    _default_signals()
    # A library's prints must not become answers: standard output is moved away, and descriptor 1 becomes standard
    # error.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        serve(questions, answers)
    except BrokenPipeError:
        os._exit(1)  # the daemon is gone and reads no answers
    sys.stderr.flush()
    os._exit(0)  # no thread or exit handler of a plugin can keep the process alive


def _default_signals() -> None:
    """Reset the signals that the daemon's threads block or ignore, so that the worker can be ended."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def _answer(workbench: Workbench, question: dict[str, Plain]) -> bytes:
    number = question["id"]
    try:
        result = workbench.perform(question)
        return answer_line(number, _cpu_seconds(), None, result)
    except (Exception, SystemExit) as error:  # noqa: BLE001 # the isolation boundary: any exception of a plugin becomes an answer
        return answer_line(number, _cpu_seconds(), fault("internal", in_one_line(error)), None)


def _cpu_seconds() -> float:
    return time.process_time() + sum(os.times()[2:4])


def _send(descriptor: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(descriptor, left) :]


def _read_files(request: dict[str, Plain], root: str) -> list[Plain]:
    from telemetry_daemon.processes.driver_files import read_files  # only some workers read files

    return read_files(request, root)


def _output(call: str, answer: Plain | CallError) -> Plain:
    if isinstance(answer, CallError):
        return output(call, status=answer.status, stderr=answer.text)
    return output(call, status=0, data=answer)


if __name__ == "__main__":
    main(sys.argv[1:])
