"""The standard streams made usable: each is open, and standard output takes every character."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

# /dev/null, opened the wrong way round: reading or writing the closed stream is an error (EBADF). Left closed, its number
# would go to the next file or socket, and the log would be written into that.
_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_RDONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))


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
