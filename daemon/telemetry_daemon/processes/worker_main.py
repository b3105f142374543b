"""The main program of a worker: answers requests until its input closes."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from telemetry_daemon.processes.targets import PluginProtocolError, describe_error, load_target
from telemetry_parsers.codec.plain import decode_line
from telemetry_parsers.codec.worker_answer import answer_line, failure, fault, output, read_result
from telemetry_parsers.library import CallError, LibraryReader, ReaderRefusal
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_daemon.processes.parsing import ParserRunner
    from telemetry_parsers.model import Plain

# The kernel kills a hung worker this many seconds after the deadline of its call.
_ALARM_MARGIN_SECONDS = 5


class RequestHandler:
    """Performs requests with parsers and library readers, which stay loaded between requests."""

    def __init__(self) -> None:
        self._parser_runner: ParserRunner | None = None
        self._readers: dict[str, LibraryReader] = {}

    def perform(self, request: dict[str, Plain]) -> Plain:
        """Perform a serialized request, and return the serialized result."""
        if request["ask"]["kind"] == "read":
            return self._read_source(request["ask"])
        if self._parser_runner is None:
            # This imports the model, which only a plugin's worker needs.
            from telemetry_daemon.processes.parsing import ParserRunner

            self._parser_runner = ParserRunner()
        return self._parser_runner.perform(request)

    def close(self) -> None:
        """Close all library readers."""
        for target in tuple(self._readers):
            self._close_reader(target)

    def _read_source(self, message: dict[str, Plain]) -> Plain:
        request = message["request"]
        try:
            if request["kind"] == "library":
                return read_result(self._call_library(message["reader"], request["calls"]))
            if request["kind"] == "files":
                return read_result(_read_files(request, message["root"]))
        except ReaderRefusal as refusal:
            return read_result(failed=failure(refusal.state, refusal.reason, refusal.text))
        raise PluginProtocolError("a worker cannot run commands")

    def _call_library(self, target: str, calls: Sequence[str]) -> list[Plain]:
        if target not in self._readers:
            reader: Any = load_target(target)
            self._readers[target] = reader
            self._call_reader(target, reader.open)
        answers = self._call_reader(target, self._readers[target].read, tuple(calls))
        if not isinstance(answers, Mapping):
            raise PluginProtocolError(f"read() must return a mapping of answers, not {type(answers).__name__}")
        return [_library_output(str(call), answer) for call, answer in answers.items()]

    def _call_reader(self, target: str, function: Any, *arguments: Any) -> Any:
        """Call a reader's function. Close the reader after an exception."""
        try:
            return function(*arguments)
        except BaseException:
            self._close_reader(target)
            raise

    def _close_reader(self, target: str) -> None:
        reader = self._readers.pop(target)
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001 # foreign code may raise any exception
            sys.stderr.write(f"closing {target}: {describe_error(error)}\n")


def serve(request_descriptor: int, answer_descriptor: int) -> None:
    """Answer requests until the input pipe ends, then close all readers."""
    handler = RequestHandler()
    with open(request_descriptor, "rb") as lines:
        for line in lines:
            request = decode_line(line)
            signal.alarm(math.ceil(request["seconds"]) + _ALARM_MARGIN_SECONDS)
            _write_all(answer_descriptor, _answer_to(handler, request))
            signal.alarm(0)
    signal.alarm(_ALARM_MARGIN_SECONDS)
    handler.close()


def main(arguments: Sequence[str]) -> None:
    """Answer requests. The last argument is the number of the request descriptor."""
    request_descriptor = int(arguments[-1])
    os.set_inheritable(request_descriptor, False)  # noqa: FBT003  # the standard library's signature
    _reset_signals()
    # A library's output must not be mistaken for an answer, so descriptor 1 becomes standard error.
    answer_descriptor = os.dup(1)
    os.dup2(2, 1)
    try:
        serve(request_descriptor, answer_descriptor)
    except BrokenPipeError:
        os._exit(1)  # the daemon has exited
    sys.stderr.flush()
    os._exit(0)  # threads and exit handlers of plugins must not keep the process alive


def _reset_signals() -> None:
    """Unblock all signals, and let SIGTERM and SIGALRM terminate the worker."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for signal_number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(signal_number, signal.SIG_DFL)


def _answer_to(handler: RequestHandler, request: dict[str, Plain]) -> bytes:
    request_id = request["id"]
    try:
        result = handler.perform(request)
        return answer_line(request_id, _cpu_seconds(), None, result)
    except (Exception, SystemExit) as error:  # noqa: BLE001 # any exception of a plugin becomes an answer
        return answer_line(request_id, _cpu_seconds(), fault("internal", describe_error(error)), None)


def _cpu_seconds() -> float:
    return time.process_time() + sum(os.times()[2:4])


def _write_all(descriptor: int, line: bytes) -> None:
    remaining = memoryview(line)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _read_files(request: dict[str, Plain], root: str) -> list[Plain]:
    from telemetry_daemon.processes.driver_files import read_files  # not needed by other workers

    return read_files(request, root)


def _library_output(call: str, answer: Plain | CallError) -> Plain:
    if isinstance(answer, CallError):
        return output(call, status=answer.status, stderr=answer.text)
    return output(call, status=0, data=answer)


if __name__ == "__main__":
    main(sys.argv[1:])
