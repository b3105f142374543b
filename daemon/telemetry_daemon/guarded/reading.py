"""Reads files that others may have put there: regular files only, without waiting for anybody, and up to a limit.

No pathlib: importing it costs every worker 0.4 MiB.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import BinaryIO

_CHUNK_BYTES = 16 << 10
# A pipe without a writer, and a file that somebody holds a lease on, answer at once; a terminal does not become ours.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "it is a folder; name the file in it",
    stat.S_IFLNK: "it is a link, which is not followed here",
    stat.S_IFIFO: "it is a pipe, not a regular file",
    stat.S_IFSOCK: "it is a socket, not a regular file",
    stat.S_IFCHR: "it is a device, not a regular file",
    stat.S_IFBLK: "it is a device, not a regular file",
}


class NotAFileError(OSError):
    """It is no regular file; `strerror` says what it is."""

    def __init__(self, mode: int, path: str) -> None:
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        super().__init__(number, _KINDS.get(stat.S_IFMT(mode), "it is not a regular file"), path)


class TooLargeError(OSError):
    """A file is larger than may be read; `strerror` says how much may be."""

    def __init__(self, limit_bytes: int, path: str) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {_in_words(limit_bytes)}", path)


def read_file(path: str, limit_bytes: int, folder: int | None = None) -> bytes:
    """The content of a regular file up to the limit, else OSError. Below a folder's descriptor no link is followed.

    Anything else is not even opened: opening a device may wake it, opening a pipe may let another process go on.
    """
    descriptor = open_file(path, folder)
    try:
        if os.fstat(descriptor).st_size > limit_bytes:
            raise TooLargeError(limit_bytes, path)
        # It may grow, or be a file of /sys, whose size says nothing.
        return _content(lambda size: os.read(descriptor, size), limit_bytes, path)
    finally:
        os.close(descriptor)


def text_at(path: str, limit_bytes: int = 1 << 20) -> str:
    """The text of a file, stripped; empty where there is none that can be read: for what is told if it is there."""
    try:
        return read_file(path, limit_bytes).decode("utf-8", "replace").strip()
    except OSError:  # what the docstring says
        return ""


def open_file(path: str, folder: int | None = None) -> int:
    """A descriptor to read a regular file of any size, else OSError; links as for `read_file`."""
    follow = folder is None
    if not stat.S_ISREG(mode := os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode):  # no pathlib
        raise NotAFileError(mode, path)
    descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):  # another was put there meanwhile
        os.close(descriptor)
        raise NotAFileError(mode, path)
    return descriptor


def read_stream(stream: BinaryIO, limit_bytes: int, name: str) -> bytes:
    """All bytes of a stream that the user named, such as a pipe; TooLargeError if there are too many."""
    return _content(stream.read, limit_bytes, name)


def read_named(path: str, limit_bytes: int) -> bytes:
    """All bytes of a file, device or pipe that the user named, else OSError. A pipe without a writer is refused: it may never have one."""
    descriptor = os.open(path, _FLAGS)
    try:
        first = _first_bytes(descriptor)
        if first == b"" and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe to which no process writes", path)
        os.set_blocking(descriptor, True)
        pieces = iter([first] if first else [])
        return _content(lambda size: next(pieces, None) or os.read(descriptor, size), limit_bytes, path)
    finally:
        os.close(descriptor)


def _first_bytes(descriptor: int) -> bytes | None:
    """The first bytes, empty at the end; None where a writer may still write some."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except BlockingIOError:
        return None


def _content(read: Callable[[int], bytes], limit_bytes: int, name: str) -> bytes:
    content = bytearray()
    while chunk := read(_CHUNK_BYTES):
        content += chunk
        if len(content) > limit_bytes:
            raise TooLargeError(limit_bytes, name)
    return bytes(content)


def _in_words(count: int) -> str:
    units = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
    return next(
        (f"{count // unit} {name}" for unit, name in units if count >= unit and not count % unit), f"{count} bytes"
    )
