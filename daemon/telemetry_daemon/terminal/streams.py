"""The standard streams made usable, and on a terminal a line of standard error that says how far a command is."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

# /dev/null, opened the wrong way round: reading or writing the closed stream is an error (EBADF). Left closed, its number
# would go to the next file or socket, and the log would be written into that.
_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_RDONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))
_CLEAR_LINE = "\r\x1b[K"
_LONGEST = 60
_USUAL_COLUMNS = 80


def prepare() -> None:
    """Open the streams that are closed, and let standard output take characters that its encoding lacks."""
    for name, descriptor, flags, mode in _STREAMS:
        if getattr(sys, name) is None:
            _fill(descriptor, flags)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    _take_every_character(sys.stdout)


def _fill(descriptor: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)  # noqa: FBT003  # the standard library's own signature


def _take_every_character(stream: TextIO) -> None:
    """A terminal shows `?` for what its encoding lacks; files and pipes get UTF-8, as our formats are defined."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def say(text: str, who: str = "telemetry") -> None:
    """Write a line on standard error, without control characters: it may quote a name that would steer the terminal."""
    from telemetry_exporters.text import clean

    sys.stderr.write(f"{who}: {clean(text)}\n")


def columns() -> int:
    """The width that $COLUMNS or the terminal has, else 80; shutil knows it as well, and takes 5 ms to import."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(1).columns or _USUAL_COLUMNS
    except OSError:  # no terminal, or one that does not report its size
        return _USUAL_COLUMNS


def show_waiting(names: Sequence[str]) -> None:
    """Show what is waited for; nothing clears the line."""
    listed = ", ".join(names)
    shown = listed if len(listed) <= _LONGEST else f"{listed[:_LONGEST]}…"
    show_progress(f"waiting for {shown}" if names else "")


def show_progress(text: str) -> None:
    """Write this in place of the line, on a terminal that can clear it."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stderr.write(_CLEAR_LINE + text)
        sys.stderr.flush()
