"""What runs in a worker process: it answers one question after another, with a plugin's code or a library's.

It ends when the pipe of questions does. Only the standard library and the types are imported: every worker pays for them.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from telemetry_daemon.workers.targets import BrokenProtocolError, in_one_line, load
from telemetry_parsers.checks.shape import shape_violations
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.wire import (
    Answer,
    Ask,
    Describe,
    Fault,
    Parse,
    Question,
    Read,
    Readout,
    answer_line,
    question_in,
)
from telemetry_parsers.contract import Parser
from telemetry_parsers.library import CallError, LibraryReader, ReaderRefusal
from telemetry_parsers.model import Failure, Files, Library, Output, Plain, Report

# A worker whose daemon was killed while a call hangs is ended by the kernel this long after the call's deadline.
_ALARM_MARGIN_SECONDS = 5


class Workbench:
    """What this worker has loaded: parsers and open library readers, by target (`module:attribute` or `/file.py:attribute`)."""

    def __init__(self) -> None:
        self._parsers: dict[str, Parser] = {}
        self._readers: dict[str, LibraryReader] = {}

    def perform(self, what: Ask) -> Plain:
        """The result of one question in plain form."""
        if isinstance(what, Describe):
            return to_plain(DescribedParser, self._parser(what.parser))
        if isinstance(what, Parse):
            return self._parse(what)
        return to_plain(Readout, self._read(what))

    def close(self) -> None:
        """Close every open reader."""
        for target in tuple(self._readers):
            self._close_reader(target)

    def _parser(self, target: str) -> Parser:
        if target not in self._parsers:
            parser: Any = load(target)
            violations = shape_violations(parser)
            if violations:
                raise BrokenProtocolError("; ".join(violations))
            self._parsers[target] = parser
        return self._parsers[target]

    def _parse(self, what: Parse) -> Plain:
        report: Any = self._parser(what.parser).parse(what.capture)
        if not isinstance(report, Report):
            raise BrokenProtocolError(f"parse returned {type(report).__name__}, not a Report")
        return to_plain(Report, report)

    def _read(self, what: Read) -> Readout:
        try:
            if isinstance(what.request, Library):
                return Readout(self._ask_library(what.reader, what.request))
            if isinstance(what.request, Files):
                return Readout(_read_files(what.request, what.root))
        except ReaderRefusal as refusal:
            return Readout(failure=Failure(refusal.state, refusal.reason, refusal.text))
        raise BrokenProtocolError("a worker runs no commands")

    def _ask_library(self, target: str, request: Library) -> tuple[Output, ...]:
        if target not in self._readers:
            reader: Any = load(target)
            self._readers[target] = reader
            self._guarded(target, reader.open)
        answers = self._guarded(target, self._readers[target].read, request.calls)
        if not isinstance(answers, Mapping):
            raise BrokenProtocolError(f"read returned {type(answers).__name__}, not a mapping of calls")
        return tuple(_output(str(call), answer) for call, answer in answers.items())

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
            question = question_in(line)
            signal.alarm(math.ceil(question.seconds) + _ALARM_MARGIN_SECONDS)
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


def _answer(workbench: Workbench, question: Question) -> bytes:
    try:
        return _line(question, None, workbench.perform(question.ask))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the isolation border: whatever a plugin raises is an answer
        return _line(question, Fault("internal", in_one_line(error)), None)


def _line(question: Question, error: Fault | None, result: Plain) -> bytes:
    cpu_seconds = time.process_time() + sum(os.times()[2:4])
    return answer_line(Answer(question.id, cpu_seconds, error, result))


def _send(descriptor: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(descriptor, left) :]


def _read_files(request: Files, root: str) -> tuple[Output, ...]:
    from pathlib import Path  # importing it costs every worker 0.4 MiB, and only this one needs it

    from telemetry_daemon.readers.files import read_files

    return read_files(request, Path(root))


def _output(call: str, answer: Plain | CallError) -> Output:
    if isinstance(answer, CallError):
        return Output(name=call, status=answer.status, stderr=answer.text)
    return Output(name=call, status=0, data=answer)


if __name__ == "__main__":
    main(sys.argv[1:])
