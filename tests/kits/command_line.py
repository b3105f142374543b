"""Command lines of `telemetry` in the process of the tests: no new Python has to start."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, TextIO
from unittest.mock import patch

from kits.daemon import clean_environment
from telemetry_daemon.cli import main

# `serve` does not end by itself; `job` ends the whole process, and `top` needs a terminal.
_NEEDS_A_PROCESS = ("serve", "job", "top")


class Completed(NamedTuple):
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


def run_main(
    *arguments: str, environment: Mapping[str, str] | None = None, stdin: str | bytes | None = None
) -> Completed:
    """Run a command; its environment is ours without settings of ours and with these."""
    assert arguments[:1] not in [(name,) for name in _NEEDS_A_PROCESS], f"{arguments[0]} needs a process of its own"
    given = stdin.encode() if isinstance(stdin, str) else stdin or b""
    with ExitStack() as stack:
        streams = [stack.enter_context(_stream()) for _ in range(3)]
        streams[0].buffer.write(given)
        streams[0].seek(0)
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            stack.enter_context(patch.object(sys, name, stream))
        stack.enter_context(patch.dict(os.environ, clean_environment(environment or {}), clear=True))
        stack.enter_context(_own_signals())
        stack.enter_context(_own_logging())
        status = _status(arguments)
        return Completed(status, *(_written(stream) for stream in streams[1:]))


def _stream() -> TextIO:
    """A stream with a descriptor, as the command may ask for its number."""
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
def _own_signals() -> Iterator[None]:
    """Take back the handlers of signals that a command sets for the rest of its life."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Take back the level and the handlers that a command gives to the log."""
    root, raises = logging.getLogger(), logging.raiseExceptions
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        logging.raiseExceptions = raises
