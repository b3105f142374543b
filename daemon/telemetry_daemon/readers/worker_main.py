"""The worker process: runs a plugin's code and asks libraries, one JSON line in, one JSON line out.

A request is `{"id", "operation", "payload", "seconds"}`, an answer `{"id", "cpu_seconds", "error", "result"}`.
It ends when the request pipe does. Only the standard library and the types are imported: every worker pays for them.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from telemetry_daemon.readers.targets import BrokenProtocolError, load, told
from telemetry_parsers.checks.shape import shape_violations
from telemetry_parsers.codec.captures import (
    capture_from_plain,
    decode_line,
    encode_line,
    failure_to_plain,
    output_to_plain,
    parser_to_plain,
    report_to_plain,
    request_from_plain,
)
from telemetry_parsers.contract import Parser
from telemetry_parsers.library import CallError, LibraryReader, ReaderRefusal
from telemetry_parsers.model import Failure, Files, Library, Output, Plain, Report

ANSWER_LIMIT_BYTES = 8 << 20

# A worker whose daemon was killed while a call hangs is ended by the kernel this long after the call's deadline.
_ALARM_MARGIN_SECONDS = 5


class Workbench:
    """What this worker has loaded: parsers and open library readers, by target (`module:attribute` or `/file.py:attribute`)."""

    def __init__(self) -> None:
        self._parsers: dict[str, Parser] = {}
        self._readers: dict[str, LibraryReader] = {}

    def perform(self, operation: str, payload: Plain) -> Plain:
        """The result of one request."""
        if operation == "describe":
            return parser_to_plain(self._parser(payload["parser"]))
        if operation == "parse":
            return self._parse(payload)
        if operation == "read":
            return self._read(payload)
        raise BrokenProtocolError(f"unknown operation {operation!r}")

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

    def _parse(self, payload: Plain) -> Plain:
        capture = capture_from_plain(payload["capture"])
        report: Any = self._parser(payload["parser"]).parse(capture)
        if not isinstance(report, Report):
            raise BrokenProtocolError(f"parse returned {type(report).__name__}, not a Report")
        return report_to_plain(report)

    def _read(self, payload: Plain) -> Plain:
        request = request_from_plain(payload["request"])
        try:
            if isinstance(request, Library):
                outputs = self._ask_library(payload["reader"], request)
            elif isinstance(request, Files):
                outputs = _read_files(request, payload["root"])
            else:
                raise BrokenProtocolError("a worker runs no commands")
        except ReaderRefusal as refusal:
            failure = Failure(refusal.state, refusal.reason, refusal.text)
            return {"outputs": [], "failure": failure_to_plain(failure)}
        return {"outputs": [output_to_plain(output) for output in outputs], "failure": None}

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
            sys.stderr.write(f"closing {target}: {told(error)}\n")


def serve(requests: int, answers: int) -> None:
    """Answer request after request until the pipe of requests ends."""
    workbench = Workbench()
    with open(requests, "rb") as lines:
        for line in lines:
            request = decode_line(line)
            signal.alarm(math.ceil(request["seconds"]) + _ALARM_MARGIN_SECONDS)
            _send(answers, _answer(workbench, request))
            signal.alarm(0)
    signal.alarm(_ALARM_MARGIN_SECONDS)
    workbench.close()


def main(arguments: Sequence[str]) -> None:
    """Serve the pipe whose descriptor is the last argument; what comes before only names the worker in `ps`."""
    requests = int(arguments[-1])
    os.set_inheritable(requests, False)  # noqa: FBT003  # the standard library's signature
    _default_signals()
    # Prints of a library must not become answers: the real standard output is put away, 1 becomes standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        serve(requests, answers)
    except BrokenPipeError:
        os._exit(1)  # the daemon is gone and hears nothing any more
    sys.stderr.flush()
    os._exit(0)  # no thread or exit handler of a plugin can keep the process


def _default_signals() -> None:
    """What the daemon's threads block or ignore is inherited; a worker must be open to its end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def _answer(workbench: Workbench, request: Plain) -> bytes:
    try:
        result = workbench.perform(request["operation"], request["payload"])
        line = _line(request, None, result)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the isolation border: whatever a plugin raises is an answer
        line = _line(request, {"reason": "internal", "text": told(error)}, None)
    if len(line) > ANSWER_LIMIT_BYTES:
        text = f"an answer of {len(line)} bytes, the limit is {ANSWER_LIMIT_BYTES}"
        line = _line(request, {"reason": "too_much_output", "text": text}, None)
    return line


def _line(request: Plain, error: dict[str, str] | None, result: Plain) -> bytes:
    cpu_seconds = time.process_time() + sum(os.times()[2:4])
    answer = {"id": request["id"], "cpu_seconds": cpu_seconds, "error": error, "result": result}
    return encode_line(answer).encode("ascii") + b"\n"


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
