"""Files that the user named: others may share the folder, and still cannot make us write elsewhere."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import below
from telemetry_daemon.guarded.reading import NotAFileError
from telemetry_daemon.guarded.way import ROOT, UnsafeError, reach

_OWN_STREAM = re.compile(r"/dev/(?:(stdout|stderr)|fd/([0-9]+))\Z|/proc/self/fd/([0-9]+)\Z")
_STREAMS = {"stdout": 1, "stderr": 2}


def replace(path: Path, content: bytes, mode: int) -> None:
    """Put a file with this content and mode under the name, in one step; a link is replaced. Raises OSError."""
    with _folder_of(path) as folder, below.replacing(folder, path.name) as descriptor:
        below.write(descriptor, content)
        os.fchmod(descriptor, mode)


def put(path: Path, content: bytes) -> None:
    """Put a file with this content, for its owner alone, under the name in one step; nothing but a regular file is replaced. Raises OSError."""
    with _folder_of(path) as folder:
        status = _status(folder, path.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise NotAFileError(status.st_mode, str(path))
        with below.replacing(folder, path.name) as descriptor:
            below.write(descriptor, content)
            os.fsync(descriptor)  # else a power cut may leave an empty file under the name


def remove(path: Path) -> None:
    """Remove what has the name, if there is anything. Raises OSError."""
    with _folder_of(path) as folder:
        below.remove(folder, path.name)


def stream(path: Path) -> int | None:
    """A descriptor to write to the device, pipe or stream with that name; None if it is a file's, or free. Raises OSError."""
    stream = _OWN_STREAM.match(str(path))
    if stream is not None:
        return os.dup(_STREAMS[stream[1]] if stream[1] else int(stream[2] or stream[3]))
    with _folder_of(path) as folder:
        status = _status(folder, path.name)
        return None if status is None or stat.S_ISREG(status.st_mode) else _opened(folder, path.name, status)


def existing(path: Path) -> int | None:
    """A descriptor to read the regular file with that name; None if there is none. Raises OSError."""
    with _folder_of(path) as folder:
        status = _status(folder, path.name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


@final
class Claim:
    """Holds the name of a file against all who claim it, too. What has the name stays there until something is put in its place.

    Raises BlockingIOError if somebody else holds it, OSError if nothing can be put there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _folder_of(path) as folder:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            self._held, self._is_made = _made_or_opened(folder, path.name)
            try:
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._check(folder)
            except OSError:
                os.close(self._held)
                raise

    def head(self, most_bytes: int) -> bytes:
        """The first bytes of what has the name."""
        return os.pread(self._held, most_bytes, 0)

    def put(self, content: bytes) -> int:
        """A descriptor to write on to: of a new file for its owner alone, which has this content and takes the name in one step. Raises OSError."""
        with _folder_of(self._path) as folder:
            self._check(folder)
            with below.replacing(folder, self._path.name) as descriptor:
                below.write(descriptor, content)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # for as long as it is written to
                kept = os.dup(descriptor)
        self._is_made = False
        return kept

    def close(self) -> None:
        """Hold it no more; where nothing had the name and nothing was put, nothing has it. Raises OSError."""
        held, self._held = self._held, -1
        if held < 0:
            return
        try:
            if self._is_made:
                with _folder_of(self._path) as folder:
                    if _has(folder, self._path.name, held):
                        below.remove(folder, self._path.name)
        finally:
            os.close(held)

    def _check(self, folder: int) -> None:
        """Raise BlockingIOError if somebody else was faster."""
        if not _has(folder, self._path.name, self._held):
            raise BlockingIOError(errno.EAGAIN, "somebody else put a file there meanwhile", str(self._path))


@contextlib.contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    if not path.name or path.name == "..":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = reach(path.parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # a new file, then
        return None


def _made_or_opened(folder: int, name: str) -> tuple[int, bool]:
    """A descriptor to read the file with that name, and whether it was made just now, as there was none."""
    try:
        return below.create(folder, name, os.O_RDWR), True
    except FileExistsError:  # an earlier one
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder), False


def _has(folder: int, name: str, descriptor: int) -> bool:
    status = _status(folder, name)
    return status is not None and os.path.samestat(status, os.fstat(descriptor))


def _opened(folder: int, name: str, status: os.stat_result) -> int:
    """A descriptor of a device or pipe; a link and another user's pipe are refused."""
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed", name)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    ours = stat.S_ISCHR(status.st_mode) or (stat.S_ISFIFO(status.st_mode) and status.st_uid in (ROOT, os.geteuid()))
    if not ours:
        raise UnsafeError("it is no file, and no device or pipe of yours")
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    if os.path.samestat(os.fstat(descriptor), status):
        return descriptor
    os.close(descriptor)
    raise UnsafeError("somebody put another one there meanwhile")
