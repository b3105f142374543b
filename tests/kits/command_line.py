"""Run command lines of `telemetry` in the process of the tests, without starting Python."""

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TextIO
from unittest.mock import patch

from kits.daemon import clean_environment
from telemetry_daemon.cli import main

# `serve` does not return, `job` exits the process, and `top` needs a terminal.
_NEEDS_A_PROCESS = ("serve", "job", "top")


class Completed(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """Return standard output with line breaks replaced by blanks."""
        return " ".join(self.stdout.split())


def run_main(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    errors: TextIO | None = None,
) -> Completed:
    """Run a command with these settings and no others in its environment. `errors` may replace standard error."""
    assert arguments[:1] not in [(name,) for name in _NEEDS_A_PROCESS], f"{arguments[0]} needs a process of its own"
    with _left_as_it_was(), _stream() as given, _stream() as output, _stream() as standard_error:
        given.buffer.write(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        given.seek(0)
        with (
            patch.multiple(sys, stdin=given, stdout=output, stderr=errors or standard_error),
            patch.dict(os.environ, clean_environment(environment or {}), clear=True),
        ):
            status = _status(arguments)
        return Completed(status, _written(output), _written(standard_error))


def _stream() -> TextIO:
    """Return a stream with a file descriptor, because a command may use its number."""
    return io.TextIOWrapper(os.fdopen(os.memfd_create("stream"), "w+b"), encoding="utf-8")


def _written(stream: TextIO) -> str:
    stream.flush()
    stream.seek(0)
    return stream.buffer.read().decode()


def _status(arguments: tuple[str, ...]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0


@contextmanager
def _left_as_it_was() -> Iterator[None]:
    """Restore the handlers of signals and of the log after a command."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    root, raises = logging.getLogger(), logging.raiseExceptions
    level, logs = root.level, list(root.handlers)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        root.setLevel(level)
        root.handlers[:] = logs
        logging.raiseExceptions = raises
