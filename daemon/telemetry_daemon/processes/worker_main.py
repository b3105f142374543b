"""What runs in a worker process: it answers one question after another, with a plugin's code or a library's.

It ends when the pipe of questions does. Every worker pays for what is imported here: no model, no dataclasses, no pathlib.
"""

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

# A worker whose daemon was killed while a call hangs is ended by the kernel this long after the call's deadline.
_ALARM_MARGIN_SECONDS = 5


class Workbench:
    """What this worker has loaded: parsers and open library readers, by target (`module:attribute` or `/file.py:attribute`)."""

    def __init__(self) -> None:
        self._parsers: Parsers | None = None
        self._readers: dict[str, LibraryReader] = {}

    def perform(self, question: dict[str, Plain]) -> Plain:
        """The result of one question in plain form; `worker_wire.py` says what a question is made of."""
        if question["ask"]["kind"] == "read":
            return self._read(question["ask"])
        if self._parsers is None:
            from telemetry_daemon.processes.parsing import Parsers  # with the model: only a plugin's worker needs it

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
        """The function's result; when it raises, the reader is closed, and opened anew by the next poll."""
        try:
            return function(*arguments)
        except BaseException:
            self._close_reader(target)
            raise

    def _close_reader(self, target: str) -> None:
        reader = self._readers.pop(target)
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001  # somebody else's code; what it held goes with this process
            sys.stderr.write(f"closing {target}: {in_one_line(error)}\n")


def serve(questions: int, answers: int) -> None:
    """Answer question after question until their pipe ends."""
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
    """Serve the pipe whose descriptor is the last argument; what comes before only names the worker in `ps`."""
    questions = int(arguments[-1])
    os.set_inheritable(questions, False)  # noqa: FBT003  # the standard library's signature
    _default_signals()
    # Prints of a library must not become answers: the real standard output is put away, 1 becomes standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        serve(questions, answers)
    except BrokenPipeError:
        os._exit(1)  # the daemon is gone and hears nothing any more
    sys.stderr.flush()
    os._exit(0)  # no thread or exit handler of a plugin can keep the process


def _default_signals() -> None:
    """What the daemon's threads block or ignore is inherited; a worker must be open to its end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def _answer(workbench: Workbench, question: dict[str, Plain]) -> bytes:
    number = question["id"]
    try:
        result = workbench.perform(question)
        return answer_line(number, _cpu_seconds(), None, result)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the isolation border: whatever a plugin raises is an answer
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
