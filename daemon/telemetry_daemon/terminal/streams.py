"""Prepares the standard streams, and shows a command's progress on a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

# A closed stream gets /dev/null in the wrong mode, so that reading or writing still fails (EBADF). Otherwise the next file
# or socket would get the descriptor, and the log would be written into it.
_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_RDONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))
_CLEAR_LINE = "\r\x1b[K"
_LONGEST = 60
_USUAL_COLUMNS = 80


def prepare() -> None:
    """Open closed streams, and let standard output replace characters that its encoding does not have."""
    for name, descriptor, flags, mode in _STREAMS:
        if getattr(sys, name) is None:
            _open_null(descriptor, flags)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    _replace_missing_characters(sys.stdout)


def _open_null(descriptor: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)  # noqa: FBT003  # the standard library's own signature


def _replace_missing_characters(stream: TextIO) -> None:
    """Let a terminal show `?` for characters missing in its encoding. Files and pipes get UTF-8, as the formats demand."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def say(text: str, who: str = "telemetry") -> None:
    """Write a line on standard error, without control characters: a quoted name could control the terminal."""
    from telemetry_exporters.text import clean

    sys.stderr.write(f"{who}: {clean(text)}\n")


def columns() -> int:
    """Return the width by $COLUMNS or the terminal, else 80. shutil has the same function, but its import takes 5 ms."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(1).columns or _USUAL_COLUMNS
    except OSError:  # no terminal, or the terminal does not report its size
        return _USUAL_COLUMNS


def show_waiting(names: Sequence[str]) -> None:
    """Show the names that are waited for. Without names, clear the line."""
    listed = ", ".join(names)
    shown = listed if len(listed) <= _LONGEST else f"{listed[:_LONGEST]}…"
    show_progress(f"waiting for {shown}" if names else "")


def show_progress(text: str) -> None:
    """Replace the current line by this text, on a terminal that can clear a line."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stderr.write(_CLEAR_LINE + text)
        sys.stderr.flush()
