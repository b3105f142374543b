"""Reads regular files up to a limit, without blocking."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from telemetry_parsers.typing_names import BinaryIO

_CHUNK_BYTES = 16 << 10
# Opening must neither block nor acquire a controlling terminal.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TEXT_BY_TYPE = {
    stat.S_IFDIR: "it is a folder; name the file in it",
    stat.S_IFLNK: "it is a link, which is not followed here",
    stat.S_IFIFO: "it is a pipe, not a regular file",
    stat.S_IFSOCK: "it is a socket, not a regular file",
    stat.S_IFCHR: "it is a device, not a regular file",
    stat.S_IFBLK: "it is a device, not a regular file",
}


class NotAFileError(OSError):
    """The path is not a regular file."""

    def __init__(self, mode: int, path: str) -> None:
        error_number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        super().__init__(error_number, _TEXT_BY_TYPE.get(stat.S_IFMT(mode), "it is not a regular file"), path)


class TooLargeError(OSError):
    """The file is larger than the limit. `strerror` contains the limit."""

    def __init__(self, limit_bytes: int, path: str) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {_size_text(limit_bytes)}", path)


def read_file(path: str, limit_bytes: int, folder: int | None = None) -> bytes:
    """Return the content of a regular file. Raises OSError, which is a TooLargeError above `limit_bytes`."""
    descriptor = open_file(path, folder)
    try:
        if os.fstat(descriptor).st_size > limit_bytes:
            raise TooLargeError(limit_bytes, path)
        # The size in the status may be wrong, for example in /sys.
        return _read_all(lambda size: os.read(descriptor, size), limit_bytes, path)
    finally:
        os.close(descriptor)


def text_at(path: str, limit_bytes: int = 1 << 20) -> str:
    """Return the stripped text of a file, or "" on error."""
    try:
        return read_file(path, limit_bytes).decode("utf-8", "replace").strip()
    except OSError:  # missing or unreadable
        return ""


def open_file(path: str, folder: int | None = None) -> int:
    """Return a descriptor to read a regular file. Raises OSError, which is a NotAFileError for other types."""
    follow_links = folder is None
    if not stat.S_ISREG(mode := os.stat(path, dir_fd=folder, follow_symlinks=follow_links).st_mode):
        raise NotAFileError(mode, path)
    descriptor = os.open(path, _OPEN_FLAGS | (0 if follow_links else os.O_NOFOLLOW), dir_fd=folder)
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):  # the file was replaced in the meantime
        os.close(descriptor)
        raise NotAFileError(mode, path)
    return descriptor


def read_stream(stream: BinaryIO, limit_bytes: int, name: str) -> bytes:
    """Return all bytes of a stream. Raises TooLargeError above `limit_bytes`."""
    return _read_all(stream.read, limit_bytes, name)


def read_path(path: str, limit_bytes: int) -> bytes:
    """Return the content of a file, device or pipe. Raise OSError if it is too large or unreadable."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        first_bytes = _first_bytes(descriptor)
        if first_bytes == b"" and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe without a writer", path)
        os.set_blocking(descriptor, True)
        first_piece = iter([first_bytes] if first_bytes else [])
        return _read_all(lambda size: next(first_piece, None) or os.read(descriptor, size), limit_bytes, path)
    finally:
        os.close(descriptor)


def _first_bytes(descriptor: int) -> bytes | None:
    """Return the first bytes, or None if a pipe has no data yet."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except BlockingIOError:
        return None


def _read_all(read: Callable[[int], bytes], limit_bytes: int, name: str) -> bytes:
    content = bytearray()
    while chunk := read(_CHUNK_BYTES):
        content += chunk
        if len(content) > limit_bytes:
            raise TooLargeError(limit_bytes, name)
    return bytes(content)


def _size_text(size: int) -> str:
    units = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
    return next((f"{size // unit} {name}" for unit, name in units if size >= unit and not size % unit), f"{size} bytes")
