"""A `telemetry` command in the process of the test: a process of its own would cost half a second of CPU time."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from typing import TextIO
from unittest import mock

from kits.daemon import clean_environment
from telemetry_daemon.cli import main


def command(*arguments: str, environment: Mapping[str, str] = {}, errors: TextIO | None = None) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command; its errors go to `errors` where that is given."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    said = io.StringIO()
    with (
        _left_as_it_was(),
        mock.patch.dict(os.environ, clean_environment(environment), clear=True),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors or said),
    ):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        output.flush()
    return status, output.buffer.getvalue().decode(), said.getvalue()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _left_as_it_was() -> Iterator[None]:
    """Undo what a command leaves in a process that it expects to end: handlers of signals and of logging."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    root = logging.getLogger()
    logs, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        root.handlers[:], root.level, logging.raiseExceptions = logs, level, raises
