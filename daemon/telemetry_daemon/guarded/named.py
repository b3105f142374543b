"""Files and Unix sockets at paths that the user named: other users may share the folder, but cannot redirect a write."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import folders
from telemetry_daemon.guarded.folders import ROOT, UnsafeError, reach
from telemetry_daemon.guarded.reading import NotAFileError

_OWN_STREAM = re.compile(r"/dev/(?:(stdout|stderr)|fd/([0-9]+))\Z|/proc/self/fd/([0-9]+)\Z")
_STREAMS = {"stdout": 1, "stderr": 2}
_PROBE_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")
# Python has no name for this option (socket(7), Linux 4.13).
_SO_PEERGROUPS = 59
_MOST_GROUPS = 256  # Python reads options of at most 1,024 bytes


def replace(path: Path, content: bytes, mode: int) -> None:
    """Replace the named file in one step by a file with this content and mode; a link is replaced. Raises OSError."""
    with _folder_of(path) as folder, folders.replacing(folder, path.name) as descriptor:
        folders.write(descriptor, content)
        os.fchmod(descriptor, mode)


def put(path: Path, content: bytes) -> None:
    """Write the named file in one step, for its owner alone; only a regular file is replaced. Raises OSError."""
    with _folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise NotAFileError(status.st_mode, str(path))
        with folders.replacing(folder, path.name) as descriptor:
            folders.write(descriptor, content)
            os.fsync(descriptor)  # else a power cut may leave an empty file under the name


def remove(path: Path) -> None:
    """Remove the named file, if it exists. Raises OSError."""
    with _folder_of(path) as folder:
        folders.remove(folder, path.name)


def stream(path: Path) -> int | None:
    """Return a descriptor to write to a device, pipe or stream, or None for a regular file or a free name. Raises OSError."""
    stream = _OWN_STREAM.match(str(path))
    if stream is not None:
        return os.dup(_STREAMS[stream[1]] if stream[1] else int(stream[2] or stream[3]))
    with _folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        return None if status is None or stat.S_ISREG(status.st_mode) else _opened(folder, path.name, status)


def existing(path: Path) -> int | None:
    """Return a descriptor to read the named regular file, or None if it does not exist. Raises OSError."""
    with _folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


@final
class Claim:
    """Holds a file name. The existing file stays until it is replaced. Raises BlockingIOError if another process holds the name, else OSError."""

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
        """Return the first bytes of the existing file."""
        return os.pread(self._held, most_bytes, 0)

    def put(self, content: bytes) -> int:
        """Replace the name in one step by a new file with this content, for its owner alone. Return a descriptor to write on. Raises OSError."""
        with _folder_of(self._path) as folder:
            self._check(folder)
            with folders.replacing(folder, self._path.name) as descriptor:
                folders.write(descriptor, content)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while the file is written
                kept = os.dup(descriptor)
        self._is_made = False
        return kept

    def close(self) -> None:
        """Release the name, and remove the placeholder if no file was put there. Raises OSError."""
        held, self._held = self._held, -1
        if held < 0:
            return
        try:
            if self._is_made:
                with _folder_of(self._path) as folder:
                    if folders.has(folder, self._path.name, held):
                        folders.remove(folder, self._path.name)
        finally:
            os.close(held)

    def _check(self, folder: int) -> None:
        if not folders.has(folder, self._path.name, self._held):
            raise BlockingIOError(errno.EAGAIN, "another process created the file meanwhile", str(self._path))


@contextlib.contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    if not path.name or path.name == "..":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = reach(path.parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _made_or_opened(folder: int, name: str) -> tuple[int, bool]:
    """Return a descriptor to read the named file, and whether the file was just created."""
    try:
        return folders.create(folder, name, os.O_RDWR), True
    except FileExistsError:  # an earlier file
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder), False


def _opened(folder: int, name: str, status: os.stat_result) -> int:
    """Return a descriptor of a device or pipe; links and other users' pipes are refused."""
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
    raise UnsafeError("another process replaced the file in the meantime")


@contextlib.contextmanager
def new_socket() -> Iterator[socket.socket]:
    """Create a Unix socket, which stays open after the block; an error in the block closes it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        yield made
    except BaseException:
        made.close()
        raise


def connected(path: Path, timeout_seconds: float) -> socket.socket:
    """Return a connection to the Unix socket at the path; a link is refused. Raises OSError."""
    with _folder_of(path) as folder, contextlib.ExitStack() as undo:
        opened = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        undo.callback(os.close, opened)
        if not stat.S_ISSOCK(os.fstat(opened).st_mode):
            raise UnsafeError(f"{path} is no socket; remove it, and restart its daemon")
        with new_socket() as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(f"/proc/self/fd/{opened}")
        return connection


def answers(path: Path) -> bool:
    """Return whether a process listens on the socket; a socket without a listener belonged to a dead daemon."""
    try:
        connected(path, _PROBE_SECONDS).close()
    except OSError:  # no socket, or no listener
        return False
    return True


def is_own_user(connection: socket.socket) -> bool:
    """Return whether the peer process runs as this user or as root."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in (0, os.geteuid())


def is_own_user_or_group(connection: socket.socket) -> bool:
    """Return whether the peer process runs as this user, as root or in this group."""
    if is_own_user(connection):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    groups = array.array("I", [_CREDENTIALS.unpack(credentials)[2]])
    with contextlib.suppress(OSError):  # more groups than Python can ask for, or Linux before 4.13
        groups.frombytes(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS * groups.itemsize))
    return os.getegid() in groups


def bind_unix_socket(path: Path) -> socket.socket:
    """Return a socket bound to the path; a socket without a listener is replaced. Raises OSError, FileExistsError for another file."""
    with _folder_of(path) as folder:
        _clear(folder, path)
        with new_socket() as listener:
            listener.bind(str(path))  # the name by which `ss` shows it; a link in its place is not followed
        return listener


def _clear(folder: int, path: Path) -> None:
    status = folders.status_of(folder, path.name)
    if status is None:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "a file that is not a socket is there", str(path))
    try:
        connected(path, _PROBE_SECONDS).close()
    except ConnectionRefusedError:  # no listener: left by a dead daemon
        folders.remove(folder, path.name)
    else:
        raise OSError(errno.EADDRINUSE, "taken")
