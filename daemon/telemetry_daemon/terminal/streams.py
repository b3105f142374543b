"""The standard streams made fit for use: none of them closed, and standard output able to take every character."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

# /dev/null the wrong way round: who needs a stream that was closed gets an error (EBADF), and no file or socket that
# is opened later gets its number, which would have the log written into it.
_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_RDONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))


def prepare() -> None:
    """Open what is closed, and choose how standard output writes what its encoding lacks."""
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
