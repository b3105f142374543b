"""Prepares the standard streams, and shows the progress of a command on a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

# Each row: (name, descriptor, flags, mode). A closed stream becomes /dev/null, so that no socket gets the descriptor.
_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_RDONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))
_CLEAR_LINE = "\r\x1b[K"
_MAX_NAMES_LENGTH = 60
_USUAL_COLUMNS = 80


def prepare_streams() -> None:
    """Reopen closed streams, and let standard output replace unsupported characters."""
    for name, descriptor, flags, mode in _STREAMS:
        if getattr(sys, name) is None:
            _open_null(descriptor, flags)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    _replace_missing_characters(sys.stdout)


def _open_null(descriptor: int, flags: int) -> None:
    null_descriptor = os.open(os.devnull, flags)
    if null_descriptor != descriptor:
        os.dup2(null_descriptor, descriptor)
        os.close(null_descriptor)
    os.set_inheritable(descriptor, True)  # noqa: FBT003  # the standard library's own signature


def _replace_missing_characters(stream: TextIO) -> None:
    """Show `?` for characters that a terminal does not support."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def say(message: str, program: str = "telemetry") -> None:
    """Write the program's name and the message to standard error, with control characters replaced."""
    from telemetry_exporters.text import clean

    sys.stderr.write(f"{program}: {clean(message)}\n")


def terminal_width() -> int:
    """Return the width of the terminal, by default 80."""
    columns_text = os.environ.get("COLUMNS", "")
    if columns_text.isascii() and columns_text.isdecimal() and int(columns_text) > 0:
        return int(columns_text)
    try:
        return os.get_terminal_size(1).columns or _USUAL_COLUMNS
    except OSError:  # no terminal, or a terminal without a size
        return _USUAL_COLUMNS


def show_waiting(sources: Sequence[str]) -> None:
    """Show what the command waits for, or clear the line if there are no sources."""
    names_text = ", ".join(sources)
    shown_text = names_text if len(names_text) <= _MAX_NAMES_LENGTH else f"{names_text[:_MAX_NAMES_LENGTH]}…"
    show_progress(f"waiting for {shown_text}" if sources else "")


def show_progress(text: str) -> None:
    """Replace the current line with this text if standard error is a terminal."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stderr.write(_CLEAR_LINE + text)
        sys.stderr.flush()
